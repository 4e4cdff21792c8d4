"""One run, as a folder that can be killed at any moment and resumed to the same bits on the same machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError, RunError
from fedselect.experiments.checkpoint import load_checkpoint, save_checkpoint
from fedselect.experiments.config import Experiment, read_config
from fedselect.experiments.metrics import client_table, round_table, summary
from fedselect.experiments.origin import PACKAGES, Origin, files_of, origin_of, read_origin
from fedselect.experiments.records import check_record
from fedselect.options import placed, seen_from
from solvers.environment import installed
from solvers.files import alone, appearing_whole, write_atomically
from solvers.reading import Unreadable, parse_json, read_bytes

if TYPE_CHECKING:
    from fedselect.training.server_round import Server

__all__ = ["RunFolder", "run_folder"]


def run_folder(experiment: Experiment, out: str | Path) -> Path:
    """Folder of a run: ``out/<name>/<selector>-<digest>-s<seed>``, with ``-2``, ``-3`` for one begun afresh."""
    return RunFolder.of(experiment, out).path


class RunFolder:
    """A folder that holds one run, whichever engine plays it: claimed, continued, written round by round, finished.

    Parameters
    ----------
    path : pathlib.Path
        The folder, from `run_folder`.
    experiment : Experiment
        What is run in it.
    origin : Origin
        What a run of it is made of now.
    """

    def __init__(self, path: Path, experiment: Experiment, origin: Origin) -> None:
        self.path, self.experiment, self.origin = path, experiment, origin
        self.records: list[dict[str, Any]] = []

    @classmethod
    def of(cls, experiment: Experiment, out: str | Path, fresh: bool = False) -> RunFolder:
        """The folder below ``out`` that holds this run, or would.

        Where the folders there are hold runs of the same configuration and another origin, it is the last of them,
        which `check` refuses, or with ``fresh`` one that is not there yet.
        """
        label = f"{experiment.selector.name}-{experiment.digest}-s{experiment.seed}"
        origin, last = origin_of(experiment), None
        for number in count(1):
            path = Path(out) / experiment.name / (label if number == 1 else f"{label}-{number}")
            folder = cls(path, experiment, origin)
            if not path.exists():
                return folder if fresh or last is None else last
            if not folder.difference():
                return folder
            last = folder
        raise AssertionError("numbers do not end")

    def difference(self) -> str:
        """What the run that the folder holds was made of and this one is not, in words; empty where it is the same."""
        if not (self.path / "config.toml").exists():
            return ""
        before = read_origin(self.path)
        if before is not None:
            return self.origin.since(before, self.finished)
        if may := [*self.origin.code, *(path for path, held in self.origin.files.items() if held != "missing")]:
            return f"it does not say what it was made of, and {may[0]} may have changed since"
        return ""

    def check(self) -> None:
        """Raise `RunError` where the folder holds a run that was made of something else."""
        if difference := self.difference():
            state = "a finished run" if self.finished else "a run that was stopped"
            raise RunError(
                f"{self.path} holds {state} of this configuration, but {difference}; begin afresh beside it (--fresh, "
                "or fresh=True), choose another output folder, or remove it"
            )

    @property
    def finished(self) -> bool:
        """Whether the run has ended; nothing is left to do then."""
        return (self.path / "summary.json").exists()

    @contextmanager
    def opened(self, loop: Server) -> Iterator[None]:
        """Have the folder to oneself, and bring ``loop`` to the last checkpoint in it.

        Raises
        ------
        RunError
            When the folder cannot be written, holds another run, or another process is at work in it.
        """
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with alone(self.path, RunError(f"another process is running {self.path}; wait for it or stop it")):
            with _writing(self.path):
                self._claim()
                self.records = _resume(self.path, loop)
                lines = (self.path / "rounds.jsonl").open("a", encoding="utf-8")
            with closing(lines) as self._lines:
                yield

    def append(self, record: dict[str, Any], loop: Server) -> None:
        """Write down the round that ``loop`` has just played, and its state where a checkpoint is due."""
        self.records.append(record)
        with _writing(self.path):
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
        with _writing(folder):
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
            told = summary(records, importance, scores)
            write_atomically(folder / "summary.json", json.dumps(told, indent=1).encode())

    def _claim(self) -> None:
        """Write down which run the folder is of, and made of what, or refuse where it is of another."""
        config = self.path / "config.toml"
        self.check()
        if not config.exists():
            # Files that came with the first use, by download, count as they are now.
            replace(self.origin, files=files_of(self.experiment)).write(self.path)
        elif not _same_results(config, self.experiment):
            raise RunError(
                f"{self.path} holds a run of another configuration; remove it or choose another output folder"
            )
        # Its paths start at the file itself, as those of every configuration do.
        tables = self.experiment.tables(lambda path: seen_from(self.path, path))
        write_atomically(config, tomli_w.dumps(tables).encode())
        write_atomically(self.path / "versions.json", json.dumps(installed(PACKAGES), indent=1).encode())


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn what the system says against writing into a sentence: a full disk, a lost permission."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write the run folder {folder}: {error.strerror or error}") from error


def _same_results(config: Path, experiment: Experiment) -> bool:
    """Whether a configuration describes an experiment's results, however often they are saved."""
    try:
        # Read as an experiment it has the settings, too, that came after it was written.
        found, _ = read_config(config, load=None)
    except ConfigError:
        return False
    here = replace(found, checkpoint_every=experiment.checkpoint_every, load=experiment.load)
    return here.tables(placed) == experiment.tables(placed)


def _resume(folder: Path, loop: Server) -> list[dict[str, Any]]:
    """Bring the loop to the last checkpoint, and the record file to the same round."""
    path, checkpoint = folder / "rounds.jsonl", folder / "checkpoint.npz"
    if checkpoint.exists():
        state = load_checkpoint(checkpoint)
        try:
            loop.load_state_dict(state)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise RunError(f"{checkpoint} is no state of this run ({error}); remove {folder}") from error
    try:
        lines = read_bytes(path).split(b"\n")[: loop.round] if path.exists() else []
        if len(lines) < loop.round:
            raise Unreadable(f"it has {len(lines)} rounds, and the checkpoint is at round {loop.round}")
        records = [check_record(parse_json(line), t, loop.world.clients) for t, line in enumerate(lines)]
    except (OSError, Unreadable) as error:
        raise RunError(f"cannot read {path}: {error}; remove {folder}") from error
    write_atomically(path, b"".join(line + b"\n" for line in lines))
    return records
