"""One run, as a folder that can be killed at any moment and resumed to the same bits on the same machine."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import Federation
from fedselect.errors import RunError
from fedselect.experiments.checkpoint import load_checkpoint, save_checkpoint
from fedselect.experiments.config import Experiment
from fedselect.experiments.metrics import client_table, round_table, summary
from fedselect.rounds.protocol import Outcome
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import SELECTORS
from solvers import Solution
from solvers.files import alone, write_atomically
from solvers.versions import installed

if TYPE_CHECKING:
    from fedselect.training.coordinator import Coordinator, Round
    from fedselect.training.fedavg import FedAvg

__all__ = [
    "RunFolder",
    "build",
    "build_scenario",
    "one_thread",
    "read_records",
    "read_summary",
    "round_record",
    "run",
    "run_folder",
    "solution_record",
]

_PACKAGES = (
    "fedselect",
    "numpy",
    "scipy",
    "networkx",
    "cvxpy",
    "ortools",
    "highspy",
    "scikit-learn",
    "torch",
    "flwr",
    "ray",
)


def run_folder(experiment: Experiment, out: str | Path) -> Path:
    """Folder of a run: ``out/<name>/<selector>-<digest>-s<seed>``."""
    label = f"{experiment.selector.name}-{experiment.digest}-s{experiment.seed}"
    return Path(out) / experiment.name / label


def build_scenario(experiment: Experiment, federation: Federation | None = None) -> Scenario:
    """The setting of an experiment: clients, availability and dropout, built; it needs no PyTorch.

    Parameters
    ----------
    experiment : Experiment
        What to build.
    federation : Federation, optional
        Use this instead of loading the experiment's data set.

    Returns
    -------
    Scenario
    """
    federation = federation or experiment.federation()
    there, back, seed = experiment.availability, experiment.dropout, experiment.seed
    return Scenario(
        federation,
        AVAILABILITY.build(there.name, federation, seed, **there.options),
        DROPOUT.build(back.name, len(federation), seed, **back.options),
        size=experiment.clients_per_round,
        rounds=experiment.rounds,
        seed=seed,
    )


def build(experiment: Experiment, federation: Federation | None = None) -> FedAvg:
    """Build the loop of an experiment, nothing run yet.

    Parameters
    ----------
    experiment : Experiment
        What to build.
    federation : Federation, optional
        Use this instead of loading the experiment's data set.

    Returns
    -------
    FedAvg
        At round 0.
    """
    from fedselect.training.fedavg import FedAvg

    scenario = build_scenario(experiment, federation)
    return FedAvg(
        scenario.federation,
        SELECTORS.build(experiment.selector.name, scenario, **experiment.selector.options),
        scenario.availability,
        dropout=scenario.dropout,
        settings=experiment.training,
        seed=experiment.seed,
        time_limit=experiment.time_limit,
    )


def run(
    experiment: Experiment,
    out: str | Path = "runs",
    progress: Callable[[int, int], None] | None = None,
    *,
    plots: bool = True,
) -> Path:
    """Run an experiment into its folder, or continue it where it was stopped.

    The folder holds ``config.toml`` (resolved), ``versions.json``, ``rounds.jsonl`` (one line a round, written as it
    ends), ``checkpoint.npz`` and, once finished, ``metrics.csv``, ``clients.csv``, ``summary.json`` and ``plots/``. A
    finished run is not repeated.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    out : path-like
        Directory below which the folder is made.
    progress : callable, optional
        Called with (rounds done, rounds in all) after every round.
    plots : bool
        Whether to draw ``plots/`` once the run is finished.

    Returns
    -------
    pathlib.Path
        The run folder.

    Raises
    ------
    FedselectError
        When the experiment cannot be built (nothing is written then), the folder holds another run, or another
        process is at work in it.
    """
    folder = RunFolder(run_folder(experiment, out), experiment)
    if folder.finished:
        return folder.path
    loop = build(experiment)
    with folder.opened(loop), one_thread():
        while loop.round < experiment.rounds:
            last = loop.round + 1 == experiment.rounds
            folder.append(round_record(loop.step(evaluate=True if last else None)), loop)
            if progress is not None:
                progress(loop.round, experiment.rounds)
        folder.finish(loop.federation, loop.client_scores(), plots)
    return folder.path


class RunFolder:
    """A folder that holds one run, whichever engine plays it: claimed, continued, written round by round, finished.

    Parameters
    ----------
    path : pathlib.Path
        The folder, from `run_folder`.
    experiment : Experiment
        What is run in it.
    """

    def __init__(self, path: Path, experiment: Experiment) -> None:
        self.path, self.experiment = path, experiment
        self.records: list[dict[str, Any]] = []

    @property
    def finished(self) -> bool:
        """Whether the run has ended; nothing is left to do then."""
        return (self.path / "summary.json").exists()

    @contextmanager
    def opened(self, loop: Coordinator) -> Iterator[None]:
        """Have the folder to oneself, and bring ``loop`` to the last checkpoint in it.

        Raises
        ------
        RunError
            When the folder cannot be written, holds another run, or another process is at work in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error}") from error
        with alone(self.path, RunError(f"another process is running {self.path}; wait for it or stop it")):
            _claim(self.path, tomli_w.dumps(self.experiment.tables()))
            self.records = _resume(self.path, loop)
            with (self.path / "rounds.jsonl").open("a", encoding="utf-8") as self._lines:
                yield

    def append(self, record: dict[str, Any], loop: Coordinator) -> None:
        """Write down the round that ``loop`` has just played, and its state where a checkpoint is due."""
        self.records.append(record)
        # The line first: a checkpoint never speaks of a round whose line may be lost.
        self._lines.write(json.dumps(record) + "\n")
        self._lines.flush()
        if loop.round == self.experiment.rounds or loop.round % self.experiment.checkpoint_every == 0:
            save_checkpoint(self.path / "checkpoint.npz", loop.state_dict())

    def finish(
        self,
        federation: Federation,
        scores: tuple[NDArray[np.float64], NDArray[np.float64]],
        plots: bool = True,
    ) -> None:
        """Write tables, pictures and the summary; ``scores`` are the final model's loss and accuracy, each (N,)."""
        folder, records = self.path, self.records
        table = round_table(records)
        importance = self.experiment.training.importances(federation.sizes)
        clients = client_table(records, federation.sizes, importance, scores)
        write_atomically(folder / "metrics.csv", table.to_csv(index=False).encode())
        write_atomically(folder / "clients.csv", clients.to_csv(index=False).encode())
        if plots:
            from fedselect.reports.figures import counts_figure, curves_figure, save_figure

            label = folder.name
            save_figure(counts_figure({label: [records]}, len(federation)), folder / "plots" / "counts.png")
            save_figure(curves_figure({label: [table]}), folder / "plots" / "curves.png")
        # The summary comes last: its presence says that the run is finished.
        write_atomically(folder / "summary.json", json.dumps(summary(records, importance, scores), indent=1).encode())


