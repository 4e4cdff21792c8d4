"""The report of a comparison of solver methods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedselect.errors import RunError
from fedselect.report import (
    Cell,
    Column,
    Picture,
    Report,
    Table,
    count,
    frame_table,
    number,
    percent,
    seconds,
    word,
)

if TYPE_CHECKING:
    import pandas as pd

    from solvers.comparison import Comparison

__all__ = ["methods_report", "shifted_geometric_mean"]

#: Seconds added before, and taken off after, a geometric mean of times, so that milliseconds do not decide it.
_SHIFT = 1.0

#: What methods that are compared with each other have in common.
_RACE = ("family", "instance", "seed", "time_limit")

#: Methods whose gaps to the best known value differ by no more than this are level.
_LEVEL = 1e-9

#: Columns that are the same in most rows, or too long for a table.
_NOT_SHOWN = ("registered", "options", "sense", "versions")


def methods_report(folder: str | Path) -> Report:
    """Make the report of a folder that ``fedselect bench`` or `solvers.comparison.compare` writes, finished or not.

    Parameters
    ----------
    folder : path-like
        A comparison's folder.

    Returns
    -------
    Report

    Raises
    ------
    ComparisonError, RunError
        When the folder cannot be read, or has no rows yet.
    """
    from solvers.comparison import Comparison

    comparison = Comparison.load(folder)
    table = comparison.table
    if table.empty:
        raise RunError(f"the comparison in {folder} has no rows yet")
    failed = table[table["verdict"] != "ok"]
    notes = []
    if comparison.missing:
        notes.append(f"The comparison is not finished: {comparison.missing} solves are still to come.")
    if len(failed):
        kinds = ", ".join(f"{times} {verdict}" for verdict, times in failed["verdict"].value_counts().items())
        notes.append(f"{len(failed)} of {len(table)} solves failed ({kinds}); they are named below.")
    tables = [_methods_table(table), _instances_table(table)]
    if len(failed):
        tables.append(_failures_table(failed))
    everything = table.drop(columns=list(_NOT_SHOWN))
    tables.append(frame_table("solves", "Every solve: times in seconds, gaps as shares.", everything))
    limits = [f"{limit:g} s" if limit > 0 else "none" for limit in table["time_limit"].unique()]
    return Report(
        Path(folder).resolve().name,
        f"{table['method'].nunique()} methods on {len(table[['family', 'instance']].drop_duplicates())} instances "
        f"({', '.join(table['family'].unique())}), {table['seed'].nunique()} seeds, time limit {', '.join(limits)}.",
        _facts(comparison.manifest, table),
        tuple(notes),
        tuple(tables),
        _pictures(comparison),
    )


def shifted_geometric_mean(values: Any, shift: float = _SHIFT) -> float:
    r"""Shifted geometric mean :math:`\exp(\frac1n \sum_i \ln(t_i + s)) - s`, as solver benchmarks report times."""
    return float(np.exp(np.log(np.asarray(values, dtype=np.float64) + shift).mean()) - shift)


def _methods_table(table: pd.DataFrame) -> Table:
    """A row a method; also a family and a time limit where there are several."""
    good = table["verdict"] == "ok"
    solved = good & table["objective"].notna() & ~table["relaxed"]
    scale = table["best_known"].abs().clip(lower=1.0)
    distance = table["gap_to_best"].where(solved)
    nearest = distance.groupby([table[key] for key in _RACE], dropna=False).transform("min")
    table = table.assign(
        failed=~good,
        solved=solved,
        proved=solved & (table["status"] == "optimal"),
        # A level finish is a win of all that share it: otherwise the order of the methods would decide.
        won=solved & (distance <= nearest + _LEVEL),
        distance=distance,
        bound_gap=((table["bound"] - table["best_known"]).abs() / scale).where(good),
        taken=table["seconds"].where(good, table["time_limit"].fillna(table["seconds"])),
        integral=table["primal_integral"].where(good),
    )
    keys = ["method", *(column for column in ("family", "time_limit") if table[column].nunique(dropna=False) > 1)]
    rows = tuple(
        (
            *_key_cells(key),
            count(len(each)),
            *(count(each[column].sum()) for column in ("solved", "proved", "won")),
            percent(each["distance"].mean()),
            percent(each["bound_gap"].mean()),
            seconds(shifted_geometric_mean(each["taken"].dropna())),
            number(each["integral"].mean()),
            count(each["failed"].sum()),
        )
        for key, each in table.groupby(keys, sort=False, dropna=False)
    )
    headings = (
        "solves",
        "solved",
        "proved",
        "wins",
        "mean gap to best",
        "mean gap of bound",
        "time",
        "primal integral",
    )
    caption = (
        "Solved: a feasible decision; proved: its optimality too; wins: no method was nearer to the best known value "
        "(level finishes count for all). Both gaps are relative distances from the best known value, of what was "
        f"found and of what was proved. Time is the geometric mean shifted by {_SHIFT:g} s; a failure counts its limit."
    )
    return Table("methods", caption, (*_key_columns(keys), *map(Column, (*headings, "failures"))), rows)


def _instances_table(table: pd.DataFrame) -> Table:
    """A row an instance, a column a method: mean objective over seeds, or what went wrong."""
    names = list(dict.fromkeys(table["method"]))
    keys = ["instance", "family", *(["time_limit"] if table["time_limit"].nunique(dropna=False) > 1 else [])]
    rows = []
    for key, each in table.groupby(keys, sort=False, dropna=False):
        by_method = dict(iter(each.groupby("method")))
        rows.append(
            (
                *_key_cells(key),
                count(each["n"].iloc[0]),
                number(each["best_known"].iloc[0], "{:.8g}"),
                *(_outcome(by_method.get(name)) for name in names),
            )
        )
    columns = (*_key_columns(keys), Column("n"), Column("best known"), *map(Column, names))
    caption = "Mean objective over seeds; * where it was proved optimal under every seed."
    return Table("instances", caption, columns, tuple(rows))


def _outcome(solves: pd.DataFrame | None) -> Cell:
    """What a method came to on an instance."""
    if solves is None:
        return Cell("-")
    bad = solves[solves["verdict"] != "ok"]
    if len(bad):
        return Cell(", ".join(dict.fromkeys(bad["verdict"])))
    mean = number(solves["objective"].mean(), "{:.8g}")
    return Cell(f"{mean.text} *", mean.value) if (solves["status"] == "optimal").all() else mean


def _failures_table(failed: pd.DataFrame) -> Table:
    """A row for each way a method failed: where, how often and what was said."""
    rows = []
    for (method, verdict, message), each in failed.groupby(["method", "verdict", "message"], sort=False):
        where = list(dict.fromkeys(each["instance"]))
        named = ", ".join(where[:5]) + (f" and {len(where) - 5} more" if len(where) > 5 else "")
        rows.append((word(method), Cell(str(verdict)), count(len(each)), word(named), word(message)))
    columns = [
        Column(heading, heading == "solves") for heading in ("method", "verdict", "solves", "instances", "message")
    ]
    return Table("failures", "Failures, by method and reason.", tuple(columns), tuple(rows))


def _key_cells(key: tuple[Any, ...]) -> list[Cell]:
    return [number(part, "{:g}") if isinstance(part, int | float) else word(part) for part in key]


def _key_columns(keys: list[str]) -> list[Column]:
    return [Column("time limit (s)") if key == "time_limit" else Column(key, numeric=False) for key in keys]


def _facts(manifest: Mapping[str, Any], table: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    facts = [
        (f"method {row.method}", row.registered if row.options == "{}" else f"{row.registered} {row.options}")
        for row in table[["method", "registered", "options"]].drop_duplicates().itertuples(index=False)
    ]
    facts += [(key.replace("_", " "), str(value)) for key, value in manifest["conditions"].items()]
    return (*facts, ("platform", str(manifest["platform"])), *manifest["versions"].items())


def _pictures(comparison: Comparison) -> tuple[Picture, ...]:
    from solvers.comparison import figures

    # Matplotlib would read a pair of dollar signs in a label as a formula.
    table, traces = (
        frame.assign(method=frame["method"].str.replace("$", r"\$")) for frame in (comparison.table, comparison.traces)
    )
    pictures = [
        Picture(
            "gap-over-time",
            "Gap to the best known value over time: median over instances and seeds, with the band of the middle half.",
            "Line chart, both axes logarithmic, with a falling line for every method.",
            figures.gap_figure(table, traces),
        ),
        Picture(
            "wins",
            "Wins, ties and losses of each method (row) against each other one (column), by gap to the best known.",
            "Matrix of the methods against themselves, with three counts in every field.",
            figures.win_figure(table),
        ),
        Picture(
            "cost-against-size",
            "Seconds against the size of the problem: median, with bars from lowest to highest.",
            "Line chart, both axes logarithmic, with a line for every method.",
            figures.cost_figure(table),
        ),
    ]
    if table["time_to_proof"].notna().any():
        profile = Picture(
            "performance-profile",
            "Performance profile: the share of solves that a method proves within a multiple of the best one's time.",
            "Step chart, horizontal axis logarithmic, with a rising line for every method.",
            figures.profile_figure(table),
        )
        pictures.insert(0, profile)
    return tuple(pictures)
