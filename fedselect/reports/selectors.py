"""The report of a comparison of selectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.errors import RunError
from fedselect.experiments.comparison import Comparison, mean_table, summary_table
from fedselect.experiments.folder import RecordedRun
from fedselect.reports.document import Cell, Column, Report, Table, count, number, percent, save, seconds, word
from fedselect.reports.pictures import pictures_of
from fedselect.reports.single import facts_of
from solvers.files import spreadsheet_csv, write_atomically
from solvers.options import matches

__all__ = ["read_runs", "results_table", "selectors_report", "write_report"]

#: The runs of each label by seed; None for those that have not begun.
Runs = Mapping[str, Mapping[int, RecordedRun | None]]


def write_report(comparison: Comparison, folder: str | Path) -> Path:
    """Write the comparison as a folder: ``report.html``, ``report.md``, ``results.csv`` and pictures.

    Parameters
    ----------
    comparison : Comparison
        Finished runs.
    folder : path-like
        Where to write; made if missing.

    Returns
    -------
    pathlib.Path
        ``report.md``; ``report.html``, beside it, is the same as one self-contained page.
    """
    runs = {
        label: {seed: RecordedRun.read(path) for seed, path in zip(comparison.seeds, paths, strict=True)}
        for label, paths in comparison.folders.items()
    }
    _, path, *_ = save(selectors_report(comparison.experiment.name, runs), folder, ("html", "md"))
    write_atomically(path.parent / "results.csv", spreadsheet_csv(comparison.table()))
    return path


def selectors_report(name: str, runs: Runs) -> Report:
    """Make the report of a comparison.

    Parameters
    ----------
    name : str
        Its name.
    runs : mapping of str to mapping of int to RecordedRun or None
        The runs of each label by seed; None for one that has not begun.

    Returns
    -------
    Report
        Numbers and pictures are over the seeds under which every selector has finished, so that all have met the same
        availability; what is left out is said.
    """
    seeds = _common_seeds(runs)
    compared = {label: [run for seed in seeds if (run := each[seed]) is not None] for label, each in runs.items()}
    begun = [run for each in runs.values() for run in each.values() if run is not None]
    notes = _left_out(runs, seeds)
    tables = [_runs_table(runs)]
    pictures: tuple[Any, ...] = ()
    if seeds:
        means = mean_table(
            summary_table((label, run.seed, run.results or {}) for label, each in compared.items() for run in each)
        )
        pictures, missing = pictures_of(compared)
        notes += missing
        tables = [results_table(means), _course_table(means), *tables]
    config = begun[0].config
    head = config["experiment"]
    return Report(
        name,
        f"{begun[0].n_clients} clients on {config['data'].get('name', '?')}, {head['rounds']} rounds, "
        f"{head['clients_per_round']} clients a round, availability {config.get('availability', {}).get('name', '?')}, "
        f"seeds {', '.join(map(str, seeds)) or 'none yet'}.",
        facts_of(begun, {label: _selector(each) for label, each in runs.items()}),
        tuple(notes),
        tuple(tables),
        pictures,
    )


def read_runs(folder: Path, manifest: Mapping[str, Any]) -> dict[str, dict[int, RecordedRun | None]]:
    """The runs in a folder by label and seed.

    Parameters
    ----------
    folder : pathlib.Path
        Holds run folders.
    manifest : mapping
        Its ``comparison.json``, which says what was compared and how it is called; without it (empty), the runs are
        told apart by their configurations and named after what differs.

    Returns
    -------
    dict of str to dict of int to RecordedRun or None
        None for a run that the manifest names and that has not begun.
    """
    if manifest:
        seeds, runs = manifest.get("seeds", []), manifest.get("runs")
        if (
            not matches(seeds, list[int])
            or not isinstance(runs, dict)
            or not all(matches(names, list[str]) and len(names) == len(seeds) for names in runs.values())
        ):
            raise RunError(f"the comparison.json of {folder} does not give a run for every label and seed")
        for name in (name for names in runs.values() for name in names):
            if (folder / name).resolve().parent != folder.resolve():
                raise RunError(f"the comparison.json of {folder} names {name!r}, which is no folder inside")
        pairs = {label: list(zip(seeds, names, strict=True)) for label, names in runs.items()}
        return {label: {seed: _begun(folder / name) for seed, name in each} for label, each in pairs.items()}
    groups: dict[str, list[RecordedRun]] = {}
    for path in sorted(folder.iterdir()):
        if RecordedRun.here(path):
            run = RecordedRun.read(path)
            groups.setdefault(json.dumps(_flat(run.config), sort_keys=True, default=str), []).append(run)
    labels = _labels([_flat(each[0].config) for each in groups.values()])
    return {
        label: {run.seed: run for run in sorted(each, key=lambda run: run.seed)}
        for label, each in sorted(zip(labels, groups.values(), strict=True), key=lambda pair: pair[0])
    }


def results_table(means: pd.DataFrame) -> Table:
    """The results, a row a selector.

    Parameters
    ----------
    means : DataFrame
        From `fedselect.experiments.Comparison.means`.

    Returns
    -------
    Table
    """
    headings = ("count variance", "test loss", "test accuracy", "mean gap", "proved", "solve time (median, max)")
    rows = tuple(
        (
            word(row["selector"]),
            number(row["count_variance"], "{:.1f}"),
            number(row["final_loss"], "{:.3f}", row["final_loss_std"]),
            number(row["final_accuracy"], "{:.3f}", row["final_accuracy_std"]),
            percent(row["mean_gap"]),
            percent(row["proved"], "{:.0f}"),
            seconds(row["median_solve_seconds"], row["max_solve_seconds"]),
        )
        for row in means.to_dict("records")
    )
    return Table(
        "results",
        "Means over seeds, ± standard deviation. Gaps are relative to the mean |objective| of a run.",
        _columns(*headings),
        rows,
    )


#: Heading, key of the summary and format of the report's second table.
_COURSE = (
    ("Jain index", "jain_index", "{:.3f}"),
    ("longest absence (rounds)", "longest_absence", "{:.0f}"),
    ("success ratio", "success_ratio", "{:.3f}"),
    ("distance to target importance", "importance_distance", "{:.3f}"),
    ("best accuracy", "best_accuracy", "{:.3f}"),
    ("mean accuracy", "mean_accuracy", "{:.3f}"),
    ("late deviation", "late_accuracy_deviation", "{:.4f}"),
    ("worst client's accuracy", "client_accuracy_worst", "{:.3f}"),
)


def _course_table(means: pd.DataFrame) -> Table:
    """What happened between the first round and the last, a row a selector; worst absence of the seeds."""
    rows = tuple(
        (word(row["selector"]), *(number(row.get(key), form) for _, key, form in _COURSE))
        for row in means.to_dict("records")
    )
    caption = "Participation and learning over the whole run: means over seeds, the longest absence of any."
    return Table("course", caption, _columns(*(heading for heading, _, _ in _COURSE)), rows)


def _runs_table(runs: Runs) -> Table:
    """Every run, finished or not."""
    rows = []
    for label, each in runs.items():
        for seed, run in each.items():
            results = (run and run.results) or {}
            rows.append(
                (
                    word(label),
                    count(seed),
                    Cell(run.state if run else "not begun"),
                    number(results.get("count_variance"), "{:.1f}"),
                    number(results.get("final_loss")),
                    number(results.get("final_accuracy")),
                    percent(results.get("mean_gap")),
                    seconds(results.get("median_solve_seconds")),
                )
            )
    columns = list(_columns("seed", "state", "count variance", "test loss", "test accuracy", "mean gap", "solve time"))
    columns[2] = Column("state", numeric=False)
    return Table(
        "runs",
        "Every run. Gaps are relative to the mean |objective| of a run.",
        tuple(columns),
        tuple(rows),
        detail=True,
    )


def _columns(*headings: str) -> tuple[Column, ...]:
    return (Column("selector", numeric=False), *map(Column, headings))


def _common_seeds(runs: Runs) -> list[int]:
    finished = [{seed for seed, run in each.items() if run and run.finished} for each in runs.values()]
    return sorted(set.intersection(*finished))


def _left_out(runs: Runs, seeds: list[int]) -> list[str]:
    """Sentences about the runs that no number speaks of."""
    unfinished = [
        f"{label} under seed {seed} ({run.state if run else 'not begun'})"
        for label, each in runs.items()
        for seed, run in each.items()
        if not (run and run.finished)
    ]
    alone = [
        f"{label} under seed {seed}"
        for label, each in runs.items()
        for seed, run in each.items()
        if run and run.finished and seed not in seeds
    ]
    notes = []
    if unfinished:
        notes.append(f"Not finished: {', '.join(unfinished)}.")
    if alone:
        notes.append(f"Finished, but left out, as not every selector has finished under its seed: {', '.join(alone)}.")
    if not seeds:
        notes.append("No seed has finished runs of every selector, so there is nothing to compare yet.")
    return notes


def _begun(path: Path) -> RecordedRun | None:
    return RecordedRun.read(path) if RecordedRun.here(path) else None


def _selector(runs: Mapping[int, RecordedRun | None]) -> Mapping[str, Any]:
    return next((run.config["selector"] for run in runs.values() if run), {"name": "(not begun)"})


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as ``section.key: value``, less what does not tell the runs of a comparison apart."""
    flat = {f"{section}.{key}": value for section, table in config.items() for key, value in table.items()}
    for key in ("name", "seed", "checkpoint_every"):
        flat.pop(f"experiment.{key}", None)
    return flat


def _labels(configs: list[dict[str, Any]]) -> list[str]:
    """Names for configurations: the selector's, and in brackets what tells it from others of that name."""
    labels = []
    for config in configs:
        name = config.get("selector.name")
        peers = [other for other in configs if other.get("selector.name") == name]
        differing = {
            key
            for key in set().union(*configs)
            for others in [peers if key.startswith("selector.") else configs]
            if any(other.get(key) != config.get(key) for other in others)
        }
        options = [f"{key.removeprefix('selector.')} = {config[key]}" for key in sorted(differing) if key in config]
        labels.append(f"{name} ({', '.join(options)})" if options else str(name))
    return labels
