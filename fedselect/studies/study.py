"""Studies: what is run, measured and compared as data, and the runner that all of them share.

A study module defines one `Study`: two scales, the data sets it runs on, and a generator of its results. The generator
gets a `Setup`, which runs grids of experiments (`Setup.measure`) and computes other parts once (`Setup.cached`), and
yields tables, pictures and sentences in the order in which they are printed. `run_study` does the rest. To add a study,
write such a module and add its name to `STUDIES`.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fedselect.errors import ConfigError, RunError
from fedselect.experiments.config import Choice, Experiment
from fedselect.experiments.figures import save_figure
from fedselect.experiments.folder import load_checkpoint, read_records, read_summary, save_checkpoint
from fedselect.experiments.metrics import learning_curve, round_table
from fedselect.experiments.provenance import Origin, code_digest, file_digest, origin_here, place, read_origin
from fedselect.experiments.running import build_selector, run_all
from fedselect.plugins import is_user_defined
from fedselect.progress import progress_bar
from fedselect.rounds.engine import Round, play
from fedselect.rounds.scenario import Scenario, World
from solvers.files import write_atomically

__all__ = [
    "FinishedRun",
    "Picture",
    "Setup",
    "Study",
    "Table",
    "cached",
    "curves",
    "load_study",
    "long_form",
    "print_table",
    "run_study",
    "select_without_training",
]

S = TypeVar("S")
Key = TypeVar("Key", bound=Hashable)

# -- what a study is ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table among a study's results: printed where it has a title, written as CSV where it has a file.

    Attributes
    ----------
    frame : DataFrame
        The rows; the column ``run`` (see `Setup.measure`) is neither printed nor written.
    title : str, optional
        Printed above the table.
    file : str, optional
        Name of the CSV file, without its ending.
    digits : int
        Decimals of printed numbers.
    number : str, optional
        Format of the numbers in the file, as for `pandas.DataFrame.to_csv`; all digits if left out.
    """

    frame: pd.DataFrame
    title: str | None = None
    file: str | None = None
    digits: int = 3
    number: str | None = None


@dataclass(frozen=True)
class Picture:
    """A figure among a study's results, and the name of its PNG file without the ending."""

    figure: Figure
    file: str
    dpi: int = 110


@dataclass(frozen=True)
class Study(Generic[S]):
    """A study: its scales, its data sets, and its results.

    Attributes
    ----------
    title : str
        What it shows, in a line.
    quick, paper
        How much is run in minutes, and what the paper ran.
    results : callable
        Called with a `Setup`; yields `Table`, `Picture` and str (a line to print), in the order of printing.
    datasets : tuple of str
        Data sets it runs on, the default first.
    """

    title: str
    quick: S
    paper: S
    results: Callable[[Setup[S]], Iterator[Table | Picture | str]]
    datasets: tuple[str, ...] = ("digits",)


def load_study(name: str) -> Study[Any]:
    """Import a study by its name, which is its module's with hyphens."""
    study = importlib.import_module(f"fedselect.studies.{name.replace('-', '_')}").STUDY
    assert isinstance(study, Study)
    return study


def run_study(
    study: Study[S],
    out: Path,
    *,
    paper: bool = False,
    dataset: str | None = None,
    root: Path = Path("data"),
    jobs: int = 2,
    scale: S | None = None,
) -> Path:
    """Run what is missing of a study, print its tables, and write tables and figures.

    Parameters
    ----------
    study : Study
        What is run.
    out : pathlib.Path
        Folder of all runs of the study; each mode and data set has one below it.
    paper : bool
        Whether the paper's scale is taken instead of the quick one.
    dataset : str, optional
        What to train on; the study's first if left out.
    root : pathlib.Path
        Folder of the data sets' files.
    jobs : int
        Runs side by side.
    scale : optional
        Taken instead of both.

    Returns
    -------
    pathlib.Path
        The folder of runs, tables and figures.

    Raises
    ------
    ConfigError
        When the study does not run on the data set.
    """
    dataset = dataset or study.datasets[0]
    if dataset not in study.datasets:
        accepted = ", ".join(map(repr, study.datasets))
        raise ConfigError(f"the data set of this study must be one of {accepted}; got {dataset!r}")
    mode = "paper" if paper else "quick"
    setup = Setup(scale or (study.paper if paper else study.quick), dataset, root, out / f"{mode}-{dataset}", jobs)
    setup.out.mkdir(parents=True, exist_ok=True)
    for result in study.results(setup):
        if isinstance(result, str):
            print(result)
        elif isinstance(result, Picture):
            save_figure(result.figure, setup.out / f"{result.file}.png", result.dpi)
        else:
            frame = result.frame.drop(columns="run", errors="ignore")
            if result.title is not None:
                print_table(frame, result.title, result.digits)
            if result.file is not None:
                frame.to_csv(setup.out / f"{result.file}.csv", index=False, float_format=result.number)
    return setup.out


