"""The report of a comparison of solver methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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

__all__ = ["FORMAT", "methods_report", "shifted_geometric_mean"]

#: What ``comparison.json`` of a comparison of methods says of itself.
FORMAT = "solvers-comparison/1"

#: Seconds added before, and taken off after, a geometric mean of times, so that milliseconds do not decide it.
_SHIFT = 1.0

#: Methods whose gaps to the best known value differ by no more than this are level.
_LEVEL = 1e-9

#: Columns of ``results.csv`` that the tables need.
_NEEDED = (
    *("family", "instance", "n", "method", "seed", "time_limit", "verdict", "status", "objective", "gap"),
    *("best_known", "gap_to_best", "primal_integral", "seconds", "message"),
)

#: Columns that are the same in most rows, or too long for a table.
_NOT_SHOWN = ("registered", "options", "versions")


def methods_report(folder: str | Path) -> Report:
    """Make the report of a folder that ``fedselect bench`` or `solvers.comparison` has written.

    Parameters
    ----------
    folder : path-like
        Holds ``results.csv``, one row a solve.

    Returns
    -------
    Report

    Raises
    ------
    RunError
        When there is no such table, it has no rows yet, or lacks a column.
    """
    path = Path(folder) / "results.csv"
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    missing = [column for column in _NEEDED if column not in table.columns]
    if missing:
        raise RunError(f"{path} lacks the column {missing[0]!r}")
    if table.empty:
        raise RunError(f"{path} has no rows yet")
    table["message"] = table["message"].fillna("")
    failed = table[table["verdict"] != "ok"]
    notes = []
    if len(failed):
        kinds = ", ".join(f"{number} {verdict}" for verdict, number in failed["verdict"].value_counts().items())
        notes.append(f"{len(failed)} of {len(table)} solves count as failures ({kinds}); they are named below.")
    tables = [_methods_table(table), _instances_table(table)]
    if len(failed):
        tables.append(_failures_table(failed))
    everything = table.drop(columns=[column for column in _NOT_SHOWN if column in table.columns])
    tables.append(frame_table("solves", "Every solve; seconds, and gaps as shares.", everything))
    limits = ", ".join(f"{limit:g}" for limit in sorted(table["time_limit"].unique()))
    return Report(
        f"Comparison of methods: {Path(folder).resolve().name}",
        f"{table['method'].nunique()} methods on {len(_instances(table))} instances of "
        f"{', '.join(map(str, table['family'].unique()))}, {table['seed'].nunique()} seeds, time limit {limits} s.",
        _facts(table),
        tuple(notes),
        tuple(tables),
        _pictures(table),
    )


def shifted_geometric_mean(values: Any, shift: float = _SHIFT) -> float:
    r"""Shifted geometric mean :math:`\exp(\frac1n \sum_i \ln(t_i + s)) - s`, as solver benchmarks report times."""
    return float(np.exp(np.log(np.asarray(values, dtype=np.float64) + shift).mean()) - shift)


def _methods_table(table: pd.DataFrame) -> Table:
    """A row a method; also a family and a time limit where there are several."""
    table = table.assign(
        solved=(table["verdict"] == "ok") & table["objective"].notna(),
        taken=table["seconds"].where(table["verdict"] == "ok", table["time_limit"]),
    )
    table["proved"] = table["solved"] & (table["status"] == "optimal")
    race = [table[key] for key in ("family", "instance", "seed", "time_limit")]
    distance = table["gap_to_best"].where(table["solved"])
    # A level finish is a win of all that share it: otherwise the order of the methods would decide.
    table["won"] = table["solved"] & (distance <= distance.groupby(race).transform("min") + _LEVEL)
    keys = ["method", *_varying(table)]
    rows = []
    for key, each in table.groupby(keys, sort=False):
        solved = each[each["solved"]]
        rows.append(
            (
                *_key_cells(key),
                count(len(each)),
                count(each["solved"].sum()),
                count(each["proved"].sum()),
                count(each["won"].sum()),
                percent(solved["gap_to_best"].mean()),
                percent(solved["gap"].mean()),
                seconds(shifted_geometric_mean(each["taken"])),
                number(solved["primal_integral"].mean()),
                count((each["verdict"] != "ok").sum()),
            )
        )
    headings = ("solves", "solved", "proved", "wins", "mean gap to best", "mean gap", "time", "primal integral")
    caption = (
        "Methods. Solved: a feasible decision; proved: its optimality too; wins: nobody was nearer to the best known "
        "value (level finishes count for all). Gaps are means over what was solved; time is the geometric mean "
        f"shifted by {_SHIFT:g} s, where a failure counts its time limit."
    )
    columns = (*_key_columns(keys), *map(Column, (*headings, "failures")))
    return Table("methods", caption, columns, tuple(rows))


def _instances_table(table: pd.DataFrame) -> Table:
    """A row an instance, a column a method: mean objective over seeds, or what went wrong."""
    names = list(dict.fromkeys(table["method"]))
    several = ["time_limit"] if table["time_limit"].nunique() > 1 else []
    rows = []
    for key, each in table.groupby(["instance", "family", *several], sort=False):
        by_method = dict(iter(each.groupby("method")))
        rows.append(
            (
                *_key_cells(key),
                count(each["n"].iloc[0]),
                number(each["best_known"].iloc[0], "{:.8g}"),
                *(_outcome(by_method.get(name)) for name in names),
            )
        )
    columns = (*_key_columns(["instance", "family", *several]), Column("n"), Column("best known"), *map(Column, names))
    caption = "Instances: mean objective over seeds; * where it was proved optimal under every seed."
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


def _varying(table: pd.DataFrame) -> list[str]:
    return [column for column in ("family", "time_limit") if table[column].nunique() > 1]


def _key_cells(key: tuple[Any, ...]) -> list[Cell]:
    return [number(part, "{:g}") if isinstance(part, int | float) else word(part) for part in key]


def _key_columns(keys: list[str]) -> list[Column]:
    return [Column("time limit (s)") if key == "time_limit" else Column(key, numeric=False) for key in keys]


def _instances(table: pd.DataFrame) -> pd.DataFrame:
    return table[["family", "instance"]].drop_duplicates()


def _facts(table: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    facts = []
    if {"registered", "options"} <= set(table.columns):
        for row in table[["method", "registered", "options"]].drop_duplicates().itertuples(index=False):
            facts.append((f"method {row.method}", f"{row.registered} {row.options}".strip()))
    if "versions" in table.columns:
        facts += [("versions", str(versions)) for versions in table["versions"].dropna().unique()]
    return tuple(facts)


def _pictures(table: pd.DataFrame) -> tuple[Picture, ...]:
    return ()
