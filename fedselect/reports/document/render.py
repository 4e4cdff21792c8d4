"""Reports written: a self-contained page, Markdown, LaTeX, and the files of each."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fedselect.errors import ConfigError, RunError
from fedselect.reports.document.model import Cell, Picture, Report, Table
from solvers.files import write_atomically

if TYPE_CHECKING:
    from jinja2 import Template


def as_html(report: Report) -> str:
    """Render a report.

    Texts are escaped, and the page's content security policy allows its own script, its style and the pictures in it.

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


#: What Markdown (CommonMark and GitHub's tables and mathematics) would read as more than itself within a line.
_MARKDOWN = re.compile(r"[\\`*<>\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")


def as_markdown(report: Report) -> str:
    """Render a report.

    Returns
    -------
    str
        GitHub-flavoured Markdown; the pictures are expected beside it as ``<key>.png``. Tables of details are left
        out.
    """
    parts = [f"# {_in_markdown(report.title)}", _in_markdown(report.summary)]
    parts += [f"**Result.** {_in_markdown(report.result)}"] if report.result else []
    parts += [f"> **Note.** {_in_markdown(note)}" for note in report.notes]
    for table in report.tables:
        if not table.detail:
            parts += [_in_markdown(table.caption), _markdown_table(table)]
    for picture in report.pictures:
        parts += [f"![{_in_markdown(picture.alternative)}]({picture.key}.png)", _in_markdown(picture.caption)]
    for listed in (report.facts, report.glossary):
        if listed:
            parts.append("\n".join(f"- {_in_markdown(name)}: {_in_markdown(value)}" for name, value in listed))
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    head, *rows = ("| " + " | ".join(map(_in_markdown, row)) + " |" for row in table.texts)
    rule = "|" + "".join(" ---: |" if column.numeric else " --- |" for column in table.columns)
    return "\n".join([head, rule, *rows])


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(lambda found: "\\" + found[0], " ".join(text.split()))


_LATEX = {
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
_ESCAPES = str.maketrans(_LATEX)

_HEAD = r"""% {title}
% {summary}
% In the preamble: \usepackage[T1]{{fontenc}} \usepackage{{booktabs,graphicx,import}}
% In the text: \import{{folder/of/this/file/}}{{report}}, which finds its pictures; labels begin with the report's name.
% Names with letters that pdflatex does not know want xelatex or lualatex."""


def as_latex(report: Report) -> str:
    """Render the tables and pictures of a report.

    Returns
    -------
    str
        A fragment of a document, not a whole one; labels are ``tab:<title>-<key>`` and ``fig:<title>-<key>``, so that
        a paper can have two reports, and the pictures are expected beside it as ``<key>.pdf``. Tables of details are
        left out.
    """
    prefix = re.sub(r"[^a-z0-9]+", "-", report.title.lower()).strip("-")
    title, summary = (" ".join(text.split()) for text in (report.title, report.summary))
    parts = [_HEAD.format(title=title, summary=summary)]
    parts += [f"% Result: {' '.join(report.result.split())}"] if report.result else []
    parts += [f"% Note: {' '.join(note.split())}" for note in report.notes]
    parts += [_latex_table(table, prefix) for table in report.tables if not table.detail]
    parts += [_latex_picture(picture, prefix) for picture in report.pictures]
    return "\n\n".join(parts) + "\n"


def _latex_table(table: Table, prefix: str) -> str:
    import pandas as pd

    head, *rows = [[_in_latex(text) for text in row] for row in table.texts]
    return pd.DataFrame(rows, columns=head).to_latex(
        index=False,
        escape=False,  # pandas leaves letters alone that LaTeX's old fonts do not have
        column_format="".join("r" if column.numeric else "l" for column in table.columns),
        caption=_in_latex(table.caption),
        label=f"tab:{prefix}-{table.key}",
    )


def _latex_picture(picture: Picture, prefix: str) -> str:
    return "\n".join(
        [
            r"\begin{figure}",
            r"  \centering",
            rf"  \includegraphics[width=\linewidth]{{{picture.key}}}",
            rf"  \caption{{{_in_latex(picture.caption)}}}",
            rf"  \label{{fig:{prefix}-{picture.key}}}",
            r"\end{figure}",
        ]
    )


def _in_latex(text: str) -> str:
    return " ".join(text.split()).translate(_ESCAPES)


#: What a report can be written as: how it is rendered, and what its pictures beside it are.
_RENDERERS = {"html": (as_html, None), "md": (as_markdown, "png"), "tex": (as_latex, "pdf")}
KINDS = tuple(_RENDERERS)


def save(report: Report, folder: str | Path, kinds: Sequence[str] = ("html", "md"), name: str = "report") -> list[Path]:
    """Write a report as ``<name>.<kind>``, with its pictures beside it where the kind cannot hold them.

    Parameters
    ----------
    report : Report
        What to write.
    folder : path-like
        Where to; made if missing.
    kinds : sequence of str
        Of ``html`` (one self-contained page), ``md`` and ``tex``.
    name : str
        Of the files, without the ending.

    Returns
    -------
    list of pathlib.Path
        The files, the reports first.

    Raises
    ------
    ConfigError
        When a kind is not known.
    RunError
        When the folder cannot be written.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"a report is written as {', '.join(KINDS)}; got {kind!r}")
    files: dict[str, bytes] = {}
    for kind in kinds:
        files[f"{name}.{kind}"] = _RENDERERS[kind][0](report).encode()
    for kind in kinds:
        form = _RENDERERS[kind][1]
        if form is not None:
            files |= {f"{picture.key}.{form}": getattr(picture, form) for picture in report.pictures}
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            write_atomically(folder / file, data)
    except OSError as error:
        raise RunError(f"cannot write the report into {folder}: {error}") from error
    return [folder / file for file in files]
