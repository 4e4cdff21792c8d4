"""The frame of a paper's script: arguments, runs, parts that are kept, tables, and a paper's numbers beside ours."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from numpy.typing import ArrayLike

from fedselect.errors import TOOLKIT_ERRORS, ConfigError
from fedselect.experiments.batch import run_all
from fedselect.experiments.checkpoint import load_checkpoint, save_checkpoint
from fedselect.experiments.config import Choice, Experiment
from fedselect.progress import progress_bar
from fedselect.rounds.scenario import Scenario
from fedselect.rounds.simulation import SimulatedRound, simulate
from fedselect.selectors import SELECTORS
from fedselect.studies.paired import half_width
from solvers.files import write_atomically

__all__ = [
    "beside_paper",
    "kept",
    "paper_table",
    "run_grid",
    "run_script",
    "show",
    "study_arguments",
    "without_training",
    "write_tables",
]

K = TypeVar("K", bound=Hashable)

#: Half a confidence interval that is wider than this share of the paper's number says nothing about agreement.
_WIDE = 0.1


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
    mode.add_argument("--quick", action="store_true", default=True, help="minutes: fewer rounds, seeds and settings")
    mode.add_argument("--paper", action="store_true", help="the paper's settings")
    parser.add_argument("--dataset", default=datasets[0], choices=list(datasets), help="what to train on")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder of the data sets' files")
    parser.add_argument("--out", type=Path, default=Path("studies") / name, help="runs, tables and figures")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    arguments = parser.parse_args(argv)
    arguments.out = arguments.out / f"{'paper' if arguments.paper else 'quick'}-{arguments.dataset}"
    return arguments


def run_script(main: Callable[[], None]) -> None:
    """Run a script's ``main``; what the toolkit does not accept ends it with one sentence and exit status 1."""
    try:
        main()
    except TOOLKIT_ERRORS as error:
        sys.exit(f"error: {error}")


def run_grid(experiments: Mapping[K, Experiment], out: Path, jobs: int, what: str = "rounds") -> dict[K, Path]:
    """Run experiments by label, with a progress bar and without pictures; finished ones are not repeated.

    Parameters
    ----------
    experiments : mapping of hashable to Experiment
        What to run, in this order. Put seeds outside: a study cut short then has everything under the seeds it reached.
    out : pathlib.Path
        Directory below which the run folders are made.
    jobs : int
        Runs side by side.
    what : str
        Stands before the progress bar.

    Returns
    -------
    dict of hashable to pathlib.Path
        The run folder of each label.
    """
    with progress_bar(what, 1) as progress:
        folders = run_all(list(experiments.values()), out, jobs, progress, plots=False)
    return dict(zip(experiments, folders, strict=True))


def without_training(scenario: Scenario, selector: Choice, sizes: ArrayLike | None = None) -> Iterator[SimulatedRound]:
    """Play a scenario's rounds with a registered selector, no model in sight.

    Parameters
    ----------
    scenario : Scenario
        From `fedselect.experiments.build_scenario`.
    selector : Choice
        Who decides; one that needs losses, norms or probes cannot be played this way.
    sizes : (N,) array-like of int, optional
        Samples of each client; the federation's if left out.

    Yields
    ------
    SimulatedRound
        As of `fedselect.rounds.simulation.simulate`.
    """
    return simulate(
        SELECTORS.build(selector.name, scenario, **selector.options),
        scenario.availability,
        scenario.dropout,
        sizes=scenario.federation.sizes if sizes is None else sizes,
        rounds=scenario.rounds,
        seed=scenario.seed,
    )


def kept(path: Path, compute: Callable[..., Any], *arguments: Any) -> Any:
    """Keep a part of a study that is no run in a file, so that it is computed once.

    Parameters
    ----------
    path : pathlib.Path
        The file; its folder is made. ``.csv`` holds a table, ``.npz`` a nested dictionary of arrays and JSON values.
    compute : callable
        Makes what belongs into the file, where there is none.
    *arguments
        What ``compute`` is called with; the file's name has to tell them apart.

    Returns
    -------
    DataFrame or dict
        What the file says, also when it was just written: a study gives the same numbers whether it was stopped or not.

    Raises
    ------
    ConfigError
        When the name ends in neither.
    """
    if path.suffix not in (".csv", ".npz"):
        raise ConfigError(f"a part of a study is kept as .csv or .npz; got {path.name!r}")
    if not path.exists():
        found = compute(*arguments)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            write_atomically(path, found.to_csv(index=False).encode())
        else:
            save_checkpoint(path, found)
    return pd.read_csv(path) if path.suffix == ".csv" else load_checkpoint(path)


