"""Studies: what is run, measured and compared as data, and the runner that all of them share.

A study module declares one `Study`: its paper, two scales, the data sets it runs on, and what it gathers, each by a
name. That may be a grid of experiments whose runs are measured (`Runs`), a function computed once for each of some
arguments (`Parts`), or a search for training settings (`Tuning`). ``results`` takes them from the `Setup`
(``setup["runs"]``: computed on first use, by so many jobs, and what is in the folder is not computed again), and yields
tables, pictures and sentences in the order in which they are printed. `main` does the rest. Published numbers are CSV
files in ``papers``; what compares and tests is in ``comparison.py`` and `fedselect.statistics`.

To add a study, write such a script that ends with ``main(STUDY)``; ``graph_worth.py`` is a short one.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import math
import os
import platform
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import fedselect
from comparison import print_table
from fedselect.errors import TOOLKIT_ERRORS, ConfigError, RunError
from fedselect.experiments.config import Choice, Experiment
from fedselect.experiments.figures import save_figure
from fedselect.experiments.folder import load_checkpoint, read_records, read_summary, save_checkpoint
from fedselect.experiments.metrics import learning_curve, round_table
from fedselect.experiments.provenance import Origin, code_digest, file_digest, origin_here, place, read_origin
from fedselect.experiments.running import build_selector, run_all
from fedselect.plugins import is_user_defined
from fedselect.rounds.engine import Round, play
from fedselect.rounds.scenario import Scenario, World
from fedselect.terminal import progress_bar
from fedselect.training.settings import TrainingSettings
from solvers.benchmark.jobs import JobRunner
from solvers.environment import commit, installed, processor
from solvers.files import write_atomically

__all__ = [
    "FinishedRun",
    "Parts",
    "Picture",
    "Runs",
    "Setup",
    "Study",
    "Table",
    "Trial",
    "Tuning",
    "cached",
    "collect",
    "curves",
    "main",
    "provenance",
    "run_study",
    "select_without_training",
    "tune",
    "widened",
    "write_provenance",
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
        The rows; the column ``run`` (see `Runs`) is neither printed nor written.
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
class Runs:
    """A grid of experiments, whose runs are measured: a table with a row for each.

    Attributes
    ----------
    labels : tuple of str
        Columns that tell the runs apart.
    grid : callable
        Called with the `Setup`; returns the experiments by the values of the labels. Put seeds outside: a study cut
        short then has everything under the seeds it reached.
    measures : callable
        Measures a `FinishedRun`: its further columns.
    """

    labels: tuple[str, ...]
    grid: Callable[[Any], Mapping[tuple[Any, ...], Experiment]]
    measures: Callable[[Any], Mapping[str, Any]]

    def gather(self, name: str, setup: Setup[Any]) -> pd.DataFrame:
        """Return a row per run: the labels, the measures, and the `FinishedRun` itself in ``run``."""
        return pd.DataFrame(
            dict(zip(self.labels, key, strict=True)) | dict(self.measures(run)) | {"run": run}
            for key, run in setup.run(self.grid(setup), name).items()
        )


@dataclass(frozen=True)
class Parts:
    """A function that is computed once for each of some arguments: what a study gathers beside runs.

    Attributes
    ----------
    arguments : callable
        Called with the `Setup`; returns the arguments of every part, by what tells the parts apart.
    compute : callable
        Makes a part; see `cached`.
    ending : {".csv", ".npz"}
        Of each part's file, which lies in a folder of the parts' name.
    """

    arguments: Callable[[Any], Mapping[tuple[Any, ...], tuple[Any, ...]]]
    compute: Callable[..., Any]
    ending: str = ".csv"

    def gather(self, name: str, setup: Setup[Any]) -> dict[tuple[Any, ...], Any]:
        """Return the parts by what tells them apart: what the files say."""
        found = {}
        calls = [
            (key, setup.out / name / ("-".join(map(str, key)).replace(" ", "") + self.ending), self.compute, *arguments)
            for key, arguments in self.arguments(setup).items()
        ]
        with progress_bar(name, len(calls)) as progress:
            for key, part in JobRunner(setup.jobs, wave=0, error=RunError).run(_part, calls):
                found[key] = part
                progress(len(found), len(calls))
        return {key: found[key] for key, *_ in calls}


def _part(key: Key, path: Path, compute: Callable[..., Any], *arguments: Any) -> tuple[Key, Any]:
    return key, cached(path, compute, *arguments)


@dataclass(frozen=True)
class Tuning:
    """A search for the learning rates of each label, among the scale's ``local`` and ``server``; see `tune`.

    Attributes
    ----------
    experiments : callable
        Called with the `Setup`; returns what to tune for by label, or nothing where nothing is to be tuned.
    criterion : {"objective", "mean accuracy"}
        What is best.
    widenings : int
        How often a label's grid may be widened; see `tune`.
    """

    experiments: Callable[[Any], Mapping[Any, Sequence[Experiment]]]
    criterion: Literal["objective", "mean accuracy"] = "objective"
    widenings: int = 0

    def gather(self, name: str, setup: Setup[Any]) -> tuple[dict[Any, TrainingSettings], list[Trial[Any]]]:
        """Return the settings of each label, and all trials."""
        experiments, scale = self.experiments(setup), setup.scale
        if not experiments:
            return {}, []
        grid = {"learning_rate": scale.local, "server_learning_rate": scale.server}
        with progress_bar(name, 1) as progress:
            return tune(
                experiments,
                grid,
                setup.out / "runs",
                setup.jobs,
                progress,
                self.criterion,
                scale.screening,
                self.widenings,
            )


@dataclass(frozen=True)
class Study(Generic[S]):
    """A study: its scales, its data sets, what it gathers, and its results.

    Attributes
    ----------
    about : str
        What it shows: the module's docstring, whose first line is the title.
    quick, paper
        How much is run in minutes, and what the paper ran.
    results : callable
        Called with a `Setup`; yields `Table`, `Picture` and str (a line to print), in the order of printing.
    datasets : tuple of str
        Data sets it runs on, the default first.
    data : mapping of str to Runs, Parts or Tuning
        What the results are made of, by name.
    """

    about: str | None
    quick: S
    paper: S
    results: Callable[[Setup[S]], Iterator[Table | Picture | str]]
    datasets: tuple[str, ...] = ("digits",)
    data: Mapping[str, Runs | Parts | Tuning] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """First line of what it is about."""
        return (self.about or "").partition("\n")[0]


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
    """Run what is missing of a study, print tables and how often which verdict, and write tables and figures.

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
    folder = out / f"{mode}-{dataset}"
    setup = Setup(scale or (study.paper if paper else study.quick), dataset, root, folder, jobs, study.data)
    folder.mkdir(parents=True, exist_ok=True)
    verdicts: Counter[str] = Counter()
    for result in study.results(setup):
        if isinstance(result, str):
            print(result)
        elif isinstance(result, Picture):
            save_figure(result.figure, folder / f"{result.file}.png", result.dpi)
        else:
            frame = result.frame.drop(columns="run", errors="ignore")
            verdicts.update(frame.get("verdict", ()))
            if result.title is not None:
                print_table(frame, result.title, result.digits)
            if result.file is not None:
                frame.to_csv(folder / f"{result.file}.csv", index=False, float_format=result.number)
    if verdicts:
        print(f"verdicts: {', '.join(f'{cells} {verdict}' for verdict, cells in verdicts.most_common())}")
    print(f"tables and figures: {folder}")
    return folder


