"""``fedselect reproduce``: a paper's experiments again, beside its numbers."""

from __future__ import annotations

import importlib
import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from fedselect.errors import ConfigError
from solvers.suggestions import did_you_mean

__all__ = ["STUDIES", "reproduce"]

#: Modules of `fedselect.studies` by the name of the study.
STUDIES = {
    "fedgs": "fedgs",
    "ca-fed": "ca_fed",
    "fedau": "fedau",
    "e3cs": "e3cs",
    "fedss": "fedss",
    "exact-vs-heuristic": "exact_vs_heuristic",
    "e3cs-regret": "e3cs_regret",
    "graph-worth": "graph_worth",
}


def reproduce(
    study: Annotated[str, typer.Argument(help=f"One of {', '.join(STUDIES)}.")],
    paper: Annotated[
        bool, typer.Option("--paper/--quick", help="The paper's settings, or minutes: fewer rounds and seeds.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="What to train on; the study's own default, which needs no files, if left out.")
    ] = None,
    root: Annotated[Path, typer.Option(help="Folder of the data sets' files.")] = Path("data"),
    out: Annotated[Path | None, typer.Option(help="Runs, tables and figures; studies/STUDY if left out.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side.")] = 2,
) -> None:
    """Run a paper's experiments again: tables and figures beside its numbers, with a verdict and a reason for each.

    What is there already is not run again. ``provenance.json`` above the tables says which command, commit and machine
    they are from.
    """
    if study not in STUDIES:
        raise ConfigError(f"there is no study {study!r}{did_you_mean(study, STUDIES)} (there are {', '.join(STUDIES)})")
    from fedselect.studies.provenance import write_provenance

    name = STUDIES[study]
    folder = Path("studies") / name if out is None else out
    arguments = ["--paper" if paper else "--quick", "--root", str(root), "--out", str(folder), "--jobs", str(jobs)]
    if dataset is not None:
        arguments += ["--dataset", dataset]
    began = time.perf_counter()
    importlib.import_module(f"fedselect.studies.{name}").main(arguments)
    command = shlex.join(["fedselect", "reproduce", study, *arguments])
    print(f"provenance: {write_provenance(folder, command, time.perf_counter() - began)}")
