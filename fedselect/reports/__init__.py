"""Reports of a folder (a run, a comparison of selectors or of solver methods), or of a federation before a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.errors import ConfigError, RunError
from fedselect.experiments.comparison import FORMAT, read_manifest
from fedselect.experiments.config import read_config
from fedselect.experiments.reading import RecordedRun
from fedselect.measures import client_rounds
from fedselect.plugins import load_plugins
from fedselect.reports.document import Report
from fedselect.reports.federation import federation_report
from fedselect.reports.methods import methods_report
from fedselect.reports.runs import (
    differences_table,
    known_columns,
    less_needed,
    read_runs,
    result_of,
    results_table,
    run_report,
    same_decisions,
    selectors_report,
    write_report,
)
from solvers.benchmark.store import holds_benchmark

__all__ = [
    "RecordedRun",
    "client_rounds_of",
    "differences_table",
    "federation_report",
    "known_columns",
    "less_needed",
    "methods_report",
    "read_report",
    "result_of",
    "results_table",
    "run_report",
    "same_decisions",
    "selectors_report",
    "write_report",
]


def client_rounds_of(folder: str | Path) -> pd.DataFrame:
    """Tabulate clients by rounds, of a run or of those runs of a comparison that have begun.

    Returns
    -------
    DataFrame
        ``selector``, ``seed``, and the columns of `fedselect.measures.client_rounds`.

    Raises
    ------
    RunError
        When the folder holds no run, or a file in it cannot be read.
    """
    folder = Path(folder)
    if RecordedRun.here(folder):
        run = RecordedRun.read(folder)
        runs = [(str(run.config["selector"]["name"]), run)]
    else:
        found = read_runs(folder, _manifest(folder)) if folder.is_dir() else {}
        runs = [(label, run) for label, each in found.items() for run in each.values() if run is not None]
    if not runs:
        raise RunError(f"{folder} holds no run of a selector, which a table of clients by rounds is about")
    parts = [client_rounds(run.records).assign(selector=label, seed=run.seed) for label, run in runs]
    table = pd.concat(parts, ignore_index=True)
    return table[["selector", "seed", *(name for name in table.columns if name not in ("selector", "seed"))]]


def _manifest(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    if manifest.get("format", FORMAT) != FORMAT:
        raise RunError(
            f"{folder / 'comparison.json'} is of format {manifest['format']!r}; this version reads {FORMAT!r}"
        )
    return manifest


def read_report(folder: str | Path, load: Iterable[str] = (), columns: Sequence[str] = ()) -> Report:
    """Make the report of a folder, or of a configuration.

    Parameters
    ----------
    folder : path-like
        A run folder (``fedselect run``), finished or not; a comparison of selectors (``fedselect compare``: the
        folder that holds the run folders); or a comparison of solver methods (``fedselect bench``). The TOML file of
        an experiment gives the report of its federation.
    load : iterable of str
        Plugins to load, which executes them (`fedselect.plugins.load_plugins`). Those of a run folder's configuration
        are not loaded; a TOML file is refused that names others.
    columns : sequence of str
        Names of the measures to tabulate, in this order, of a run or a comparison of selectors; all if left out.

    Returns
    -------
    Report

    Raises
    ------
    RunError
        When it is none of these, or a file in it cannot be read.
    BenchmarkError
        When the folder of a benchmark cannot be read.
    ConfigError
        When it is a file, and no configuration of an experiment; when there is no measure of a name, or columns are
        named of something else than runs. Of a configuration, also the errors of `federation_report`.
    """
    folder = Path(folder)
    if columns and (folder.is_file() or holds_benchmark(folder)):
        raise ConfigError("columns are named of runs of selectors alone")
    if folder.is_file():
        return federation_report(read_config(folder, load=load, trusted=False)[0])
    load_plugins(load)
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}")
    if RecordedRun.here(folder):
        return run_report(RecordedRun.read(folder), columns)
    if holds_benchmark(folder):
        return methods_report(folder)
    runs = read_runs(folder, _manifest(folder))
    if any(run for each in runs.values() for run in each.values()):
        return selectors_report(folder.resolve().name, runs, columns)
    raise RunError(
        f"{folder} is neither a run folder (config.toml, origin.json, rounds.jsonl) nor a comparison: it holds no "
        f"run folder, and no benchmark.json of a benchmark of solver methods"
    )
