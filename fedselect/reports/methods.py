"""The report of a benchmark of solver methods."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedselect.errors import RunError
from fedselect.plugins import is_user_defined
from fedselect.reports.document import (
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
from solvers import methods
from solvers.benchmark.profiles import SHIFT, shifted_geometric_mean
from solvers.problem import FAMILIES, Problem
from solvers.reading import without_controls
from solvers.solution import OPTIMALITY_GAP

if TYPE_CHECKING:
    from solvers.benchmark.profiles import Measure

#: Columns that are equal in rows that are compared with each other.
_RACE = ("family", "instance", "seed", "time_limit")

#: Columns that are the same in most rows, or too long for a table.
_NOT_SHOWN = ("registered", "options", "sense", "versions")

#: Captions of the performance profile by what it is over, the most telling first.
_PROFILES: dict[Measure, str] = {
    "time_to_proof": (
        "Performance profile: the share of solves that a method proves within a multiple of the best one's time."
    ),
    "gap": (
        "Performance profile over the certified gap (one method at most proves anything, so times to a proof cannot be "
        "compared): the share of solves whose gap is within a multiple of the best one's; 1e-6 counts as a proof."
    ),
    "gap_to_best": (
        "Performance profile over the primal gap, to the best known value, in which heuristics can be told apart: the "
        "share of solves whose gap is within a multiple of the best one's; gaps of less than 1e-6 are level."
    ),
}


def methods_report(folder: str | Path, *others: str | Path) -> Report:
    """Make the report of a folder that ``fedselect bench`` or `solvers.benchmark.run_benchmark` writes.

    Parameters
    ----------
    folder : path-like
        A benchmark's folder, finished or not.
    *others : path-like
        Folders of further ones, whose rows stand on the same page (`solvers.benchmark.Benchmark.merge`).

    Returns
    -------
    Report

    Raises
    ------
    BenchmarkError, RunError
        When a folder cannot be read, there are no rows yet, or two benchmarks do not go together.
    """
    from solvers.benchmark import Benchmark

    benchmark = Benchmark.load(folder)
    if others:
        benchmark = Benchmark.merge(benchmark, *map(Benchmark.load, others))
    table = benchmark.table
    if table.empty:
        raise RunError(f"the benchmark in {folder} has no rows yet")
    failed = table[table["verdict"] != "ok"]
    notes = []
    if benchmark.missing:
        total = len(table) + benchmark.missing
        why = "Not every benchmark has every row" if others else "The benchmark is not finished"
        notes.append(f"{why}: {len(table)} of {total} solves are done.")
    if len(failed):
        kinds = ", ".join(f"{times} {verdict}" for verdict, times in failed["verdict"].value_counts().items())
        notes.append(f"{len(failed)} of {len(table)} solves have no sound answer ({kinds}); they are named below.")
    own = _own(table)
    # A package that is not installed is no failure of a method: it takes no part in what is compared.
    absent = {method for method, each in table.groupby("method") if (each["verdict"] == "missing").all()}
    there = table[~table["method"].isin(absent)]
    tables = [_methods_table(there, own)] * (len(there) > 0) + [_instances_table(table, own)]
    if len(failed):
        tables.append(failures_table(failed))
    everything = table.drop(columns=list(_NOT_SHOWN))
    tables.append(frame_table("solves", "Every solve: times in seconds, gaps as shares.", everything))
    limits = [f"{limit:g} s" if limit > 0 else "none" for limit in table["time_limit"].unique()]
    return Report(
        " and ".join(Path(each).resolve().name for each in (folder, *others)),
        f"{table['method'].nunique()} methods on {len(table[['family', 'instance']].drop_duplicates())} instances "
        f"({', '.join(table['family'].unique())}), {table['seed'].nunique()} seeds, time limit {', '.join(limits)}.",
        _facts(benchmark.manifest, table),
        tuple(notes),
        tuple(tables),
        _pictures(there, benchmark.traces),
        _result(there),
    )


def _result(table: pd.DataFrame) -> str:
    """Say which method came nearest to the best known values, and which proved most."""
    good = table[(table["verdict"] == "ok") & ~table["relaxed"]]
    if good.empty or table["method"].nunique() < 2:
        return ""
    gaps = good.groupby("method", sort=False)["gap_to_best"].mean().dropna()
    proofs = good[good["status"] == "optimal"].groupby("method", sort=False).size()
    parts = []
    if len(gaps):
        level = " and ".join(gaps.index[gaps <= gaps.min() + OPTIMALITY_GAP])
        parts.append(f"nearest to the best known values on average: {level} (mean gap {percent(gaps.min()).text})")
    if len(proofs):
        most = " and ".join(proofs.index[proofs == proofs.max()])
        parts.append(f"most proofs: {most} ({proofs.max()} of {int((table['method'] == proofs.idxmax()).sum())})")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _methods_table(table: pd.DataFrame, own: Collection[str]) -> Table:
    """Tabulate methods, user-defined ones first; by family and time limit, too, where there are several."""
    names = list(table["method"].unique())
    order = {name: k for k, name in enumerate(sorted(names, key=lambda name: name not in own))}
    table = table.sort_values("time_limit", kind="stable")
    table = table.sort_values("method", key=lambda column: column.map(order), kind="stable")
    good = table["verdict"] == "ok"
    solved = good & table["objective"].notna() & ~table["relaxed"]
    beyond = (table["bound"] - table["best_known"]).abs()
    distance = table["gap_to_best"].where(solved)
    nearest = distance.groupby([table[key] for key in _RACE], dropna=False).transform("min")
    table = table.assign(
        failed=~good,
        solved=solved,
        proved=solved & (table["status"] == "optimal"),
        # A level finish is a win of all that share it: otherwise the order of the methods would decide.
        won=solved & (distance <= nearest + OPTIMALITY_GAP),
        # At most 1: a best value near 0 would outweigh all other instances.
        distance=distance.clip(upper=1.0),
        bound_gap=(beyond / table["best_known"].abs()).where(beyond > 0, beyond).clip(upper=1.0).where(good),
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
    counts = ("solves", "solved", "proved", "wins")
    measures = ("mean gap to best", "mean gap of bound", "time", "primal integral", "failures")
    caption = (
        "Solved: a feasible decision; proved: its optimality too; wins: no method was nearer to the best known value "
        "(level finishes count for all). Both gaps are distances from the best known value over its amount, 100 % at "
        "most: of what was found, and of what was proved. Time is the geometric mean "
        f"shifted by {SHIFT:g} s; a failure counts its limit."
    )
    return Table("methods", caption, (*_key_columns(keys), *map(Column, (*counts, *measures))), rows)


def _own(table: pd.DataFrame) -> set[str]:
    """Labels of the methods that are not the toolkit's."""
    for family in set(table["family"]) & set(FAMILIES):
        importlib.import_module(f"solvers.{family}")
    known = {each.name for problem in Problem.types() for each in methods(problem) if not is_user_defined(each)}
    return {row.method for row in table[["method", "registered"]].itertuples() if row.registered not in known}


