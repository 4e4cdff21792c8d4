"""The command that makes pages and tables of runs: report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedselect.cli.common import Format, Load, check_no_link, say
from fedselect.errors import ConfigError

__all__ = ["report"]


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A run folder, a comparison of selectors or of solver methods, or a TOML file: its federation."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where to write; FOLDER/report, or FILE-report beside FILE.toml, if left out.")
    ] = None,
    as_: Annotated[
        str, typer.Option("--as", help="What to write, with commas: html (one self-contained page), md, tex.")
    ] = "html",
    load: Load = [],  # noqa: B006  (typer copies defaults)
    format: Format = "text",
) -> None:
    """Turn a run, a comparison or a federation into a page, or into Markdown or LaTeX tables and figures."""
    from fedselect.reports import read_report
    from fedselect.reports.document import KINDS, save

    named = (kind.strip().lower() for kind in as_.split(","))
    kinds = list(dict.fromkeys({"latex": "tex", "markdown": "md"}.get(kind, kind) for kind in named))
    for kind in kinds:
        if kind not in KINDS:
            tables = " (tables of numbers are there: results.csv of a comparison, metrics.csv and clients.csv of a run)"
            csv = tables if kind == "csv" else ""
            raise ConfigError(f"--as takes {', '.join(KINDS)}, with commas; got {as_!r}{csv}")
    if out is None:
        out = folder.with_name(f"{folder.stem}-report") if folder.is_file() else folder / "report"
        check_no_link(out)
    written = save(read_report(folder, load), out, kinds)
    if format == "json":
        print(json.dumps({"written": [str(path) for path in written]}, indent=1))
        return
    for path in written[: len(kinds)]:
        say(f"report: {path}")
