"""Experiments: configuration, runs that resume, comparisons, reports."""

from fedselect.experiments.batch import carried_by, run_all
from fedselect.experiments.compare import Comparison, compare
from fedselect.experiments.config import Choice, Experiment, read_config
from fedselect.experiments.run import build, build_scenario, read_records, read_summary, run, run_folder
from fedselect.reports import read_report, write_report
from fedselect.studies.frame import beside_paper, show, study_arguments
from fedselect.studies.tuning import tune

__all__ = [
    "Choice",
    "Comparison",
    "Experiment",
    "beside_paper",
    "build",
    "build_scenario",
    "carried_by",
    "compare",
    "read_config",
    "read_records",
    "read_report",
    "read_summary",
    "run",
    "run_all",
    "run_folder",
    "show",
    "study_arguments",
    "tune",
    "write_report",
]