def _instances_table(table: pd.DataFrame, own: Collection[str]) -> Table:
    """Tabulate instances by method: mean objective over seeds, or the verdicts of failures."""
    names = sorted(dict.fromkeys(table["method"]), key=lambda name: name not in own)  # own ones stay in view
    keys = ["instance", *(key for key in ("family", "time_limit") if table[key].nunique(dropna=False) > 1)]
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
    caption = (
        "Mean objective over seeds; * where it was proved optimal under every seed; a bound where a method answers a "
        "relaxation."
    )
    return Table("instances", caption, columns, tuple(rows))


def _outcome(solves: pd.DataFrame | None) -> Cell:
    """Return the cell of a method on an instance."""
    if solves is None:
        return Cell("-")
    bad = solves[solves["verdict"] != "ok"]
    if len(bad):
        return Cell(", ".join(dict.fromkeys(bad["verdict"])))
    if solves["relaxed"].any():
        bound = number(solves["bound"].mean(), "{:.8g}")
        return Cell(f"{'≤' if solves['sense'].iloc[0] == 'max' else '≥'} {bound.text}", bound.value)
    mean = number(solves["objective"].mean(), "{:.8g}")
    return Cell(f"{mean.text} *", mean.value) if (solves["status"] == "optimal").all() else mean