def main(study: Study[Any], arguments: Sequence[str] | None = None) -> None:
    """Run a study as its script's command line says; ``provenance.json`` beside its tables says what they are from.

    Parameters
    ----------
    study : Study
        What is run.
    arguments : sequence of str, optional
        Those behind the script's name; of the command line if left out.

    Raises
    ------
    SystemExit
        With a sentence, where the toolkit does not accept something.
    """
    script = Path(inspect.stack()[1].filename).stem
    parser = argparse.ArgumentParser(prog=f"{script}.py", description=study.title)
    parser.add_argument("--paper", action="store_true", help="the paper's settings; minutes if left out")
    parser.add_argument("--dataset", choices=study.datasets, help="what to train on; the first if left out")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder of the data sets' files")
    parser.add_argument("--out", type=Path, default=Path("studies") / script, help="runs, tables and figures")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--gallery", type=Path, help="copy tables and figures there, with a line of provenance.csv")
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen, began = parser.parse_args(given), time.perf_counter()
    try:
        folder = run_study(
            study, chosen.out, paper=chosen.paper, dataset=chosen.dataset, root=chosen.root, jobs=chosen.jobs
        )
        command = shlex.join(["python", f"examples/studies/{script}.py", *given])
        print(f"provenance: {write_provenance(folder, command, time.perf_counter() - began)}")
        if chosen.gallery is not None:
            label = script if chosen.dataset is None else f"{script}_{chosen.dataset.replace('-', '_')}"
            collect(folder, label, chosen.gallery)
            print(f"gallery: {chosen.gallery}")
    except TOOLKIT_ERRORS as error:
        parser.exit(2, f"{script}.py: {error}\n")


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
    """How a study is run: scale, data set, folder of its files, output folder, jobs side by side, what it gathers."""

    scale: S
    dataset: str
    root: Path
    out: Path
    jobs: int = 1
    data: Mapping[str, Runs | Parts | Tuning] = field(default_factory=dict, compare=False)
    _gathered: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Gather what the study declares under this name, once: a table of runs, parts by label, or tuned settings."""
        if name not in self._gathered:
            self._gathered[name] = self.data[name].gather(name, self)
        return self._gathered[name]

    def run(self, experiments: Mapping[Key, Experiment], what: str = "rounds") -> dict[Key, FinishedRun]:
        """Run experiments by label, with a progress bar and without pictures; finished ones are not repeated."""
        with progress_bar(what, 1) as progress:
            folders = run_all(list(experiments.values()), self.out / "runs", self.jobs, progress, plots=False)
        return {
            key: FinishedRun(folder, each) for (key, each), folder in zip(experiments.items(), folders, strict=True)
        }


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
        changed = "it does not say of what" if before is None else origin.difference(before)
        if before is not None and not changed:
            changed = origin.changed_since(before, finished=True)
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


def curves(
    runs: pd.DataFrame, panel: str, label: str, curve: Callable[[FinishedRun], pd.Series] = FinishedRun.curve
) -> dict[str, dict[str, list[pd.Series]]]:
    """Collect runs' curves by panel and label, one per row, for `fedselect.experiments.figures.panels_figure`."""
    found: dict[str, dict[str, list[pd.Series]]] = {}
    for title, name, run in zip(runs[panel], runs[label], runs["run"], strict=True):
        found.setdefault(title, {}).setdefault(name, []).append(curve(run))
    return found


