"""Tables of a study: beside a paper's published numbers, between methods under paired seeds, in long form, printed."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd

from fedselect import terminal
from fedselect.errors import ConfigError
from fedselect.statistics import compare_means


def baseline_values(rows, column, baseline, cell, value="value"):
    """Look up what the baseline has in the setting and under the seed of each row: (rows,), NaN where it has no such.

    The baseline's rows have that value in ``column``; a row and the baseline's agree in the columns of ``cell``.
    """
    theirs = rows[rows[column] == baseline].set_index(list(cell))[value]
    return theirs.reindex(pd.MultiIndex.from_frame(rows[list(cell)])).to_numpy(dtype=float)


def holm(p):
    """Adjust p-values so that with probability 95 % no true null is rejected at 5 % (Holm 1979); NaN is no test."""
    given = np.asarray(p, dtype=np.float64)
    adjusted, tested = np.full(given.shape, np.nan), np.flatnonzero(~np.isnan(given))
    order = tested[np.argsort(given[tested], kind="stable")]
    if order.size:
        adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(order.size, 0, -1) * given[order]))
    return adjusted


def tested(table):
    """Adjust the p-values of a table of differences (Holm), and say which are beyond chance and their margin."""
    table["adjusted"] = holm(table["p"])
    is_clear = (table["adjusted"] < 0.05) & (table["difference %"].abs() >= table["margin"])
    alone = table["same"].lt(0.05).map({True: "the same", False: "inconclusive"})
    table["verdict"] = alone.mask(is_clear, table["difference %"].lt(0).map({True: "ahead", False: "behind"}))
    return table


def by_cell(rows, cell, measure):
    """Make a table with a row for every cell of ``rows``: its labels, and what ``measure`` finds in its part."""
    return pd.DataFrame(
        dict(zip(cell, key, strict=True)) | measure(part) for key, part in rows.groupby(list(cell), sort=False)
    )


def published_cells(study, table):
    """Read one table of ``papers/STUDY.csv`` by (group, row, column), in its order; NaN where the paper prints that."""
    text = (Path(__file__).with_name("papers") / f"{study}.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(text.splitlines()))
    found = {
        (line["group"], line["row"], line["column"]): float(line["value"]) for line in lines if line["table"] == table
    }
    if not found:
        named = ", ".join(dict.fromkeys(line["table"] for line in lines))
        raise ConfigError(f"{study}.csv has no table {table!r}; it has {named}")
    return found


def published_table(study, table):
    """Read the same by group and row: the values as a tuple, in the order of the columns in the file."""
    found = {}
    for (group, row, _), value in published_cells(study, table).items():
        rows = found.setdefault(group, {})
        rows[row] = (*rows.get(row, ()), value)
    return found


def beside_paper(ours, paper, keys, value, why=None, *, margin, runs):
    """Put a paper's numbers beside ours, with a verdict on a stated scale; a row per cell, in the order of ours.

    Parameters
    ----------
    ours : DataFrame
        One row per seed, with the columns ``keys`` and ``value``.
    paper : mapping of tuple of str to float
        The paper's number for the values of ``keys``; what it does not give is left out.
    keys, value : list of str, str
        Columns that name a cell of the paper's table, and that of our number.
    why : mapping of tuple of str to str, optional
        What explains a difference. A key may be shorter than ``keys``: it then explains all cells that begin with it.
    margin : float or callable
        Largest difference of no account, in the unit of the value; or that of a cell, by its tuple of keys.
    runs : int or None
        How many runs the paper's number is a mean of, taken to deviate as ours do; None where it is exact: a theorem's.

    Returns
    -------
    DataFrame
        ``keys``, ``paper``, ``ours`` (mean over seeds), ``deviation`` (standard deviation over seeds), ``seeds``,
        ``margin``, ``p`` (of such a distance, if both are means of runs of one distribution), ``verdict`` and ``why``.
        The verdict is that of `fedselect.statistics.compare_means`, one at a time: of many cells that agree, some
        differ beyond chance. A difference without a reason is called "unexplained".
    """
    rows = []
    # Iterating gives a tuple for each cell, of one key as of several.
    measured = {tuple(map(str, cell)): values for cell, values in ours.groupby(list(keys), sort=False)[value]}
    if missing := [cell for cell in paper if cell not in measured]:
        raise ConfigError(f"the paper has a number for {missing[0]}, but nothing was measured there")
    for cell, values in measured.items():
        theirs, width = paper.get(cell, math.nan), margin(cell) if callable(margin) else margin
        found = compare_means(values, theirs, margin=width, runs=runs)
        reason = ""
        if found.verdict in ("higher", "lower"):
            reasons = (text for key, text in (why or {}).items() if cell[: len(key)] == tuple(key))
            reason = next(reasons, "unexplained")
        rows.append(
            dict(zip(keys, cell, strict=True))
            | {"paper": theirs, "ours": float(values.mean()), "deviation": float(values.std()), "seeds": found.n}
            | {"margin": width, "p": found.p, "verdict": found.verdict, "why": reason}
        )
    return pd.DataFrame(rows)


def stacked(tables):
    """Stack tables by title; the column ``table`` holds the titles."""
    return pd.concat([table.assign(table=title) for title, table in tables.items()])


def long_form(rows, labels, **constant):
    """Give each measure of each run (a column that is no label) a row: ``constant``, labels, ``measure``, ``value``."""
    measures = [column for column in rows.columns if column not in (*labels, "run")]
    return pd.DataFrame(
        constant | dict(zip(labels, key, strict=True)) | {"measure": measure, "value": value}
        for *key, values in zip(*(rows[label] for label in labels), rows[measures].to_numpy(), strict=True)
        for measure, value in zip(measures, values, strict=True)
    ).astype({"value": float})


def print_table(table, title, digits=3):
    """Print a table: numbers with so many decimals, a dash for what is not there, long reasons once, below it."""
    notes, rows = {}, []
    for row in table.to_dict("records"):
        if row.get("why"):
            row["why"] = f"[{notes.setdefault(row['why'], len(notes) + 1)}]"
        rows.append([_cell(value, digits) for value in row.values()])
    terminal.print_table([str(column) for column in table.columns], rows, title=title, whole=True)
    for note, number in notes.items():
        print(f"[{number}] {note}")


def _cell(value, digits):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