def failures_table(failed: pd.DataFrame) -> Table:
    """Tabulate failures by method, verdict and message: where and how often."""
    rows = []
    for (method, verdict, message), each in failed.groupby(["method", "verdict", "message"], sort=False):
        where = list(dict.fromkeys(each["instance"]))
        named = ", ".join(where[:5]) + (f" and {len(where) - 5} more" if len(where) > 5 else "")
        rows.append((word(method), Cell(str(verdict)), count(len(each)), word(named), word(message)))
    headings = ("method", "verdict", "solves", "instances", "message")
    columns = tuple(Column(heading, numeric=heading == "solves") for heading in headings)
    return Table("failures", "Solves without a sound answer, by method and reason.", columns, tuple(rows))


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
    where = [("machine", str(manifest["platform"])), ("commit", str(manifest.get("commit", "not known")))]
    return (*facts, *where, *manifest["versions"].items())


def _pictures(table: pd.DataFrame, traces: pd.DataFrame) -> tuple[Picture, ...]:
    from solvers.benchmark import figures

    if table.empty:
        return ()

    # Matplotlib would read a pair of dollar signs in a label as a formula.
    table, traces = (
        frame.assign(method=frame["method"].map(lambda name: without_controls(name).replace("$", r"\$")))
        for frame in (table, traces)
    )
    pictures = [
        Picture(
            "gap-over-time",
            "Gap to the best known value over time: median over instances and seeds, with the band of the middle half.",
            "Line chart, both axes logarithmic, with a falling line for every method.",
            figures.gap_figure(table, traces),
        ),
        Picture(
            "cost-against-size",
            "Seconds against the size of the problem: median, with bars from lowest to highest.",
            "Line chart, both axes logarithmic, with a line for every method.",
            figures.cost_figure(table),
        ),
    ]
    traced = table[(table["verdict"] == "ok") & table["bound"].notna() & table["objective"].notna() & ~table["relaxed"]]
    if len(traced):
        pictures.append(_trajectory(traced.loc[traced["seconds"].idxmax()], traces))
    if table.loc[~table["relaxed"], "method"].nunique() > 1:
        wins = Picture(
            "wins",
            "Wins, ties and losses of each method (row) against each other one (column), by gap to the best known.",
            "Matrix of the methods against themselves, with three counts in every field.",
            figures.win_figure(table),
        )
        pictures.insert(1, wins)
    limits = table["time_limit"].nunique(dropna=False)
    panels = " A panel per time limit." if limits > 1 else ""
    profiles = [
        Picture(
            "performance-profile" if place == 0 else "primal-profile",
            _PROFILES[measure] + panels,
            "Step chart, horizontal axis logarithmic, with a rising line for every method.",
            figures.profile_figure(table, measure),
        )
        for place, measure in enumerate(_profiled(table))
    ]
    return (*profiles, *pictures)


def _profiled(table: pd.DataFrame) -> list[Measure]:
    """Measures of the profiles: the first that two methods have, as one curve compares nothing, and the primal gap."""
    good = table[(table["verdict"] == "ok") & ~table["relaxed"]]
    compared = {
        measure: good.loc[np.isfinite(good[measure].astype(float)), "method"].nunique() for measure in _PROFILES
    }
    found = [measure for measure, number in compared.items() if number > 1]
    return found[:1] + [measure for measure in found[1:] if measure == "gap_to_best"]


def _trajectory(row: pd.Series, traces: pd.DataFrame) -> Picture:
    """Draw the course of one solve."""
    from solvers.benchmark import figures

    same = (traces[key] == row[key] for key in ("instance", "method", "seed"))
    limit = traces["time_limit"].isna() if math.isnan(row["time_limit"]) else traces["time_limit"] == row["time_limit"]
    trace = traces[functools.reduce(operator.and_, same, limit)]
    method = row["method"].replace(r"\$", "$")
    return Picture(
        "trajectory",
        f"Objective and bound of the longest solve that has both, to its end: {method} on {row['instance']}, seed "
        f"{row['seed']}.",
        "Two step lines over the seconds that close in on each other.",
        figures.trajectory_figure(trace, until=float(row["seconds"])),
    )
