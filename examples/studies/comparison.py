"""Tables of a study: beside a paper's published numbers, between methods under paired seeds, in long form, printed."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedselect import terminal
from fedselect.errors import ConfigError
from fedselect.statistics import compare_means

__all__ = [
    "baseline_values",
    "beside_paper",
    "long_form",
    "print_table",
    "published_cells",
    "published_table",
    "stacked",
]


def baseline_values(
    rows: pd.DataFrame,
    column: str,
    baseline: str,
    cell: Sequence[str],
    value: str = "value",
) -> NDArray[np.float64]:
    """Look up what the baseline has in the setting and under the seed of each row.

    Parameters
    ----------
    rows : DataFrame
        One row per run and measure.
    column : str
        Column that names what is compared.
    baseline : str
        Its value in the baseline's rows.
    cell : sequence of str
        Columns in which a row and the baseline's have to agree: setting, seed, measure.
    value : str
        Column of the numbers.

    Returns
    -------
    (rows,) ndarray of float
        In the order of ``rows``; NaN where the baseline has no such row.
    """
    theirs = rows[rows[column] == baseline].set_index(list(cell))[value]
    return theirs.reindex(pd.MultiIndex.from_frame(rows[list(cell)])).to_numpy(dtype=float)


def published_cells(study: str, table: str) -> dict[tuple[str, str, str], float]:
    """Read one table of a paper from the numbers that are kept as data, with their source.

    Parameters
    ----------
    study : str
        Name of the file in ``papers``, whose columns are source, table, group, row, column, value.
    table : str
        Which of its tables.

    Returns
    -------
    dict of (str, str, str) to float
        By group, row and column, in the order of the file; NaN where the paper prints that.

    Raises
    ------
    ConfigError
        When the file has no such table.
    """
    text = (Path(__file__).with_name("papers") / f"{study}.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(text.splitlines()))
    found = {
        (line["group"], line["row"], line["column"]): float(line["value"]) for line in lines if line["table"] == table
    }
    if not found:
        named = ", ".join(dict.fromkeys(line["table"] for line in lines))
        raise ConfigError(f"{study}.csv has no table {table!r}; it has {named}")
    return found


def published_table(study: str, table: str) -> dict[str, dict[str, tuple[float, ...]]]:
    """Read the same by group and row: the values in the order of the columns in the file.

    Parameters
    ----------
    study, table : str
        As for `published_cells`, which raises what it does.

    Returns
    -------
    dict of str to dict of str to tuple of float
        A tuple for every row of every group.
    """
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for (group, row, _), value in published_cells(study, table).items():
        rows = found.setdefault(group, {})
        rows[row] = (*rows.get(row, ()), value)
    return found


def beside_paper(
    ours: pd.DataFrame,
    paper: Mapping[Any, float],
    keys: Sequence[str],
    value: str,
    why: Mapping[Any, str] | None = None,
    *,
    margin: float | Callable[[tuple[str, ...]], float],
    runs: int | None,
) -> pd.DataFrame:
    """Put a paper's numbers beside ours, with a verdict on a stated scale.

    Parameters
    ----------
    ours : DataFrame
        One row per seed, with the columns ``keys`` and ``value``.
    paper : mapping of tuple of str to float
        The paper's number for the values of ``keys``; what it does not give is left out.
    keys : sequence of str
        Columns that name a cell of the paper's table.
    value : str
        Column of our number.
    why : mapping of tuple of str to str, optional
        What explains a difference. A key may be shorter than ``keys``: it then explains all cells that begin with it.

    margin : float or callable
        Largest difference of no account, in the unit of the value; or that of a cell, by its tuple of keys.
    runs : int or None
        How many runs the paper's number is a mean of, taken to deviate as ours do; None where it is exact: a theorem's.

    Returns
    -------
    DataFrame
        One row per cell, in the order of ``ours``: ``keys``, ``paper``, ``ours`` (mean over seeds), ``deviation``
        (standard deviation over seeds), ``seeds``, ``margin``, ``p`` (of such a distance, if both are means of runs of
        one distribution), ``verdict`` and ``why``. The verdict is that of `fedselect.statistics.compare_means`:
        "agrees" where the distance is within the margin (two one-sided tests at 5 %), else "higher" or "lower" where it
        is beyond chance, else "inconclusive"; "too few" below three seeds, and "" where there is nothing to compare. A
        difference without a reason is called "unexplained". Verdicts are one at a time: of many cells that agree, some
        differ beyond chance.

    Raises
    ------
    ConfigError
        When ``paper`` names a cell that we have no number for.
    """
    rows: list[dict[str, Any]] = []
    # Iterating gives a tuple for each cell, of one key as of several.
    measured = {tuple(map(str, cell)): values for cell, values in ours.groupby(list(keys), sort=False)[value]}
    missing = [cell for cell in paper if cell not in measured]
    if missing:
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


def stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Stack tables by title; the column ``table`` holds the titles."""
    return pd.concat([table.assign(table=title) for title, table in tables.items()])


def long_form(rows: pd.DataFrame, labels: Sequence[str], **constant: Any) -> pd.DataFrame:
    """Give each measure of each run a row.

    Parameters
    ----------
    rows : DataFrame
        One row per run, as of `Setup.measure`; columns that are no labels are measures.
    labels : sequence of str
        Columns that tell the runs apart.
    **constant
        Columns of one value, which come first.

    Returns
    -------
    DataFrame
        ``constant``, ``labels``, ``measure`` and ``value`` (float), run by run.
    """
    measures = [column for column in rows.columns if column not in (*labels, "run")]
    return pd.DataFrame(
        constant | dict(zip(labels, key, strict=True)) | {"measure": measure, "value": value}
        for *key, values in zip(*(rows[label] for label in labels), rows[measures].to_numpy(), strict=True)
        for measure, value in zip(measures, values, strict=True)
    ).astype({"value": float})


def print_table(table: pd.DataFrame, title: str, digits: int = 3) -> None:
    """Print a table to stdout: numbers with so many decimals, a dash for what is not there.

    Reasons (the column ``why``) are long and repeated: each is printed once, below, under a number.
    """
    notes: dict[str, int] = {}
    rows = []
    for row in table.to_dict("records"):
        if row.get("why"):
            row["why"] = f"[{notes.setdefault(row['why'], len(notes) + 1)}]"
        rows.append([_cell(value, digits) for value in row.values()])
    terminal.print_table([str(column) for column in table.columns], rows, title=title, whole=True)
    for note, number in notes.items():
        print(f"[{number}] {note}")


def _cell(value: Any, digits: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
