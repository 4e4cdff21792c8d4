"""Several selectors under several seeds, side by side, into one report folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.experiments.batch import run_all
from fedselect.experiments.checkpoint import write_atomically
from fedselect.experiments.config import Choice, Experiment
from fedselect.experiments.figures import counts_figure, curves_figure, gap_figure, save_figure, success_figure
from fedselect.experiments.metrics import round_table, rounds_to
from fedselect.experiments.run import read_records

__all__ = ["Comparison", "compare", "write_report"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs of several selectors.

    Attributes
    ----------
    experiment : Experiment
        What the runs have in common.
    variants : dict of str to Choice
        The selectors by label, in the order given.
    folders : dict of str to list of pathlib.Path
        Run folders of each label, one a seed, in the order of ``seeds``.
    seeds : tuple of int
        Seeds; under one seed every variant met the same availability.
    """

    experiment: Experiment
    variants: dict[str, Choice]
    folders: dict[str, list[Path]]
    seeds: tuple[int, ...]

    def table(self) -> pd.DataFrame:
        """One row a run: its label, seed and summary (see `fedselect.experiments.metrics.summary`)."""
        rows = []
        for label, folders in self.folders.items():
            for seed, folder in zip(self.seeds, folders, strict=True):
                rows.append({"selector": label, "seed": seed, **json.loads((folder / "summary.json").read_text())})
        table = pd.DataFrame(rows)
        # What no run has (None in every summary) is a column of NaN, not one that means over seeds leave out.
        return table.astype({column: float for column in table.columns if table[column].isna().all()})

    def rounds_to(self, target: float, column: str = "accuracy") -> pd.DataFrame:
        """One row a run: rounds until a target (see `fedselect.experiments.metrics.rounds_to`), NaN if never."""
        rows = [
            {"selector": label, "seed": seed, "rounds": rounds_to(round_table(read_records(folder)), target, column)}
            for label, folders in self.folders.items()
            for seed, folder in zip(self.seeds, folders, strict=True)
        ]
        return pd.DataFrame(rows).astype({"rounds": float})

    def means(self) -> pd.DataFrame:
        """One row a label: means over seeds (largest of the maxima), and standard deviations of loss and accuracy."""
        grouped = self.table().drop(columns=["seed"]).groupby("selector", sort=False)
        means = grouped.mean(numeric_only=True)
        for column in ("max_gap", "max_solve_seconds", "longest_absence"):
            means[column] = grouped[column].max()
        for column in ("final_loss", "final_accuracy"):
            means[f"{column}_std"] = grouped[column].std()
        return means.reset_index()


