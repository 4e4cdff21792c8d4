"""Reports: one model of tables and pictures, rendered as a self-contained page, as Markdown and as LaTeX."""

from fedselect.reports.document.cells import Cell, count, number, percent, plain, seconds, word
from fedselect.reports.document.html import as_html
from fedselect.reports.document.latex import as_latex
from fedselect.reports.document.markdown import as_markdown
from fedselect.reports.document.model import Column, Picture, Report, Table
from fedselect.reports.document.saving import KINDS, save
from fedselect.reports.document.tables import frame_table, value_table

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
