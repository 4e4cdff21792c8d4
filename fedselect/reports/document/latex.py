"""A report as LaTeX for a paper: booktabs tables and figures, ready to be input."""

from __future__ import annotations

import re

from fedselect.reports.document.cells import Cell
from fedselect.reports.document.model import Column, Picture, Report, Table

__all__ = ["as_latex"]

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    # These are other letters in LaTeX's old text fonts; and a row that begins with a bracket or a star would give
    # the row before it an option.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
}
_ESCAPES = str.maketrans(_SPECIAL)

#: Letters beyond which a text is broken over several lines.
_LONG = 30

_HEAD = r"""% {title}
% {summary}
% In the preamble: \usepackage[T1]{{fontenc}} \usepackage{{booktabs,graphicx}}
% Names with letters that pdflatex does not know want xelatex or lualatex."""


def as_latex(report: Report) -> str:
    """Render the tables and pictures of a report.

    Returns
    -------
    str
        A fragment of a document, not a whole one; labels are ``tab:<key>`` and ``fig:<key>``, and the pictures are
        expected beside it as ``<key>.pdf``. Tables of details are left out.
    """
    title, summary = (" ".join(text.split()) for text in (report.title, report.summary))
    parts = [_HEAD.format(title=title, summary=summary)]
    parts += [f"% Note: {' '.join(note.split())}" for note in report.notes]
    parts += [_table(table) for table in report.tables if not table.detail]
    parts += [_picture(picture) for picture in report.pictures]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    columns = list(enumerate(table.columns))
    rows = [[_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    lines = [" & ".join(row) + r" \\" for row in [[_heading(column) for column in table.columns], *rows]]
    alignment = "".join(_alignment(column, [row[place] for row in table.rows]) for place, column in columns)
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering\small\setlength{\tabcolsep}{4pt}",
            rf"  \caption{{{_escaped(table.caption)}}}",
            rf"  \label{{tab:{table.key}}}",
            rf"  \begin{{tabular}}{{{alignment}}}",
            r"    \toprule",
            f"    {lines[0]}",
            r"    \midrule",
            *(f"    {line}" for line in lines[1:]),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _alignment(column: Column, cells: list[Cell]) -> str:
    if column.numeric:
        return "r"
    long = any(len(cell.text) > _LONG for cell in cells)
    return r"p{0.3\linewidth}" if long else "l"


def _picture(picture: Picture) -> str:
    return "\n".join(
        [
            r"\begin{figure}",
            r"  \centering",
            rf"  \includegraphics[width=\linewidth]{{{picture.key}}}",
            rf"  \caption{{{_escaped(picture.caption)}}}",
            rf"  \label{{fig:{picture.key}}}",
            r"\end{figure}",
        ]
    )


def _heading(column: Column) -> str:
    text = _escaped(column.heading)
    if not column.numeric or " " not in text:
        return text
    # A word a line: headings are longer than numbers, and a page is narrow.
    return r"\shortstack[r]{" + text.replace(" ", r"\\") + "}"


def _cell(cell: Cell, column: Column) -> str:
    text = _escaped(cell.text)
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", text) if column.numeric else text  # a minus, not a hyphen


def _escaped(text: str) -> str:
    return " ".join(text.split()).translate(_ESCAPES)
