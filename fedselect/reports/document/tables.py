"""Data frames and dictionaries as tables of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedselect.reports.document.cells import plain, word
from fedselect.reports.document.model import Column, Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame_table", "value_table"]

#: Rows beyond which a table says which ones it leaves out, so that a page stays one that a browser opens at once.
_MOST_ROWS = 1000


def frame_table(key: str, caption: str, frame: pd.DataFrame, order: str = "the first") -> Table:
    """Turn a data frame into a table to look things up in.

    Parameters
    ----------
    key, caption
        As in `fedselect.reports.document.Table`.
    frame : DataFrame
        Names of columns become headings, underscores spaces. Columns without any value are left out.
    order : str
        How the caption calls the rows that stay of a frame of more than a thousand.

    Returns
    -------
    Table
    """
    if len(frame) > _MOST_ROWS:
        caption = f"{caption} Of {len(frame)} rows, {order} {_MOST_ROWS} are shown."
        frame = frame.head(_MOST_ROWS)
    frame = frame.dropna(axis="columns", how="all")
    numeric = [frame[column].dtype.kind in "iuf" for column in frame.columns]
    columns = tuple(
        Column(str(column).replace("_", " "), isnumeric)
        for column, isnumeric in zip(frame.columns, numeric, strict=True)
    )
    rows = tuple(
        tuple(plain(value) if isnumeric else word(value) for value, isnumeric in zip(row, numeric, strict=True))
        for row in frame.itertuples(index=False, name=None)
    )
    return Table(key, caption, columns, rows, detail=True)


def value_table(key: str, caption: str, values: Mapping[str, Any]) -> Table:
    """Names and values, one a row."""
    rows = tuple((word(name.replace("_", " ")), plain(value)) for name, value in values.items())
    return Table(key, caption, (Column("measure", numeric=False), Column("value")), rows)
