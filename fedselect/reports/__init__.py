"""Reports of a folder (a run, a comparison of selectors or of solver methods), or of a federation before any run."""

from fedselect.experiments.folder import RecordedRun
from fedselect.reports.federation import federation_report
from fedselect.reports.folder import read_report
from fedselect.reports.methods import methods_report
from fedselect.reports.selectors import results_table, selectors_report, write_report
from fedselect.reports.single import run_report

__all__ = [
    "RecordedRun",
    "federation_report",
    "methods_report",
    "read_report",
    "results_table",
    "run_report",
    "selectors_report",
    "write_report",
]