# -- tuning ------------------------------------------------------------------------------------------------------------

Point = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]

#: Key of the summary, and its sign where smaller is better.
_CRITERIA = {"objective": ("client_loss_mean", 1.0), "mean accuracy": ("mean_accuracy", -1.0)}


@dataclass(frozen=True)
class Trial(Generic[Key]):
    """Setting of a grid, and the values of its runs.

    Attributes
    ----------
    label : hashable
        Names the setting's purpose.
    settings : dict
        Fields of `TrainingSettings` that were tried.
    rounds : int
        How long the runs were.
    values : tuple of float
        The criterion of each run; infinite where a run's was not finite, or where updates failed.
    """

    label: Key
    settings: Point
    rounds: int
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """Average the values over the runs; the smaller the better."""
        return float(np.mean(self.values))


def widened(grid: Grid, best: Point) -> Grid:
    """Add a value beyond each edge of a grid on which the best lies, as far from the edge as its neighbour, by ratio.

    Parameters
    ----------
    grid : mapping of str to sequence of float
        Positive values by field of `TrainingSettings`, ascending; a single one is no range, and stays alone.
    best : mapping of str to float
        The best of it.
    """
    wider: dict[str, Sequence[Any]] = {}
    for name, values in grid.items():
        edges = len(values) > 1
        below = [values[0] ** 2 / values[1]] if edges and best[name] == values[0] else []
        above = [values[-1] ** 2 / values[-2]] if edges and best[name] == values[-1] else []
        wider[name] = (*below, *values, *above)
    return wider