# -- how its parts are run ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FinishedRun:
    """A finished run of a study: its experiment, and its folder read when it is asked for."""

    folder: Path
    experiment: Experiment

    def summary(self) -> dict[str, Any]:
        """Read the metrics at the end."""
        return read_summary(self.folder)

    def records(self) -> list[dict[str, Any]]:
        """Read one dictionary per round."""
        return read_records(self.folder)

    def rounds(self) -> pd.DataFrame:
        """Read one row per round (see `fedselect.experiments.metrics.round_table`)."""
        return round_table(self.records())

    def curve(self, column: str = "accuracy") -> pd.Series:
        """Read a column by round, counted from 1, where it was evaluated."""
        return learning_curve(self.rounds(), column)


@dataclass(frozen=True)
class Setup(Generic[S]):
    """How a study is run: scale, data set, folder of its files, output folder, and runs side by side."""

    scale: S
    dataset: str
    root: Path
    out: Path
    jobs: int = 1

    def run(self, experiments: Mapping[Key, Experiment], what: str = "rounds") -> dict[Key, FinishedRun]:
        """Run experiments by label, with a progress bar and without pictures; finished ones are not repeated.

        Parameters
        ----------
        experiments : mapping of hashable to Experiment
            What to run, in this order. Put seeds outside: a study cut short then has everything under the seeds it
            reached.
        what : str
            Stands before the progress bar.

        Returns
        -------
        dict of hashable to FinishedRun
            The run of each label; all lie below ``out/runs``.
        """
        with progress_bar(what, 1) as progress:
            folders = run_all(list(experiments.values()), self.out / "runs", self.jobs, progress, plots=False)
        return {
            key: FinishedRun(folder, each) for (key, each), folder in zip(experiments.items(), folders, strict=True)
        }

    def measure(
        self,
        experiments: Mapping[tuple[Any, ...], Experiment],
        labels: Sequence[str],
        values: Callable[[FinishedRun], Mapping[str, Any]],
        what: str = "rounds",
    ) -> pd.DataFrame:
        """Run experiments, and measure each.

        Parameters
        ----------
        experiments : mapping of tuple to Experiment
            What to run, by the values of the labels.
        labels : sequence of str
            Columns that tell the runs apart.
        values : callable
            Measures a finished run: its further columns.
        what : str
            Stands before the progress bar.

        Returns
        -------
        DataFrame
            One row per run: the labels, the values, and the run itself in the column ``run``.
        """
        return pd.DataFrame(
            dict(zip(labels, key, strict=True)) | dict(values(run)) | {"run": run}
            for key, run in self.run(experiments, what).items()
        )

    def cached(self, name: str, compute: Callable[..., Any], *arguments: Any) -> Any:
        """Compute a part that is no run once: see `cached`; ``name`` is its file below ``out``."""
        return cached(self.out / name, compute, *arguments)


def select_without_training(scenario: Scenario, selector: Choice, sizes: ArrayLike | None = None) -> Iterator[Round]:
    """Play a scenario's rounds with a registered selector and without a model.

    Parameters
    ----------
    scenario : Scenario
        From `fedselect.experiments.build_scenario`.
    selector : Choice
        Selects; one that needs losses, norms or probes cannot be played this way.
    sizes : (N,) array-like of int, optional
        Samples of each client; the federation's if left out.

    Yields
    ------
    Round
        As of `fedselect.rounds.play`.
    """
    built = build_selector(selector, scenario)
    # Without a time limit: what a study says must not depend on how busy the machine is.
    world = World(
        scenario.sizes if sizes is None else np.asarray(sizes), scenario.availability, scenario.dropout, scenario.seed
    )
    return play(built, world, scenario.rounds)


