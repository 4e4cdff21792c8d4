"""One run, as a folder that can be killed at any moment and resumed to the same bits on the same machine."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError, RunError
from fedselect.experiments.checkpoint import load_checkpoint, save_checkpoint
from fedselect.experiments.config import Experiment
from fedselect.experiments.metrics import client_table, round_table, summary
from solvers.files import alone, appearing_whole, write_atomically
from solvers.versions import installed

if TYPE_CHECKING:
    from fedselect.training.coordinator import Coordinator

__all__ = ["RunFolder", "run_folder"]

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
            _claim(self.path, self.experiment)
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
        model: Mapping[str, Any] | None = None,
    ) -> None:
        """Write tables, pictures, the model and the summary.

        Parameters
        ----------
        federation : Federation
            Whose clients.
        scores : pair of (N,) ndarray of float
            The final model's loss and accuracy at each client.
        plots : bool
            Whether to draw pictures.
        model : mapping, optional
            The final model's ``state_dict``, for ``model.pt``.
        """
        folder, records = self.path, self.records
        table = round_table(records)
        importance = self.experiment.training.importances(federation.sizes)
        clients = client_table(records, federation.sizes, importance, scores)
        write_atomically(folder / "metrics.csv", table.to_csv(index=False).encode())
        write_atomically(folder / "clients.csv", clients.to_csv(index=False).encode())
        if plots:
            from fedselect.experiments.figures import counts_figure, curves_figure, save_figure

            label = folder.name
            save_figure(counts_figure({label: [records]}, len(federation)), folder / "plots" / "counts.png")
            save_figure(curves_figure({label: [table]}), folder / "plots" / "curves.png")
        if model is not None:
            import torch

            with appearing_whole(folder / "model.pt") as stream:
                torch.save(dict(model), stream)
        # The summary comes last: its presence says that the run is finished.
        write_atomically(folder / "summary.json", json.dumps(summary(records, importance, scores), indent=1).encode())


def _claim(folder: Path, experiment: Experiment) -> None:
    """Write down which run the folder is of, or refuse where it is of another."""
    config = tomli_w.dumps(experiment.tables())
    try:
        if (folder / "config.toml").exists() and not _same_results((folder / "config.toml").read_text(), experiment):
            raise RunError(f"{folder} holds a run of another configuration; remove it or choose another output folder")
        write_atomically(folder / "config.toml", config.encode())
        write_atomically(folder / "versions.json", json.dumps(installed(_PACKAGES), indent=1).encode())
    except OSError as error:
        raise RunError(f"cannot write the run folder {folder}: {error}") from error


def _same_results(config: str, experiment: Experiment) -> bool:
    """Whether a configuration describes an experiment's results, however often they are saved."""
    try:
        # Read as an experiment it has the settings, too, that came after it was written.
        found = Experiment.from_tables(tomllib.loads(config))
    except (tomllib.TOMLDecodeError, ConfigError):
        return False
    here = replace(found, checkpoint_every=experiment.checkpoint_every, load=experiment.load)
    return here.tables() == experiment.tables()


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
