"""Reports: one model of tables and pictures, rendered as a self-contained page, as Markdown and as LaTeX."""

from fedselect.report.cells import Cell, count, number, percent, plain, seconds, word
from fedselect.report.document import Column, Picture, Report, Table
from fedselect.report.html import html
from fedselect.report.latex import latex
from fedselect.report.markdown import markdown
from fedselect.report.save import KINDS, save
from fedselect.report.tables import frame_table, value_table

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