def cached(path: Path, compute: Callable[..., Any], *arguments: Any) -> Any:
    """Keep a part of a study that is no run in a file, so that it is computed once.

    Parameters
    ----------
    path : pathlib.Path
        The file; its folder is made. ``.csv`` holds a table, ``.npz`` a nested dictionary of arrays and JSON values.
    compute : callable
        Makes what belongs into the file, where there is none.
    *arguments
        What ``compute`` is called with. They, its code and the versions are written down beside the file, whose name
        should tell what differs between the parts of a study apart.

    Returns
    -------
    DataFrame or dict
        What the file says, also when it was just written: a study gives the same numbers whether it was stopped or not.

    Raises
    ------
    ConfigError
        When the name ends in neither.
    RunError
        When the file was made of something else: other arguments, code or versions, which are named.
    """
    if path.suffix not in (".csv", ".npz"):
        raise ConfigError(f"a part of a study is kept as .csv or .npz; got {path.name!r}")
    origin, beside = _origin(compute, arguments), path.with_name(f"{path.name}.origin.json")
    if path.exists():
        before = read_origin(beside)
        changed = "it does not say of what" if before is None else origin.since(before, finished=True)
        if changed:
            raise RunError(f"{path} may be made of something else: {changed}; choose another --out, or remove it")
    else:
        found = compute(*arguments)
        path.parent.mkdir(parents=True, exist_ok=True)
        origin.write(beside)
        if path.suffix == ".csv":
            write_atomically(path, found.to_csv(index=False).encode())
        else:
            save_checkpoint(path, found)
    return pd.read_csv(path) if path.suffix == ".csv" else load_checkpoint(path)


def _origin(compute: Callable[..., Any], arguments: tuple[Any, ...]) -> Origin:
    """Say what decides a cached part: code, arguments, versions."""
    import joblib

    if is_user_defined(compute):
        code = {f"{compute.__name__} ({place(compute)})": code_digest(compute)}
    else:  # a study of the toolkit's is no part of what decides a run
        file = Path(str(sys.modules[compute.__module__].__file__))
        code = {f"{compute.__name__} ({file.name})": file_digest(file)}
    given = inspect.signature(compute).bind(*arguments).arguments
    return origin_here(code, {f"its argument {name!r}": joblib.hash(value) for name, value in given.items()})


# -- shapes of tables --------------------------------------------------------------------------------------------------


def long_form(rows: pd.DataFrame, labels: Sequence[str], **constant: Any) -> pd.DataFrame:
    """Give each measure of each run a row.

    Parameters
    ----------
    rows : DataFrame
        One row per run, as of `Setup.measure`; columns that are no labels are measures.
    labels : sequence of str
        Columns that tell the runs apart.
    **constant
        Columns of one value, which come first.

    Returns
    -------
    DataFrame
        ``constant``, ``labels``, ``measure`` and ``value`` (float), run by run.
    """
    measures = [column for column in rows.columns if column not in (*labels, "run")]
    return pd.DataFrame(
        constant | dict(zip(labels, key, strict=True)) | {"measure": measure, "value": value}
        for *key, values in zip(*(rows[label] for label in labels), rows[measures].to_numpy(), strict=True)
        for measure, value in zip(measures, values, strict=True)
    ).astype({"value": float})


def curves(
    runs: pd.DataFrame, panel: str, label: str, curve: Callable[[FinishedRun], pd.Series] = FinishedRun.curve
) -> dict[str, dict[str, list[pd.Series]]]:
    """Collect runs' curves by panel and label, one per row, for `fedselect.experiments.figures.panels_figure`."""
    found: dict[str, dict[str, list[pd.Series]]] = {}
    for title, name, run in zip(runs[panel], runs[label], runs["run"], strict=True):
        found.setdefault(title, {}).setdefault(name, []).append(curve(run))
    return found


def print_table(table: pd.DataFrame, title: str, digits: int = 3) -> None:
    """Print a table to stdout: numbers with so many decimals, a dash for what is not there.

    Reasons (the column ``why``) are long and repeated: each is printed once, below, under a number.
    """
    from rich.console import Console
    from rich.table import Table as Printed
    from rich.text import Text

    notes: dict[str, int] = {}
    printed = Printed(title=title, title_justify="left")
    for column in map(str, table.columns):
        printed.add_column(column, overflow="fold")  # a name is never cut
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


def _cell(value: Any, digits: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
