"""Experiments: configuration, runs that resume, comparisons, reports."""

from fedselect.experiments.compare import Comparison, compare, write_report
from fedselect.experiments.config import Choice, Experiment, read_config
from fedselect.experiments.run import build, read_records, run, run_folder

__all__ = [
    "Choice",
    "Comparison",
    "Experiment",
    "build",
    "compare",
    "read_config",
    "read_records",
    "run",
    "run_folder",
    "write_report",
]
