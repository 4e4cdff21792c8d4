"""What a report consists of, whatever it is written as."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fedselect.reports.document.cells import Cell
from solvers.reading import without_controls

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Column", "Picture", "Report", "Table"]


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
        Names the table in links and references: letters, digits and hyphens.
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
        Names its file: letters, digits and hyphens.
    caption : str
        What it shows and how to read it.
    alternative : str
        What kind of picture it is, for those who cannot see it.
    figure : matplotlib.figure.Figure
        The figure itself.
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
    """A title, what was done, what to beware of, tables and pictures.

    Attributes
    ----------
    title : str
        The heading of everything.
    summary : str
        One sentence: what was done.
    facts : tuple of (str, str)
        Names and values: the configuration, the versions.
    notes : tuple of str
        Sentences a reader must see before any number: what is not finished, what is left out.
    tables : tuple of Table
        In the order of reading.
    pictures : tuple of Picture
        In the order of reading.
    """

    title: str
    summary: str
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()

    def __post_init__(self) -> None:
        _clean(self, "title", "summary")
        object.__setattr__(self, "notes", tuple(map(without_controls, self.notes)))
        facts = tuple((without_controls(name), without_controls(value)) for name, value in self.facts)
        object.__setattr__(self, "facts", facts)


def _clean(part: object, *names: str) -> None:
    """Take out of texts what must not reach a page, a terminal or a document; they may come from a received folder."""
    for name in names:
        object.__setattr__(part, name, without_controls(getattr(part, name)))


def _check_key(key: str) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key):
        raise ValueError(f"a key in a report is made of lower-case letters, digits and hyphens; got {key!r}")