def tune(
    experiments: Mapping[Key, Sequence[Experiment]],
    grid: Mapping[str, Sequence[Any]],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    criterion: Literal["objective", "mean accuracy"] = "objective",
    screening: tuple[int, int] | None = None,
    widenings: int = 0,
) -> tuple[dict[Key, TrainingSettings], list[Trial[Key]]]:
    """Find the training settings that serve each label best, of all combinations of a grid.

    Of equal values the first in the grid's order wins, and a grid's best stays the best when a wider grid only equals
    it. A setting under which a run's value is not finite, or under which updates fail because they are not finite or
    too large, never wins.
    Runs are those of `run_all`: finished ones are not repeated.

    Parameters
    ----------
    experiments : mapping of hashable to sequence of Experiment
        What a label's settings have to serve, equally long: one run, or several seeds or surroundings, whose values
        are averaged. Report results under other seeds.
    grid : mapping of str to sequence
        Values to try, by field of `TrainingSettings`; all combinations are. A single one is taken without a run.
    out, jobs, progress
        As for `run_all`.
    criterion : {"objective", "mean accuracy"}
        ``"objective"``: the lowest training loss of the final model, averaged over all clients; that is Σ α_k F_k
        where clients are equally important, and no test sample is looked at. ``"mean accuracy"``: the highest test
        accuracy on average over the rounds, which rewards speed; tune on another draw of the data then.
    screening : (int, int), optional
        Rounds, and how many settings of each label go on from there to the full length. Left out, all are run in full.
        A short horizon prefers large steps, so let several go on.
    widenings : int
        How often a label's grid is widened where its best lies on an edge (see `widened`), and searched again. The best
        so far goes on to the full length whatever the screening says, so that a wider grid never makes it worse.

    Returns
    -------
    settings : dict of hashable to TrainingSettings
        The best of each label.
    trials : list of Trial
        Everything that was tried, each once, the screening of a grid before its full length.

    Raises
    ------
    ConfigError
        When there is nothing to try, a field or criterion is unknown, no setting of a label has a finite value, or a
        grid that may be widened is not of positive values in ascending order.
    """
    known = [each.name for each in fields(TrainingSettings)]
    if unknown := [name for name in grid if name not in known]:
        raise ConfigError(f"training: there is no {unknown[0]!r} to tune (accepted: {', '.join(known)})")
    if not all(len(values) for values in grid.values()):
        raise ConfigError("every setting to tune needs at least one value")
    if widenings and not all(0 < low < high for values in grid.values() for low, high in itertools.pairwise(values)):
        raise ConfigError("a grid that may be widened needs positive values in ascending order")
    if criterion not in _CRITERIA:
        raise ConfigError(f"criterion must be one of {', '.join(map(repr, _CRITERIA))}; got {criterion!r}")
    grids: dict[Key, Grid] = dict.fromkeys(experiments, grid)
    best: dict[Key, Point] = {}
    trials: dict[tuple[Key, int, tuple[Any, ...]], Trial[Key]] = {}
    searched = list(experiments)
    for left in reversed(range(widenings + 1)):
        candidates = {label: _points(grids[label]) for label in searched}
        if all(len(points) > 1 for points in candidates.values()):
            for rounds, kept in [(None, 1)] if screening is None else [screening, (None, 1)]:
                if rounds is None:  # what was best in a narrower grid stays in the race, first
                    candidates = {label: _led(best.get(label), points) for label, points in candidates.items()}
                planned = {
                    label: [replace(each, rounds=rounds or each.rounds) for each in experiments[label]]
                    for label in searched
                }
                judged = _judge(planned, candidates, out, jobs, progress, criterion)
                trials |= {(each.label, each.rounds, tuple(each.settings.values())): each for each in judged}
                candidates = {label: _best(label, judged, kept) for label in searched}
        best |= {label: points[0] for label, points in candidates.items()}
        wider = {label: widened(grids[label], best[label]) for label in searched} if left else {}
        searched = [label for label in wider if wider[label] != grids[label]]
        grids |= wider
        if not searched:
            break
    found = {label: replace(own[0].training, **best[label]) for label, own in experiments.items()}
    return found, list(trials.values())


def _points(grid: Grid) -> list[Point]:
    """List all combinations of a grid's values."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _led(best: Point | None, points: Sequence[Point]) -> list[Point]:
    """Put the best so far, if there is one, before the other points."""
    return list(points) if best is None else [best, *(point for point in points if point != best)]


def _judge(
    experiments: Mapping[Key, Sequence[Experiment]],
    candidates: Mapping[Key, Sequence[Point]],
    out: str | Path,
    jobs: int,
    progress: Callable[[int, int], None] | None,
    criterion: str,
) -> list[Trial[Key]]:
    """Run every candidate of every label, in the candidates' order."""
    cells = [(label, point) for label, points in candidates.items() for point in points]
    planned = [
        replace(each, training=replace(each.training, **point)) for label, point in cells for each in experiments[label]
    ]
    values = (_value(folder, *_CRITERIA[criterion]) for folder in run_all(planned, out, jobs, progress, plots=False))
    return [
        Trial(label, point, experiments[label][0].rounds, tuple(itertools.islice(values, len(experiments[label]))))
        for label, point in cells
    ]


