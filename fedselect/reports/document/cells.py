"""Values as cells of a table: the text a reader sees, and the number that the column is sorted by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from solvers.reading import without_controls

__all__ = ["Cell", "count", "number", "percent", "plain", "seconds", "word"]


@dataclass(frozen=True)
class Cell:
    """What stands in a cell.

    Attributes
    ----------
    text : str
        What is read; a dash where nothing is known.
    value : float, optional
        What it is sorted by in a numeric column; None stands last in either direction.
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


def percent(value: Any, form: str = "{:.3g}") -> Cell:
    """A share as per cent."""
    return _NOTHING if _missing(value) else Cell(f"{form.format(100 * float(value))} %", float(value))


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
