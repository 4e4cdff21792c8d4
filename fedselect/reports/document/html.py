"""A report as one self-contained page: no file beside it, and nothing fetched."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from fedselect.reports.document.cells import Cell
from fedselect.reports.document.model import Picture, Report

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["as_html"]


def as_html(report: Report) -> str:
    """Render a report.

    Every text is escaped, and the page's content security policy lets nothing run or load but the page's own script,
    its style and the pictures within it.

    Returns
    -------
    str
        An HTML document.
    """
    return _template().render(report=report, style=_part("page.css"), script=_part("page.js"), sha256=_sha256)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {"sorted_by": _sorted_by, "data_url": _data_url, "pixels": _pixels}
    return environment.from_string(_part("page.html"))


@cache
def _part(name: str) -> str:
    return (files("fedselect.reports.document") / name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _sorted_by(cell: Cell) -> str:
    """The number that a cell is sorted by, where the page could not read it from the text; else nothing."""
    value = "" if cell.value is None else f"{cell.value:.9g}".replace("inf", "Infinity")
    return "" if value == cell.text else value


def _data_url(picture: Picture) -> str:
    return "data:image/png;base64," + base64.b64encode(picture.png).decode()


def _pixels(inches: float) -> int:
    return round(96 * inches)
