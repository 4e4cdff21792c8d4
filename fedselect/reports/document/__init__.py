"""Reports: one model of tables and pictures, rendered as a self-contained page, as Markdown and as LaTeX."""

from fedselect.reports.document.cells import Cell, count, number, percent, plain, seconds, word
from fedselect.reports.document.html import html
from fedselect.reports.document.latex import latex
from fedselect.reports.document.markdown import markdown
from fedselect.reports.document.page import Column, Picture, Report, Table
from fedselect.reports.document.save import KINDS, save
from fedselect.reports.document.tables import frame_table, value_table

__all__ = [
    "KINDS",
    "Cell",
    "Column",
    "Picture",
    "Report",
    "Table",
    "count",
    "frame_table",
    "html",
    "latex",
    "markdown",
    "number",
    "percent",
    "plain",
    "save",
    "seconds",
    "value_table",
    "word",
]
