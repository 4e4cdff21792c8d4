"""Reports as a document: cells, tables, pictures."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fedselect.reports.document.glossary import glossary_of
from solvers.reading import without_controls

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cell:
    """Cell of a table.

    Attributes
    ----------
    text : str
        Its text; a dash where nothing is known.
    value : float, optional
        Key of sorting in a numeric column; None stands last.
    """

    text: str
    value: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", without_controls(self.text))


_NOTHING = Cell("-")


def word(value: Any) -> Cell:
    """Text; a dash where there is none."""
    return _NOTHING if _missing(value) or value == "" else Cell(str(value))


def number(value: Any, form: str = "{:.4g}", spread: Any = None) -> Cell:
    """A number; with its standard deviation where that is known."""
    if _missing(value):
        return _NOTHING
    text = form.format(float(value))
    return Cell(text if _missing(spread) else f"{text} ± {form.format(float(spread))}", float(value))


def count(value: Any) -> Cell:
    """A whole number."""
    return _NOTHING if _missing(value) else Cell(f"{int(value)}", float(value))


#: Shares below this are rounding of double precision in a gap, and 0 to a reader.
_NO_SHARE = 1e-9


def percent(value: Any, form: str = "{:.3g}") -> Cell:
    """A share as per cent: 0 for less than 1e-9, and "< 1e-4 %" from there to 1e-6."""
    if _missing(value):
        return _NOTHING
    shown = 0.0 if abs(float(value)) < _NO_SHARE else 100 * float(value)
    return Cell("< 1e-4 %" if 0 < shown < 1e-4 else f"{form.format(shown)} %", float(value))


def seconds(*values: Any) -> Cell:
    """Durations in seconds, sorted by the first."""
    if _missing(values[0]):
        return _NOTHING
    return Cell(", ".join(_duration(float(value)) for value in values), float(values[0]))


def plain(value: Any) -> Cell:
    """A number, written as a whole one where it is."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)  # a column of whole numbers with gaps is one of floats in pandas
    return count(value) if isinstance(value, int) else number(value)


def _duration(value: float) -> str:
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s"


def _missing(value: Any) -> bool:
    # pandas has several values for nothing, and most raise when compared; their text is what they share.
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "<NA>", "NaT"))


@dataclass(frozen=True)
class Column:
    """A heading, and whether the column is right-aligned and sorted by number."""

    heading: str
    numeric: bool = True

    def __post_init__(self) -> None:
        _clean(self, "heading")


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row names it.

    Attributes
    ----------
    key : str
        Names the table in links and references: lower-case letters, digits and hyphens.
    caption : str
        One or two sentences: what the numbers are.
    columns : tuple of Column
        The headings.
    rows : tuple of tuple of Cell
        As many cells a row as there are columns.
    detail : bool
        Whether it is material to look things up in: it stands on the page, and not in a paper.

    Raises
    ------
    ValueError
        When the key cannot be linked to, or a row has more or fewer cells than there are columns.
    """

    key: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    detail: bool = False

    def __post_init__(self) -> None:
        _check_key(self.key)
        _clean(self, "caption")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.key!r} has {len(self.columns)} columns, but a row of {len(row)} cells")

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The headings, then the rows, as text."""
        return [tuple(column.heading for column in self.columns)] + [
            tuple(cell.text for cell in row) for row in self.rows
        ]


@dataclass(frozen=True, eq=False)
class Picture:
    """A Matplotlib figure.

    Attributes
    ----------
    key : str
        Names its file: lower-case letters, digits and hyphens.
    caption : str
        What it shows and how to read it.
    alternative : str
        What kind of picture it is, for those who cannot see it.
    figure : matplotlib.figure.Figure
        The figure.
    """

    key: str
    caption: str
    alternative: str
    figure: Figure

    def __post_init__(self) -> None:
        _check_key(self.key)
        _clean(self, "caption", "alternative")

    @cached_property
    def png(self) -> bytes:
        """The picture as PNG, 150 dots an inch."""
        return self._drawn("png")

    @cached_property
    def pdf(self) -> bytes:
        """The picture as PDF, without the date it was made."""
        return self._drawn("pdf", {"CreationDate": None})

    def _drawn(self, kind: str, metadata: dict[str, None] | None = None) -> bytes:
        stream = io.BytesIO()
        self.figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
        return stream.getvalue()


@dataclass(frozen=True, eq=False)
class Report:
    """A title, what was done, what came out, what to beware of, tables, pictures and the words in them.

    Attributes
    ----------
    title : str
        The heading.
    summary : str
        What was done, in few sentences.
    facts : tuple of (str, str)
        Names and values: the configuration, the versions.
    notes : tuple of str
        Sentences that stand before the tables: what is not finished, what is left out.
    tables : tuple of Table
        In the order of reading.
    pictures : tuple of Picture
        In the order of reading.
    result : str
        What came out, in few sentences; empty where nothing can be said yet.
    """

    title: str
    summary: str
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    result: str = ""

    def __post_init__(self) -> None:
        _clean(self, "title", "summary", "result")
        object.__setattr__(self, "notes", tuple(map(without_controls, self.notes)))
        facts = tuple((without_controls(name), without_controls(value)) for name, value in self.facts)
        object.__setattr__(self, "facts", facts)

    @property
    def glossary(self) -> tuple[tuple[str, str], ...]:
        """Words of the tables' headings, the first cells of tables of measures and captions, with what they mean."""
        headings = [text for table in self.tables for text in table.texts[0]]
        cells = [row[0] for table in self.tables if not table.detail for row in table.texts[1:]]
        captions = [table.caption for table in self.tables] + [picture.caption for picture in self.pictures]
        return glossary_of(headings + cells, " ".join(captions))


def _clean(part: object, *names: str) -> None:
    """Take out of texts what must not reach a page, a terminal or a document; they may come from a received folder."""
    for name in names:
        object.__setattr__(part, name, without_controls(getattr(part, name)))


def _check_key(key: str) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key):
        raise ValueError(f"a key in a report is made of lower-case letters, digits and hyphens; got {key!r}")


#: Rows beyond which a table says which ones it leaves out, so that a page stays one that a browser opens at once.
_MOST_ROWS = 1000


def frame_table(key: str, caption: str, frame: pd.DataFrame, order: str = "the first", detail: bool = True) -> Table:
    """Turn a data frame into a table, by default one to look things up in.

    Parameters
    ----------
    key, caption
        As in `fedselect.reports.document.Table`.
    frame : DataFrame
        Names of columns become headings, underscores spaces. Columns without a value are left out.
    order : str
        How the caption calls the rows that stay of a frame of more than a thousand.
    detail : bool
        As in `fedselect.reports.document.Table`.

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
    return Table(key, caption, columns, rows, detail)


def value_table(key: str, caption: str, values: Mapping[str, Any]) -> Table:
    """Names and values, one a row."""
    rows = tuple((word(name.replace("_", " ")), plain(value)) for name, value in values.items())
    return Table(key, caption, (Column("measure", numeric=False), Column("value")), rows)
