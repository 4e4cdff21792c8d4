"""A report as Markdown, pictures beside it as files."""

from __future__ import annotations

import re

from fedselect.reports.document.model import Report, Table

__all__ = ["as_markdown"]

#: What Markdown (CommonMark and GitHub's tables and mathematics) would read as more than itself within a line.
_SPECIAL = re.compile(r"[\\`*<>\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")


def as_markdown(report: Report) -> str:
    """Render a report.

    Returns
    -------
    str
        GitHub-flavoured Markdown; the pictures are expected beside it as ``<key>.png``.
    """
    parts = [f"# {_escaped(report.title)}", _escaped(report.summary)]
    parts += [f"> **Note.** {_escaped(note)}" for note in report.notes]
    for table in report.tables:
        if not table.detail:
            parts += [_escaped(table.caption), _table(table)]
    for picture in report.pictures:
        parts += [f"![{_escaped(picture.alternative)}]({picture.key}.png)", _escaped(picture.caption)]
    if report.facts:
        parts.append("\n".join(f"- {_escaped(name)}: {_escaped(value)}" for name, value in report.facts))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    head, *rows = ("| " + " | ".join(map(_escaped, row)) + " |" for row in table.texts)
    rule = "|" + "".join(" ---: |" if column.numeric else " --- |" for column in table.columns)
    return "\n".join([head, rule, *rows])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(text.split()))
