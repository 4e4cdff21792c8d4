"""Experiments: configuration, runs that resume, comparisons, reports."""

from fedselect.experiments.batch import run_all
from fedselect.experiments.compare import Comparison, compare, write_report
from fedselect.experiments.config import Choice, Experiment, read_config
from fedselect.experiments.run import build, read_records, run, run_folder
from fedselect.experiments.study import beside_paper, show, study_arguments
from fedselect.experiments.tuning import tune

__all__ = [
    "Choice",
    "Comparison",
    "Experiment",
    "beside_paper",
    "build",
    "compare",
    "read_config",
    "read_records",
    "run",
    "run_all",
    "run_folder",
    "show",
    "study_arguments",
    "tune",
    "write_report",
]