def _claim(folder: Path, config: str) -> None:
    """Write down which run the folder is of, or refuse where it is of another."""
    try:
        if (folder / "config.toml").exists() and not _same_results((folder / "config.toml").read_text(), config):
            raise RunError(f"{folder} holds a run of another configuration; remove it or choose another output folder")
        write_atomically(folder / "config.toml", config.encode())
        write_atomically(folder / "versions.json", json.dumps(installed(_PACKAGES), indent=1).encode())
    except OSError as error:
        raise RunError(f"cannot write the run folder {folder}: {error}") from error


def read_records(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's rounds, one dictionary a round; a line that is still being written does not count.

    Raises
    ------
    RunError
        When the folder holds no run, or a line of it is not a record.
    """
    path = Path(folder) / "rounds.jsonl"
    if not path.exists():
        raise RunError(f"{folder} is not a run folder: it has no rounds.jsonl")
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise RunError(f"cannot read {path}: {error}") from error


def read_summary(folder: str | Path) -> dict[str, Any]:
    """The summary of a finished run (see `fedselect.experiments.metrics.summary`).

    Raises
    ------
    RunError
        When the folder holds no finished run, or its summary cannot be read.
    """
    path = Path(folder) / "summary.json"
    if not path.exists():
        raise RunError(f"{folder} holds no finished run: it has no summary.json")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"cannot read {path}: {error}") from error


def _same_results(first: str, second: str) -> bool:
    """Whether two resolved configurations describe the same results, however often they are saved."""
    tables = [tomllib.loads(text) for text in (first, second)]
    for each in tables:
        each.get("experiment", {}).pop("checkpoint_every", None)
    return tables[0] == tables[1]


def _resume(folder: Path, loop: Coordinator) -> list[dict[str, Any]]:
    """Bring the loop to the last checkpoint, and the record file to the same round."""
    path = folder / "rounds.jsonl"
    if (folder / "checkpoint.npz").exists():
        loop.load_state_dict(load_checkpoint(folder / "checkpoint.npz"))
    lines = path.read_bytes().split(b"\n")[: loop.round] if path.exists() else []
    if len(lines) < loop.round:
        raise RunError(f"{path} has {len(lines)} rounds, but the checkpoint is at round {loop.round}; remove {folder}")
    write_atomically(path, b"".join(line + b"\n" for line in lines))
    return [json.loads(line) for line in lines]


def round_record(done: Round) -> dict[str, Any]:
    """One round as the line of ``rounds.jsonl`` has it."""
    selection, outcomes = done.selection, done.outcomes
    ids = {outcome: np.flatnonzero(outcomes == outcome).tolist() for outcome in Outcome}
    return {
        "round": done.round,
        "available": np.flatnonzero(outcomes != Outcome.UNAVAILABLE).tolist(),
        "selected": selection.clients.tolist(),
        "weights": selection.weights.tolist(),
        "applied": done.applied.tolist(),
        "inclusion": None if selection.inclusion is None else selection.inclusion[selection.clients].tolist(),
        "returned": ids[Outcome.RETURNED],
        "failed": ids[Outcome.FAILED],
        "missing": ids[Outcome.MISSING],
        "solution": None if selection.solution is None else solution_record(selection.solution),
        "loss": done.loss,
        "accuracy": done.accuracy,
        "select_seconds": done.select_seconds,
        "train_seconds": done.train_seconds,
    }


def solution_record(solution: Solution) -> dict[str, Any]:
    """What is known about a solution, as JSON values: everything but problem, decision and trace."""
    keys = ("method", "status", "stopped", "objective", "bound", "gap", "seconds", "build_seconds", "nodes", "details")
    return {key: _plain(getattr(solution, key)) for key in keys}


def _plain(value: Any) -> Any:
    """JSON for whatever a method has to say: lists for arrays, null for numbers that are not finite."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the models are small, and runs go side by side instead."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