def _best(label: Key, trials: Sequence[Trial[Key]], kept: int) -> list[Point]:
    """A label's settings with the smallest values, best first."""
    ordered = sorted((each for each in trials if each.label == label), key=lambda each: each.value)
    if not math.isfinite(ordered[0].value):
        raise ConfigError(f"{label}: no setting of the grid led to a finite loss; try smaller learning rates")
    return [each.settings for each in ordered[:kept]]


def _value(folder: Path, key: str, sign: float) -> float:
    """Read the criterion of a finished run; the smaller the better."""
    summary = read_summary(folder)
    # Refused updates leave the model as it was: its loss says nothing about a setting under which they diverge. A loss
    # that is not finite is null in the file.
    if summary["failed"] > 0 or summary[key] is None:
        return math.inf
    return float(sign * summary[key])


# -- provenance and gallery --------------------------------------------------------------------------------------------

#: Longer tables have a row per run, and stay with the runs.
_ROWS = 200


def collect(folder: Path, label: str, gallery: Path) -> list[Path]:
    """Copy a study's tables and figures into a gallery, and record their provenance.

    Parameters
    ----------
    folder : pathlib.Path
        The study's, with its tables (CSV), figures (PNG) and ``provenance.json``.
    label : str
        Stands before the name of every copy (``fedgs_table2.png``), unless the name is the label.
    gallery : pathlib.Path
        Where they go; made if it is not there. What has these names there is replaced. Tables of more than 200 rows
        stay with the runs.

    Returns
    -------
    list of pathlib.Path
        The copies, sorted, and ``provenance.csv``: a row per label, with command, date, commit, machine, versions and
        seconds.

    Raises
    ------
    FileNotFoundError
        When the study has no ``provenance.json``: it did not come to its end.
    """
    known = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    gallery.mkdir(parents=True, exist_ok=True)
    copies = []
    for file in sorted([*folder.glob("*.csv"), *folder.glob("*.png")]):
        if file.suffix == ".csv" and len(pd.read_csv(file)) > _ROWS:
            continue
        stem = file.stem.replace("-", "_")
        copies.append(gallery / f"{stem if stem == label else f'{label}_{stem}'}{file.suffix}")
        shutil.copyfile(file, copies[-1])

    row = {"study": label, "command": known["command"], "date": known["date"], "commit": known["commit"]}
    row |= {"processor": known["machine"]["processor"], "cores": known["machine"]["cores"]}
    row |= {name: known["versions"].get(name) for name in ("python", "numpy", "torch")} | {"seconds": known["seconds"]}
    table = gallery / "provenance.csv"
    before = pd.read_csv(table, dtype=str) if table.exists() else pd.DataFrame(columns=list(row))
    rows = pd.concat([before[before["study"] != label], pd.DataFrame([row], dtype=str)])
    rows.sort_values("study").to_csv(table, index=False)
    return [*copies, table]


def provenance(command: str, seconds: float) -> dict[str, Any]:
    """Collect what is needed to run a study again.

    Parameters
    ----------
    command : str
        What was typed.
    seconds : float
        How long it took.

    Returns
    -------
    dict
        JSON values. ``commit`` is the one of the checkout the code lies in, with ``-dirty`` where files differ from
        it, and None where it is installed and not a checkout.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "fedselect": fedselect.__version__,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform(terse=True)},
        "python": platform.python_version(),
        "versions": installed(("numpy", "scipy", "numba", "scikit-learn", "torch")),
        "seconds": round(seconds, 1),
    }


def write_provenance(folder: Path, command: str, seconds: float) -> Path:
    """Write it as ``provenance.json`` into ``folder``, and return the file's path.

    Where the same command was stopped and called again on the same commit and machine, the seconds add up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, found = folder / "provenance.json", provenance(command, seconds)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if all(before.get(key) == found[key] for key in ("command", "commit", "machine", "versions")):
            found["seconds"] = round(found["seconds"] + before["seconds"], 1)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path
