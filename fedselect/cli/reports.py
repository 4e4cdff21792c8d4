"""Commands that make pages and tables of runs: report, reproduce."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from fedselect.cli.common import Format, Load, check_no_link, say
from fedselect.errors import ConfigError
from fedselect.studies import STUDIES
from solvers.options import did_you_mean

__all__ = ["report", "reproduce"]


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


def reproduce(
    study: Annotated[
        str, typer.Argument(help=f"One of {', '.join(STUDIES)}; or all. Left out: they are listed.", show_default=False)
    ] = "",
    paper: Annotated[
        bool, typer.Option("--paper/--quick", help="The paper's settings, or minutes: fewer rounds and seeds.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="What to train on; the study's own default, which needs no files, if left out.")
    ] = None,
    root: Annotated[Path, typer.Option(help="Folder of the data sets' files.")] = Path("data"),
    out: Annotated[Path | None, typer.Option(help="Runs, tables and figures; studies/STUDY if left out.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side.")] = 2,
    gallery: Annotated[
        Path | None, typer.Option(help="Copy tables and figures there as well, with a line of provenance.csv each.")
    ] = None,
) -> None:
    """Run a paper's experiments again: tables and figures beside its numbers, with a verdict and a reason for each.

    What is there already is not run again. ``provenance.json`` beside the tables says which command, commit and machine
    they are from.
    """
    if not study:
        raise ConfigError(f"name a study, or all: there are {', '.join(STUDIES)}")
    if study == "all" and (dataset is not None or out is not None):
        raise ConfigError("all studies have their own data sets and folders: leave --dataset and --out, or name one")
    if study != "all" and study not in STUDIES:
        raise ConfigError(f"there is no study {study!r}{did_you_mean(study, STUDIES)} (there are {', '.join(STUDIES)})")
    from fedselect.studies.study import collect, load_study, run_study, write_provenance

    for each in STUDIES if study == "all" else [study]:
        began, module = time.perf_counter(), each.replace("-", "_")
        below = Path("studies") / module if out is None else out
        folder = run_study(load_study(each), below, paper=paper, dataset=dataset, root=root, jobs=jobs)
        command = ["fedselect", "reproduce", each, "--paper" if paper else "--quick", "--root", str(root)]
        command += ["--jobs", str(jobs), "--out", str(below)] + ([] if dataset is None else ["--dataset", dataset])
        say(f"provenance: {write_provenance(folder, shlex.join(command), time.perf_counter() - began)}")
        if gallery is not None:
            collect(folder, module if dataset is None else f"{module}_{dataset.replace('-', '_')}", gallery)
            say(f"gallery: {gallery}")