def compare(
    experiment: Experiment,
    variants: Mapping[str, Choice],
    seeds: Sequence[int],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run every selector under every seed; finished runs are not repeated, interrupted ones continue.

    Parameters
    ----------
    experiment : Experiment
        Everything but selector and seed.
    variants : mapping of str to Choice
        Selectors by label.
    seeds : sequence of int
        Seeds of the runs.
    out : path-like
        Directory below which the run folders are made.
    jobs : int
        Runs side by side, each in a process of its own. The number changes nothing in the results (but a busy
        machine solves less within a time limit).
    progress : callable, optional
        Called about twice a second with (rounds done, rounds in all), from a thread of its own.

    Returns
    -------
    Comparison

    Raises
    ------
    ConfigError
        When there is nothing to compare, or a configuration is not accepted; nothing is run then.
    """
    if not variants or not seeds:
        raise ConfigError("a comparison needs at least one selector and one seed")
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"the seeds of a comparison must differ; got {list(seeds)}")
    # Seeds outside, so that a comparison cut short has all selectors under the seeds it reached.
    grid = [
        (label, dataclasses.replace(experiment, seed=seed, selector=choice))
        for seed in seeds
        for label, choice in variants.items()
    ]
    finished = run_all([each for _, each in grid], out, jobs, progress)
    folders: dict[str, list[Path]] = {label: [] for label in variants}
    for (label, _), folder in zip(grid, finished, strict=True):
        folders[label].append(folder)
    return Comparison(experiment, dict(variants), folders, tuple(seeds))


def write_report(comparison: Comparison, folder: str | Path) -> Path:
    """Write the comparison as a folder: ``report.md``, ``results.csv`` and pictures.

    Parameters
    ----------
    comparison : Comparison
        Finished runs.
    folder : path-like
        Where to write; made if missing.

    Returns
    -------
    pathlib.Path
        ``report.md``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    federation = comparison.experiment.federation()
    records = {label: [read_records(path) for path in paths] for label, paths in comparison.folders.items()}
    tables = {label: [round_table(run) for run in runs] for label, runs in records.items()}
    pictures = {"counts": counts_figure(records, len(federation)), "curves": curves_figure(tables)}
    if any(table["gap"].notna().any() for each in tables.values() for table in each):
        pictures["gap"] = gap_figure(tables)
    if any(len(record["returned"]) < len(record["selected"]) for runs in records.values() for record in runs[0]):
        pictures["success"] = success_figure(records, len(federation))
    optimising = [label for label, each in tables.items() if each[0]["gap"].notna().any()]
    label = optimising[0] if optimising else next(iter(records))
    pictures["graph"] = _graph_figure(federation, records[label][0][-1]["selected"])
    captions = {
        "counts": "How often each client was selected (mean over seeds).",
        "curves": "Test loss and accuracy: mean over seeds, band from lowest to highest.",
        "gap": "Certified relative gap of each decision against its solve time.",
        "success": "Share of the selections up to each round whose update arrived.",
        "graph": f"The 3DG of the clients' label distributions; marked: the last selection of {label}.",
    }
    for name, figure in pictures.items():
        save_figure(figure, folder / f"{name}.png")
    write_atomically(folder / "results.csv", comparison.table().to_csv(index=False).encode())
    lines = [
        f"# {comparison.experiment.name}",
        "",
        f"{len(federation)} clients on {federation.name}, {comparison.experiment.rounds} rounds, "
        f"{comparison.experiment.clients_per_round} clients a round, availability "
        f"{comparison.experiment.availability.name}, seeds {', '.join(map(str, comparison.seeds))}.",
        "",
        *_markdown(results_rows(comparison)),
        "",
        "Participation and learning over the whole run (means over seeds):",
        "",
        *_markdown(_course_rows(comparison)),
        "",
    ]
    for name in pictures:
        lines += [f"![{captions[name]}]({name}.png)", "", captions[name], ""]
    path = folder / "report.md"
    write_atomically(path, "\n".join(lines).encode())
    return path


def results_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """The results as text: a heading row, then one row a selector (means over seeds)."""
    rows: list[tuple[str, ...]] = [
        ("selector", "count variance", "test loss", "test accuracy", "mean gap", "proved", "solve time (median, max)")
    ]
    for row in comparison.means().to_dict("records"):
        solved = row["median_solve_seconds"] is not None and not np.isnan(row["median_solve_seconds"] or np.nan)
        gap = row["mean_gap"] is not None and not np.isnan(row["mean_gap"] or 0.0)
        rows.append(
            (
                str(row["selector"]),
                f"{row['count_variance']:.1f}",
                _spread(row, "final_loss", "{:.3f}"),
                _spread(row, "final_accuracy", "{:.3f}"),
                f"{100 * row['mean_gap']:.3g} %" if gap and solved else "-",
                f"{100 * row['proved']:.0f} %" if solved else "-",
                f"{_seconds(row['median_solve_seconds'])}, {_seconds(row['max_solve_seconds'])}" if solved else "-",
            )
        )
    return rows


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


def _course_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """What happened between the first round and the last, a row a selector; worst absence of the seeds."""
    rows: list[tuple[str, ...]] = [("selector", *(heading for heading, _, _ in _COURSE))]
    for row in comparison.means().to_dict("records"):
        values = (
            form.format(row[key]) if row.get(key) is not None and not np.isnan(row[key]) else "-"
            for _, key, form in _COURSE
        )
        rows.append((str(row["selector"]), *values))
    return rows


def _spread(row: Mapping[Any, Any], column: str, form: str) -> str:
    deviation = row[f"{column}_std"]
    text = form.format(row[column])
    return text if np.isnan(deviation) else f"{text} ± {form.format(deviation)}"


def _seconds(value: float) -> str:
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s"


def _markdown(rows: list[tuple[str, ...]]) -> list[str]:
    head, *body = rows
    return [
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(row) + " |" for row in body),
    ]


def _graph_figure(federation: Federation, selected: Sequence[int]) -> Any:
    from graphs import dependency_graph, draw, similarity

    labels = federation.label_distributions
    return draw(dependency_graph(similarity(labels)), selected=selected, labels=labels)