def paper_table(text: str, columns: Sequence[Hashable] | None = None) -> dict[tuple[Any, str], float]:
    """Read a paper's table from a block of text.

    Parameters
    ----------
    text : str
        One line a row: its name, which may have blanks, and its numbers; ``NaN`` where the paper has none.
    columns : sequence of hashable, optional
        Names of the columns; the words of the first line if left out.

    Returns
    -------
    dict of (column, str) to float
        The numbers by column and row; empty where the text is.

    Raises
    ------
    ConfigError
        When a row has not as many numbers as there are columns.
    """
    rows = text.strip().splitlines()
    if columns is None:
        columns = rows.pop(0).split() if rows else ()
    found: dict[tuple[Any, str], float] = {}
    for row in rows:
        name, *numbers = row.rsplit(maxsplit=len(columns))
        try:
            found |= {(column, name.strip()): float(x) for column, x in zip(columns, numbers, strict=True)}
        except ValueError as error:
            raise ConfigError(
                f"a row of the paper's table needs {len(columns)} numbers; got {row.strip()!r}"
            ) from error
    return found


def beside_paper(
    ours: pd.DataFrame,
    paper: Mapping[tuple[str, ...], float],
    keys: Sequence[str],
    value: str,
    why: Mapping[tuple[str, ...], str] | None = None,
) -> pd.DataFrame:
    """Put a paper's numbers beside ours.

    Parameters
    ----------
    ours : DataFrame
        One row a seed, with the columns ``keys`` and ``value``.
    paper : mapping of tuple of str to float
        The paper's number for the values of ``keys``; what it does not give is left out.
    keys : sequence of str
        Columns that name a cell of the paper's table.
    value : str
        Column of our number.
    why : mapping of tuple of str to str, optional
        What explains a difference. A key may be shorter than ``keys``: it then explains all cells that begin with it.

    Returns
    -------
    DataFrame
        One row a cell, in the order of ``ours``: ``keys``, ``paper``, ``ours`` (mean over seeds), ``deviation``
        (standard deviation over seeds), ``seeds``, ``verdict`` and ``why``. The verdict is "agrees" where the paper's
        number lies in the 95 % confidence interval of our mean (Student's t; the paper's own error is not known, so
        this is strict), else "higher" or "lower" (than the paper's), and "" where there is nothing to compare. With
        two or three seeds the interval may be so wide that it holds nearly everything: where it reaches farther than
        a tenth of the paper's number, lying in it is "inconclusive". A difference without a reason is called
        "unexplained".

    Raises
    ------
    ConfigError
        When ``paper`` names a cell that we have no number for.
    """
    rows: list[dict[str, Any]] = []
    # Iterating gives a tuple for each cell, of one key as of several.
    measured = {tuple(map(str, cell)): values for cell, values in ours.groupby(list(keys), sort=False)[value]}
    missing = [cell for cell in paper if cell not in measured]
    if missing:
        raise ConfigError(f"the paper has a number for {missing[0]}, but nothing was measured there")
    for cell, values in measured.items():
        mean, deviation, n = float(values.mean()), float(values.std()), int(values.notna().sum())
        theirs = paper.get(cell, math.nan)
        half = half_width(values) if n > 1 else 0.0
        verdict = ""
        if not math.isnan(theirs) and not math.isnan(mean):
            verdict = "higher" if mean > theirs else "lower"
            if abs(mean - theirs) <= half:
                verdict = "agrees" if half <= _WIDE * abs(theirs) else "inconclusive"
        reason = ""
        if verdict in ("higher", "lower"):
            reasons = (text for key, text in (why or {}).items() if cell[: len(key)] == tuple(key))
            reason = next(reasons, "unexplained")
        rows.append(
            dict(zip(keys, cell, strict=True))
            | {"paper": theirs, "ours": mean, "deviation": deviation, "seeds": n, "verdict": verdict, "why": reason}
        )
    return pd.DataFrame(rows)


def show(table: pd.DataFrame, title: str, digits: int = 3) -> None:
    """Print a table to stdout: numbers with so many decimals, a dash for what is not there.

    Reasons (the column ``why``) are long and come again and again: each is printed once, below, under a number.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    notes: dict[str, int] = {}
    printed = Table(*map(str, table.columns), title=title, title_justify="left")
    for row in table.to_dict("records"):
        if row.get("why"):
            row["why"] = f"[{notes.setdefault(row['why'], len(notes) + 1)}]"
        printed.add_row(*(Text(_cell(value, digits)) for value in row.values()))
    console = Console()
    if not console.is_terminal:  # nothing is to be cut off in a file
        console = Console(width=max(80, Console(width=10_000).measure(printed).maximum))
    console.print(printed)
    for note, number in notes.items():
        console.print(Text(f"[{number}] {note}"), soft_wrap=True)


def write_tables(out: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write each table as ``<name>.csv`` below ``out``, which is made where it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)


def _cell(value: Any, digits: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
