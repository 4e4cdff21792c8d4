"""What the studies share: their command line, what is kept so that it is run once, tuning, and where tables are from.

A study is a script: two scales, and ``results``, which takes a `Setup` and yields tables, pictures and sentences in the
order in which they are printed. It gathers runs (``setup.runs``), functions computed once for each of some arguments
(``setup.parts``) and learning rates (``setup.tuned``), so many side by side; what is there is not computed again.
Published numbers are CSV files in ``papers``; what compares is in ``comparison.py`` and `fedselect.statistics`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import joblib
import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedselect
from comparison import print_table
from fedselect.errors import TOOLKIT_ERRORS, ConfigError, RunError
from fedselect.experiments.config import Experiment
from fedselect.experiments.figures import save_figure
from fedselect.experiments.folder import load_checkpoint, save_checkpoint
from fedselect.experiments.reading import read_records, read_summary
from fedselect.experiments.running import build_selector, run_all
from fedselect.measures import learning_curve, round_table
from fedselect.plugins import load_payload, worker_payload
from fedselect.rounds.engine import play
from fedselect.rounds.scenario import World
from fedselect.signals import end_as_by_ctrl_c
from fedselect.statistics import FEWEST
from fedselect.terminal import progress_bar
from solvers.benchmark.jobs import JobRunner
from solvers.environment import commit, installed, processor
from solvers.files import write_atomically

#: Panels are small, and so is their text.
matplotlib.rcParams.update(
    {"axes.titlesize": 9, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7}
)


class Table(NamedTuple):
    """A table among the results: printed where it has a title, written as CSV where it has a file, but for ``run``."""

    frame: pd.DataFrame
    title: str | None = None
    file: str | None = None
    digits: int = 3  #: decimals of printed numbers
    number: str | None = None  #: format of the file's numbers, all digits if left out


class Rows(NamedTuple):
    """Rows of all units of replication, written as Parquet, so that pairs and intervals can be computed again."""

    frame: pd.DataFrame
    file: str


class Picture(NamedTuple):
    """A figure among the results, and the name of its PNG file."""

    figure: Figure
    file: str
    dpi: int = 110


class Study(NamedTuple):
    """A study: what it shows (its first line is the title), what is run in minutes and in the paper, on which data.

    ``plans`` are other scales, by the name that ``--plan`` takes.
    """

    about: str
    quick: Any
    paper: Any
    results: Callable[[Setup], Iterable[Table | Rows | Picture | str]]
    datasets: tuple[str, ...] = ("digits",)
    plans: Mapping[str, Any] = MappingProxyType({})


class FinishedRun(NamedTuple):
    """A finished run: its folder, read when it is asked for, and its experiment."""

    folder: Path
    experiment: Experiment

    def summary(self):
        """Read the metrics at the end."""
        return read_summary(self.folder)

    def records(self):
        """Read one dictionary per round."""
        return read_records(self.folder)

    def rounds(self):
        """Read one row per round (see `fedselect.measures.round_table`)."""
        return round_table(self.records())

    def curve(self, column="accuracy"):
        """Read a column by round, counted from 1, where it was evaluated."""
        return learning_curve(self.rounds(), column)


class Trial(NamedTuple):
    """Settings that were tried for a label, in runs of so many rounds, and the criterion of each, least best."""

    label: Any
    settings: dict[str, float]
    rounds: int
    values: tuple[float, ...]

    @property
    def value(self):
        """Average over the runs."""
        return float(np.mean(self.values))


@dataclass(frozen=True)
class Setup:
    """How a study is run: scale, data set, folder of its files, output folder, jobs side by side."""

    scale: Any
    dataset: str
    root: Path
    out: Path
    jobs: int = 1

    def run(self, experiments, what="rounds"):
        """Run experiments with a progress bar and without pictures; finished ones are not repeated."""
        experiments = list(experiments)
        with progress_bar(what, 1) as progress:
            folders = run_all(experiments, self.out / "runs", self.jobs, progress, plots=False)
        return [FinishedRun(folder, each) for folder, each in zip(folders, experiments, strict=True)]

    def runs(self, what, labels, grid, measures):
        """Run a grid by the values of its labels; return a row per run: labels, measures, and the run in ``run``.

        Put seeds outside in the grid: a study cut short then has everything under the seeds it reached.
        """
        return pd.DataFrame(
            dict(zip(labels, key, strict=True)) | measures(run) | {"run": run}
            for key, run in zip(grid, self.run(grid.values(), what), strict=True)
        )

    def parts(self, name, compute, arguments, ending=".csv"):
        """Compute a function once for each of some arguments; return what its files say, by what tells them apart.

        A file's name has a digest of the arguments: what is made of others is another file.
        """
        found, calls = {}, []
        for key, each in arguments.items():
            label = "-".join(map(str, key)).replace(" ", "")
            calls.append((key, self.out / name / f"{label}-{joblib.hash(each)[:8]}{ending}", compute, *each))
        work = functools.partial(_part, worker_payload(()))
        with progress_bar(name, len(calls)) as progress:
            if missing := sum(not call[1].exists() for call in calls):  # a part may take minutes
                print(f"{name}: {missing} of {len(calls)} parts to compute", file=sys.stderr, flush=True)
            for key, part in JobRunner(self.jobs, wave=0, error=RunError).run(work, calls):
                found[key] = part
                progress(len(found), len(calls))
        return {key: found[key] for key in arguments}

    def tuned(self, experiments, criterion="objective", widenings=0):
        """Find the learning rates that serve each label best, among the scale's ``local`` and ``server``.

        ``experiments`` are what each label's rates have to serve: their criterion is averaged. It is "objective", the
        lowest training loss of the final model over all clients, which looks at no test sample, or "mean accuracy",
        the highest over the rounds, which rewards speed. With a ``screening`` (rounds, count), so many settings of each
        label go on from so many rounds to the full length. A grid is widened so often where its best lies on an edge;
        the best so far stays in the race, first, and of equal values the first wins. Rates under which a run's value is
        not finite, or its updates are refused, never win. Returns the settings by label, and all trials.
        """
        if not experiments:
            return {}, []
        scale, best, trials, searched = self.scale, {}, {}, list(experiments)
        rates = {"learning_rate": scale.local, "server_learning_rate": scale.server}
        grids = dict.fromkeys(searched, rates)
        for left in reversed(range(widenings + 1)):
            points = {
                label: [
                    dict(zip(grids[label], each, strict=True)) for each in itertools.product(*grids[label].values())
                ]
                for label in searched
            }
            if all(len(each) > 1 for each in points.values()):
                for rounds, kept in ([] if scale.screening is None else [scale.screening]) + [(None, 1)]:
                    if rounds is None:
                        points = {
                            k: [best[k], *(p for p in each if p != best[k])] if k in best else each
                            for k, each in points.items()
                        }
                    judged = self._judged(points, experiments, rounds, _CRITERIA[criterion])
                    trials |= {(each.label, each.rounds, *each.settings.values()): each for each in judged}
                    points = {label: _best(label, judged, kept) for label in searched}
            best |= {label: each[0] for label, each in points.items()}
            wider = {label: widened(grids[label], best[label]) for label in searched} if left else {}
            searched = [label for label in wider if wider[label] != grids[label]]
            grids |= wider
            if not searched:
                break
        found = {label: replace(own[0].training, **best[label]) for label, own in experiments.items()}
        return found, list(trials.values())

    def _judged(self, points, experiments, rounds, criterion):
        """Run every point of every label, and return the trials."""
        cells = [(label, point, experiments[label]) for label, each in points.items() for point in each]
        planned = [
            replace(each, rounds=rounds or each.rounds, training=replace(each.training, **point))
            for _, point, own in cells
            for each in own
        ]
        values = (_value(run, *criterion) for run in self.run(planned, "tuning"))
        return [
            Trial(label, point, rounds or own[0].rounds, tuple(itertools.islice(values, len(own))))
            for label, point, own in cells
        ]


#: Key of the summary, and its sign where smaller is better.
_CRITERIA = {"objective": ("client_loss_mean", 1.0), "mean accuracy": ("mean_accuracy", -1.0)}


def _value(run, key, sign):
    """Read a run's criterion. Refused updates leave the model as it was: its loss says nothing of the setting."""
    summary = run.summary()
    return math.inf if summary["failed"] > 0 or summary[key] is None else float(sign * summary[key])


