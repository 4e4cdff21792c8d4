"""Experiments: configuration, runs that resume, comparisons."""

from fedselect.experiments.batch import carried_by, run_all
from fedselect.experiments.building import build, build_scenario, build_selector
from fedselect.experiments.comparison import Comparison, compare
from fedselect.experiments.config import Choice, Experiment, read_config
from fedselect.experiments.folder import run_folder
from fedselect.experiments.recorded import RecordedRun
from fedselect.experiments.records import read_records, read_summary
from fedselect.experiments.running import run
from fedselect.experiments.sweeps import sweep

__all__ = [
    "Choice",
    "Comparison",
    "Experiment",
    "RecordedRun",
    "build",
    "build_scenario",
    "build_selector",
    "carried_by",
    "compare",
    "read_config",
    "read_records",
    "read_summary",
    "run",
    "run_all",
    "run_folder",
    "sweep",
]
