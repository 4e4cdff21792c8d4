"""Reports of what is in a folder: of one run, of a comparison of selectors, of a comparison of solver methods."""

from fedselect.experiments.recorded import RecordedRun
from fedselect.reports.folder import read_report
from fedselect.reports.methods import methods_report
from fedselect.reports.selectors import results_table, selectors_report, write_report
from fedselect.reports.single import run_report

__all__ = [
    "RecordedRun",
    "methods_report",
    "read_report",
    "results_table",
    "run_report",
    "selectors_report",
    "write_report",
]