def _best(label, trials, kept):
    """Return a label's settings of the smallest values, best first."""
    ordered = sorted((each for each in trials if each.label == label), key=lambda each: each.value)
    if not math.isfinite(ordered[0].value):
        raise ConfigError(f"{label}: no setting of the grid led to a finite loss; try smaller learning rates")
    return [each.settings for each in ordered[:kept]]


def widened(grid, best):
    """Add a value beyond each edge of an ascending grid on which the best lies, as far as its neighbour, by ratio."""
    wider = {}
    for name, values in grid.items():
        edges = len(values) > 1  # a single value is no range
        below = [values[0] ** 2 / values[1]] if edges and best[name] == values[0] else []
        above = [values[-1] ** 2 / values[-2]] if edges and best[name] == values[-1] else []
        wider[name] = (*below, *values, *above)
    return wider


def _part(own, key, path, compute, *arguments):
    load_payload(own)  # rules that the study's imports register
    return key, cached(path, compute, *arguments)


def cached(path, compute, *arguments):
    """Keep what a function returns in a file, so that it is computed once; return what the file says.

    ``.csv`` and ``.parquet`` hold a table, ``.npz`` a nested dictionary of arrays and JSON values.
    """
    if not path.exists():
        found = compute(*arguments)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            write_atomically(path, found.to_csv(index=False).encode())
        elif path.suffix == ".parquet":
            write_atomically(path, found.to_parquet(index=False))
        else:
            save_checkpoint(path, found)
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    return readers.get(path.suffix, load_checkpoint)(path)


