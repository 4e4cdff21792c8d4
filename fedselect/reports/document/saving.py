"""Reports as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedselect.errors import ConfigError, RunError
from fedselect.reports.document.html import as_html
from fedselect.reports.document.latex import as_latex
from fedselect.reports.document.markdown import as_markdown
from fedselect.reports.document.model import Report
from solvers.files import write_atomically

__all__ = ["KINDS", "save"]

#: What a report can be written as: how it is rendered, and what its pictures beside it are.
_RENDERERS = {"html": (as_html, None), "md": (as_markdown, "png"), "tex": (as_latex, "pdf")}
KINDS = tuple(_RENDERERS)


def save(report: Report, folder: str | Path, kinds: Sequence[str] = ("html", "md")) -> list[Path]:
    """Write a report as ``report.<kind>``, with its pictures beside it where the kind cannot hold them.

    Parameters
    ----------
    report : Report
        What to write.
    folder : path-like
        Where to; made if missing.
    kinds : sequence of str
        Of ``html`` (one self-contained page), ``md`` and ``tex``.

    Returns
    -------
    list of pathlib.Path
        Everything written, the reports first.

    Raises
    ------
    ConfigError
        When a kind is not known; nothing is written then.
    RunError
        When the folder cannot be written.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"a report is written as {', '.join(KINDS)}; got {kind!r}")
    files: dict[str, bytes] = {}
    for kind in kinds:
        files[f"report.{kind}"] = _RENDERERS[kind][0](report).encode()
    for kind in kinds:
        form = _RENDERERS[kind][1]
        if form is not None:
            files |= {f"{picture.key}.{form}": getattr(picture, form) for picture in report.pictures}
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomically(folder / name, data)
    except OSError as error:
        raise RunError(f"cannot write the report into {folder}: {error}") from error
    return [folder / name for name in files]
