"""Reports: one model of tables and pictures, rendered as a self-contained page, as Markdown and as LaTeX."""

from fedselect.reports.document.model import (
    Cell,
    Column,
    Picture,
    Report,
    Table,
    count,
    frame_table,
    number,
    percent,
    plain,
    seconds,
    value_table,
    word,
)
from fedselect.reports.document.render import KINDS, as_html, as_latex, as_markdown, save

__all__ = [
    "KINDS",
    "Cell",
    "Column",
    "Picture",
    "Report",
    "Table",
    "as_html",
    "as_latex",
    "as_markdown",
    "count",
    "frame_table",
    "number",
    "percent",
    "plain",
    "save",
    "seconds",
    "value_table",
    "word",
]