def curves(runs, panel, label, curve=FinishedRun.curve):
    """Collect runs' curves by panel and label, one per row, for `fedselect.experiments.figures.panels_figure`."""
    found = {}
    for title, name, run in zip(runs[panel], runs[label], runs["run"], strict=True):
        found.setdefault(title, {}).setdefault(name, []).append(curve(run))
    return found


def select_without_training(scenario, selector, sizes=None):
    """Play a scenario's rounds with a registered selector and without a model; yields as `fedselect.rounds.play` does.

    ``sizes`` (N,) are the clients' samples, the federation's if left out. There is no time limit: what a study says
    must not depend on how busy the machine is.
    """
    sizes = scenario.sizes if sizes is None else np.asarray(sizes)
    world = World(sizes, scenario.availability, scenario.dropout, scenario.seed)
    return play(build_selector(selector, scenario), world, scenario.rounds)


def plan_of(scale, paper):
    """Say the numbers of a plan, rounds, clients and seeds among them, and the paper's where they are others."""
    theirs = vars(paper) if dataclasses.is_dataclass(paper) else getattr(paper, "_asdict", dict)()
    ours = vars(scale) if dataclasses.is_dataclass(scale) else getattr(scale, "_asdict", dict)()
    said = []
    for name, value in ours.items():
        if isinstance(value, bool) or not _is_plain(value):
            continue
        other = theirs.get(name, value)
        beside = f" (paper's plan: {_plain(other)})" if other != value and _is_plain(other) else ""
        said.append(f"{name.replace('_', ' ')} {_plain(value)}{beside}")
    return f"plan: {', '.join(said) or 'one'}"


def _is_plain(value):
    """Return whether a value of a plan is a number, or some."""
    return isinstance(value, int | float) or (
        isinstance(value, tuple) and bool(value) and all(isinstance(each, int | float) for each in value)
    )


def _plain(value):
    return " ".join(f"{each:g}" for each in value) if isinstance(value, tuple) else f"{value:g}"


def run_study(study, out, *, paper=False, plan=None, dataset=None, root=Path("data"), jobs=2, scale=None):
    """Run what is missing of a study, print and write its results, and return their folder below ``out``."""
    dataset, plan = dataset or study.datasets[0], plan or ("paper" if paper else "quick")
    scale = scale or {"quick": study.quick, "paper": study.paper, **study.plans}[plan]
    folder = out / f"{plan}-{dataset}"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{plan_of(scale, study.paper)}; data: {dataset}")
    verdicts = Counter()
    for result in study.results(Setup(scale, dataset, root, folder, jobs)):
        if isinstance(result, str):
            print(result)
        elif isinstance(result, Rows):
            rows = result.frame.drop(columns="run", errors="ignore")
            rows.to_parquet(folder / f"{result.file}.parquet", index=False)
        elif isinstance(result, Picture):
            save_figure(result.figure, folder / f"{result.file}.png", result.dpi)
        else:
            frame = result.frame.drop(columns="run", errors="ignore")
            verdicts.update(each for each in frame.get("verdict", ()) if isinstance(each, str) and each)
            if result.title is not None:
                print_table(frame, result.title, result.digits)
            if result.file is not None:
                frame.to_csv(folder / f"{result.file}.csv", index=False, float_format=result.number)
    if verdicts:
        print(f"verdicts: {', '.join(f'{cells} {verdict}' for verdict, cells in verdicts.most_common())}")
    if verdicts["too few"]:
        more = "" if paper else "; --paper has more, in hours"
        print(f"too few: fewer than {FEWEST} seeds say nothing of chance, so such a cell is no evidence{more}")
    print(f"tables and figures: {folder}")
    return folder


