"""``fedselect reproduce``: a paper's experiments again, beside its numbers."""

from __future__ import annotations

import importlib
import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from fedselect.errors import ConfigError
from solvers.options import did_you_mean

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
    study: Annotated[str, typer.Argument(help=f"One of {', '.join(STUDIES)}; or all.")],
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
    if study == "all" and (dataset is not None or out is not None):
        raise ConfigError("all studies have their own data sets and folders: leave --dataset and --out, or name one")
    if study != "all" and study not in STUDIES:
        raise ConfigError(f"there is no study {study!r}{did_you_mean(study, STUDIES)} (there are {', '.join(STUDIES)})")
    for each in STUDIES if study == "all" else [study]:
        began, name = time.perf_counter(), STUDIES[each]
        arguments = ["--paper" if paper else "--quick", "--root", str(root), "--jobs", str(jobs)]
        arguments += ["--out", str(Path("studies") / name if out is None else out)]
        arguments += [] if dataset is None else ["--dataset", dataset]
        folder = importlib.import_module(f"fedselect.studies.{name}").main(arguments)
        _conclude(folder, each, arguments, time.perf_counter() - began)
        if gallery is not None:
            from fedselect.studies.gallery import collect

            collect(folder, name if dataset is None else f"{name}_{dataset.replace('-', '_')}", gallery)
            print(f"gallery: {gallery}")


def _conclude(folder: Path, study: str, arguments: list[str], seconds: float) -> None:
    """Write down where a study's tables are from."""
    from fedselect.studies.provenance import write_provenance

    command = shlex.join(["fedselect", "reproduce", study, *arguments])
    print(f"provenance: {write_provenance(folder, command, seconds)}")
