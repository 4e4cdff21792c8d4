"""The command that makes pages and tables of runs: report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedselect.cli.common import Format, Load, check_no_link, say, writing
from fedselect.errors import ConfigError
from fedselect.tables import write_table

#: Kinds of the table of clients by rounds.
_TABLES = ("csv", "parquet")


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="A run folder, a comparison of selectors or of solver methods, or a TOML file: its federation. "
            "Several comparisons of methods come on one page.",
            metavar="FOLDER...",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write; if left out FOLDER/report, FILE-report beside FILE.toml, or of several A-B-report."
        ),
    ] = None,
    as_: Annotated[
        str,
        typer.Option(
            "--as",
            help="What to write, with commas: html (one self-contained page), md, tex; csv or parquet (a table of "
            "clients by rounds).",
        ),
    ] = "html",
    columns: Annotated[
        str,
        typer.Option(
            help="Measures to tabulate, by name, with commas, in place of all: final_accuracy,client_accuracy_worst. "
            "Names are those of summary.json; of csv and parquet, those of that table.",
        ),
    ] = "",
    load: Load = [],  # noqa: B006  (typer copies defaults)
    format: Format = "text",
) -> None:
    """Turn a run, a comparison or a federation into a page, or into tables and figures of other kinds."""
    from fedselect.reports import client_rounds_of, known_columns, methods_report, read_report
    from fedselect.reports.document import KINDS, save

    named = (kind.strip().lower() for kind in as_.split(","))
    kinds = list(dict.fromkeys({"latex": "tex", "markdown": "md"}.get(kind, kind) for kind in named))
    if unknown := [kind for kind in kinds if kind not in (*KINDS, *_TABLES)]:
        raise ConfigError(f"--as takes {', '.join((*KINDS, *_TABLES))}, with commas; got {unknown[0]!r}")
    folder, *others = folders
    if out is None and others:
        out = folder.with_name("-".join([*(each.resolve().name for each in folders), "report"]))
    elif out is None:
        out = folder.with_name(f"{folder.stem}-report") if folder.is_file() else folder / "report"
        check_no_link(out)
    pages = [kind for kind in kinds if kind in KINDS]
    if others and len(pages) < len(kinds):
        raise ConfigError(f"--as {kinds[-1]} is about one run; got {len(folders)} folders")
    wanted = [each.strip() for each in columns.split(",") if each.strip()]
    if wanted and pages and len(pages) < len(kinds):
        raise ConfigError(f"--columns are measures for {pages[0]} and other columns for {kinds[-1]}; write each alone")
    if wanted and others:
        raise ConfigError("--columns are of runs of selectors, and not of benchmarks of solver methods")
    report = methods_report(*folders) if others else read_report(folder, load, wanted) if pages else None
    written = save(report, out, pages) if report is not None else []
    if len(pages) < len(kinds):
        table = client_rounds_of(folder)
        table = table[known_columns(wanted, list(table.columns)) or list(table.columns)]
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            for kind in _TABLES:
                if kind in kinds:
                    written.append(out / f"client_rounds.{kind}")
                    write_table(written[-1], table, "table")
    if format == "json":
        print(json.dumps({"written": [str(path) for path in written]}, indent=1))
        return
    for path in [*written[: len(pages)], *(path for path in written if path.suffix[1:] in _TABLES)]:
        say(f"report: {path}")
