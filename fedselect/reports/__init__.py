"""Reports of a folder (a run, a comparison of selectors or of solver methods), or of a federation before any run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedselect.errors import RunError
from fedselect.experiments.comparison import FORMAT, read_manifest
from fedselect.experiments.config import read_config
from fedselect.experiments.folder import RecordedRun
from fedselect.plugins import load_plugins
from fedselect.reports.document import Report
from fedselect.reports.federation import federation_report
from fedselect.reports.methods import methods_report
from fedselect.reports.runs import (
    differences_table,
    read_runs,
    results_table,
    run_report,
    selectors_report,
    write_report,
)
from solvers.benchmark.store import holds_benchmark

__all__ = [
    "RecordedRun",
    "differences_table",
    "federation_report",
    "methods_report",
    "read_report",
    "results_table",
    "run_report",
    "selectors_report",
    "write_report",
]


def read_report(folder: str | Path, load: Iterable[str] = ()) -> Report:
    """Make the report of a folder, or of a configuration.

    Parameters
    ----------
    folder : path-like
        A run folder (``fedselect run``), finished or not; a comparison of selectors (``fedselect compare``: the
        folder that holds the run folders); or a comparison of solver methods (``fedselect bench``). The TOML file of
        an experiment gives the report of its federation, before any run.
    load : iterable of str
        Plugins to load, which executes them (`fedselect.plugins.load_plugins`); what a configuration names itself is
        not loaded.

    Returns
    -------
    Report

    Raises
    ------
    RunError
        When it is none of these, or a file in it cannot be read.
    ConfigError
        When it is a file, and no configuration of an experiment.
    """
    folder = Path(folder)
    if folder.is_file():
        return federation_report(read_config(folder, load=load, trusted=False)[0])
    load_plugins(load)
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}")
    if RecordedRun.here(folder):
        return run_report(RecordedRun.read(folder))
    if holds_benchmark(folder):
        return methods_report(folder)
    manifest = read_manifest(folder)
    if manifest.get("format", FORMAT) != FORMAT:
        raise RunError(
            f"{folder / 'comparison.json'} is of format {manifest['format']!r}; this version reads {FORMAT!r}"
        )
    runs = read_runs(folder, manifest)
    if any(run for each in runs.values() for run in each.values()):
        return selectors_report(folder.resolve().name, runs)
    raise RunError(
        f"{folder} is neither a run folder (config.toml, origin.json, rounds.jsonl) nor a comparison: it holds no "
        f"run folder, and no benchmark.json of a benchmark of solver methods"
    )
