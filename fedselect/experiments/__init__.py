"""Experiments: configuration, runs that resume, comparisons."""

from fedselect.experiments.comparison import Comparison, compare, sweep
from fedselect.experiments.config import Choice, Experiment, read_config
from fedselect.experiments.folder import run_folder
from fedselect.experiments.reading import RecordedRun, read_records, read_summary
from fedselect.experiments.running import build, build_scenario, build_selector, carried_by, run, run_all

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