def main(study, arguments=None):
    """Run a study as its script's command line says; a mistake of the user's is a sentence and exit code 2."""
    script = Path(sys._getframe(1).f_code.co_filename).stem
    parser = argparse.ArgumentParser(prog=f"{script}.py", description=study.about.partition("\n")[0])
    parser.add_argument(
        "--paper", action="store_true", help="the paper's settings; three to thirty minutes if left out"
    )
    if study.plans:
        parser.add_argument("--plan", choices=study.plans, help="another scale, which the script's constants say")
    parser.add_argument("--dataset", choices=study.datasets, help="what to train on; the first if left out")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder of the data sets' files")
    parser.add_argument("--out", type=Path, default=Path("studies") / script, help="runs, tables and figures")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--gallery", type=Path, help="copy tables and figures there, with a line of provenance.csv")
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen, began = parser.parse_args(given), time.perf_counter()
    end_as_by_ctrl_c()
    # Progress comes a line a minute where stderr is no terminal: nothing for that long looks like a hang.
    print(f"{script}: runs are kept in {chosen.out}; a study that is stopped continues", flush=True)
    try:
        options = {"paper": chosen.paper, "plan": (plan := getattr(chosen, "plan", None)), "dataset": chosen.dataset}
        options |= {"root": chosen.root, "jobs": chosen.jobs}
        folder = run_study(study, chosen.out, **options)
        command = shlex.join(["python", f"examples/studies/{script}.py", *given])
        print(f"provenance: {write_provenance(folder, command, time.perf_counter() - began)}")
        if chosen.gallery is not None:
            label = "_".join(each.replace("-", "_") for each in (script, plan, chosen.dataset) if each)
            collect(folder, label, chosen.gallery)
            print(f"gallery: {chosen.gallery}")
    except TOOLKIT_ERRORS as error:
        parser.exit(2, f"{script}.py: {error}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"{script}.py: interrupted; what was finished is kept, and the same command continues\n")


def write_provenance(folder, command, seconds):
    """Write what is needed to run a study again into ``provenance.json``, and return its path.

    Where the same command was stopped and called again on the same commit and machine, the seconds add up. ``commit``
    ends with ``-dirty`` where files differ from it.
    """
    path = folder / "provenance.json"
    found = {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "fedselect": fedselect.__version__,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform(terse=True)},
        "versions": installed(("numpy", "scipy", "numba", "scikit-learn", "torch")),
        "seconds": round(seconds, 1),
    }
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if all(before.get(key) == found[key] for key in ("command", "commit", "machine", "versions")):
            found["seconds"] = round(found["seconds"] + before["seconds"], 1)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def collect(folder, label, gallery, rows=200):
    """Copy a finished study's figures, Parquet files and tables of at most ``rows`` rows; add to ``provenance.csv``.

    The label stands before the name of every copy (``fedgs_table2.png``), unless the name is the label.
    """
    known = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    gallery.mkdir(parents=True, exist_ok=True)
    for file in sorted(each for ending in ("csv", "png", "parquet") for each in folder.glob(f"*.{ending}")):
        if file.suffix != ".csv" or len(pd.read_csv(file)) <= rows:
            stem = file.stem.replace("-", "_")
            shutil.copyfile(file, gallery / f"{stem if stem == label else f'{label}_{stem}'}{file.suffix}")
    row = {"study": label, "command": known["command"], "date": known["date"], "commit": known["commit"]}
    row |= {"processor": known["machine"]["processor"], "cores": known["machine"]["cores"]}
    row |= {name: known["versions"].get(name) for name in ("python", "numpy", "torch")} | {"seconds": known["seconds"]}
    table = gallery / "provenance.csv"
    before = pd.read_csv(table, dtype=str) if table.exists() else pd.DataFrame(columns=list(row))
    after = pd.concat([before[before["study"] != label], pd.DataFrame([row], dtype=str)])
    after.sort_values("study").to_csv(table, index=False)
