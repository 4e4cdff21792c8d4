"""What a paper's script is called with, and how it ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedselect.errors import TOOLKIT_ERRORS

__all__ = ["run_script", "study_arguments"]


def study_arguments(
    description: str,
    name: str,
    datasets: Sequence[str] = ("digits",),
    argv: Sequence[str] | None = None,
) -> argparse.Namespace:
    """Read the arguments every study takes.

    Parameters
    ----------
    description : str
        What the study shows; the first line of ``--help``.
    name : str
        Names the default output folder, ``studies/<name>``.
    datasets : sequence of str
        Data sets it runs on, the default first.
    argv : sequence of str, optional
        The arguments; the command line's if left out.

    Returns
    -------
    argparse.Namespace
        ``paper`` (bool: the paper's settings instead of the quick ones), ``dataset``, ``root`` (folder of the data
        files), ``out`` (pathlib.Path, one folder for each mode and data set), ``jobs``.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    flag: dict[str, Any] = {
        "dest": "paper",
        "default": argparse.SUPPRESS,
    }  # two names for one fact, false where neither is given
    quick = "minutes: fewer rounds, seeds and settings; this is the default"
    mode.add_argument("--quick", action="store_false", help=quick, **flag)
    mode.add_argument("--paper", action="store_true", help="the paper's settings", **flag)
    parser.add_argument("--dataset", default=datasets[0], choices=list(datasets), help="what to train on")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder of the data sets' files")
    parser.add_argument("--out", type=Path, default=Path("studies") / name, help="runs, tables and figures")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    arguments = parser.parse_args(argv, argparse.Namespace(paper=False))
    arguments.out = arguments.out / f"{'paper' if arguments.paper else 'quick'}-{arguments.dataset}"
    return arguments


def run_script(main: Callable[[], object]) -> None:
    """Run a script's ``main``; what the toolkit does not accept ends it with one sentence and exit status 1."""
    try:
        main()
    except TOOLKIT_ERRORS as error:
        sys.exit(f"error: {error}")
