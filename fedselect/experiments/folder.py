"""Run folders: claimed, written round by round, resumed at the last checkpoint, finished."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError, RunError
from fedselect.experiments.config import Experiment, read_config
from fedselect.experiments.provenance import Origin, files_of, origin_of, read_origin
from fedselect.experiments.reading import check_record
from fedselect.measures import RunData, client_rounds, client_table, summary
from fedselect.options import seen_from
from solvers.files import alone, appearing_whole, write_atomically
from solvers.reading import Unreadable, parse_json, read_arrays, read_bytes

if TYPE_CHECKING:
    from fedselect.training.server import Server

_log = logging.getLogger(__name__)

#: Marks of what JSON has not: the one key of a table that stands for it.
_ARRAY, _TENSOR, _TUPLE, _ITEMS = "__array__", "__tensor__", "__tuple__", "__items__"


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state: nested dictionaries, lists and tuples of arrays, PyTorch's tensors and JSON values.

    Raises
    ------
    RunError
        When something else is in it; the message says where.
    """
    tree, arrays = encoded(state)
    with appearing_whole(path) as stream:
        np.savez(stream, tree=np.array(tree), **arrays)


def encoded(state: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a state as text and the arrays that it names; otherwise as `save_checkpoint`."""
    arrays: dict[str, Any] = {}

    def strip(value: Any, place: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        kept = None
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
            kept = _ARRAY, value
        elif all(hasattr(value, name) for name in ("detach", "cpu", "requires_grad")):  # a tensor; of bfloat16 none
            with suppress(TypeError):
                kept = _TENSOR, value.detach().cpu().numpy()
        if kept is not None:
            mark, arrays[f"array{len(arrays)}"] = kept
            return {mark: f"array{len(arrays) - 1}"}
        if isinstance(value, Mapping):
            items = [(key, strip(item, f"{place}.{key}")) for key, item in value.items()]
            if all(isinstance(key, str) and not key.startswith("__") for key in value):
                return dict(items)
            return {_ITEMS: [[strip(key, f"a key of {place}"), item] for key, item in items]}
        if isinstance(value, list | tuple):
            parts = [strip(item, f"{place}[{number}]") for number, item in enumerate(value)]
            return parts if isinstance(value, list) else {_TUPLE: parts}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise RunError(
            f"the state of the run cannot be saved: {place.lstrip('.')} is a {type(value).__name__}; state_dict "
            "returns numbers, texts, arrays and tensors, in dictionaries, lists and tuples"
        )

    return json.dumps(strip(state, "")), arrays


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; raises `RunError` where that is not there, or damaged."""
    try:
        arrays = read_arrays(path)
        tree = parse_json(str(arrays.pop("tree", "")))
        if not isinstance(tree, dict):
            raise Unreadable("it holds no table")
        return _filled(tree, arrays)
    except (OSError, Unreadable, LookupError, TypeError, ValueError) as error:
        raise RunError(f"cannot read {path}, which is damaged or no checkpoint; remove the folder") from error


def _filled(value: Any, arrays: dict[str, Any]) -> Any:
    """Put back into the tree what JSON has not."""
    if isinstance(value, list):
        return [_filled(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return arrays[value[_ARRAY]]
    if _TENSOR in value:
        import torch

        return torch.from_numpy(arrays[value[_TENSOR]])
    if _TUPLE in value:
        return tuple(_filled(value[_TUPLE], arrays))
    if _ITEMS in value:
        return {_filled(key, arrays): _filled(item, arrays) for key, item in value[_ITEMS]}
    return {key: _filled(item, arrays) for key, item in value.items()}


def run_folder(experiment: Experiment, out: str | Path) -> Path:
    """Return a run's folder: ``out/<name>/<selector>-<digest>-s<seed>``, with ``-2``, ``-3`` for one begun afresh."""
    return RunFolder.of(experiment, out).path


class RunFolder:
    """A folder that holds one run, of our loop or over Flower: claimed, continued, written round by round, finished.

    Parameters
    ----------
    path : pathlib.Path
        The folder, from `run_folder`.
    experiment : Experiment
        Configures its run.
    origin : Origin
        Provenance of a run that is made now.
    strict : bool
        Whether a run of other code, versions or processor is refused.
    """

    def __init__(self, path: Path, experiment: Experiment, origin: Origin, strict: bool = False) -> None:
        self.path, self.experiment, self.origin, self.strict = path, experiment, origin, strict
        self.records: list[dict[str, Any]] = []
        #: Rounds that a run that was stopped goes on from; 0 for one that begins.
        self.resumed = 0
        self._warned = False

    @classmethod
    def of(cls, experiment: Experiment, out: str | Path, fresh: bool = False, strict: bool = False) -> RunFolder:
        """Find the folder below ``out`` that holds this run, or will.

        Of several runs of the same configuration it is the one of the same provenance. Where there is none, it is a
        folder that is not there yet with ``fresh``, else the last that `check` accepts, else the last.
        """
        label = f"{experiment.selector.name}-{experiment.digest}-s{experiment.seed}"
        origin, usable, last = origin_of(experiment), None, None
        for number in count(1):
            path = Path(out) / experiment.name / (label if number == 1 else f"{label}-{number}")
            folder = cls(path, experiment, origin, strict)
            if not path.exists():
                return folder if fresh or last is None else usable or last
            refused, changed = folder.difference()
            if not refused and not changed:
                return folder
            usable, last = usable if refused else folder, folder
        raise AssertionError("numbers do not end")

    def difference(self) -> tuple[str, str]:
        """Say why the run in the folder is refused and, where it is not, what has changed; empty where nothing has."""
        if not (self.path / "config.toml").exists():
            return "", ""
        before = read_origin(self.path)
        if before is None:
            return "it has no origin.json, the record of its provenance", ""
        changed = self.origin.changed_since(before, self.finished)
        refused = self.origin.difference(before) or (changed if self.strict else "")
        return refused, "" if refused else changed

    def check(self) -> None:
        """Raise `RunError` where the folder holds a run of another configuration or other files.

        Of other code, versions or processor it warns, or with `strict` raises `RunError`, too.
        """
        config = self.path / "config.toml"
        if config.exists() and not _same_results(config, self.experiment):
            raise RunError(
                f"{self.path} holds a run of another configuration; remove it or choose another output folder"
            )
        state = "a finished run" if self.finished else "a run that was stopped"
        refused, changed = self.difference()
        if refused:
            raise RunError(
                f"{self.path} holds {state} of this configuration, but {refused}; begin afresh beside it (--fresh, "
                "or fresh=True), choose another output folder, or remove it"
            )
        if changed and not self._warned:
            self._warned = True
            _log.warning(
                "%s holds %s of this configuration, which counts, but %s (--fresh begins afresh beside it, --strict "
                "refuses it)",
                self.path,
                state,
                changed,
            )

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return (self.path / "summary.json").exists()

    @property
    def out_of_patience(self) -> bool:
        """Whether the test loss has not fallen in as many evaluations as the experiment waits for."""
        patience = self.experiment.patience
        losses = [record["loss"] for record in self.records if record["loss"] is not None]
        return patience is not None and len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])

    @contextmanager
    def opened(self, loop: Server) -> Iterator[None]:
        """Lock the folder, and bring ``loop`` to the last checkpoint in it.

        Raises
        ------
        RunError
            When the folder cannot be written, holds another run or a damaged checkpoint, or another process is at work
            in it; when the state of ``loop`` cannot be saved.
        """
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with alone(self.path, RunError(f"another process is running {self.path}; wait for it or stop it")):
            with _writing(self.path):
                self._claim()
                self.records = _resume(self.path, loop)
                self.resumed = len(self.records)
                self._note_changes()
                encoded(loop.state_dict())  # what could not be saved is said now, and not after the first round
                lines = (self.path / "rounds.jsonl").open("a", encoding="utf-8")
            with closing(lines) as self._lines:
                yield

    def append(self, record: dict[str, Any], loop: Server) -> None:
        """Write the record of the round that ``loop`` has just played, and its state where a checkpoint is due."""
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
        scores: Mapping[str, NDArray[np.float64]],
        plots: bool = True,
        model: Mapping[str, Any] | None = None,
    ) -> None:
        """Write tables, pictures, the model and the summary.

        Parameters
        ----------
        federation : Federation
            Whose clients.
        scores : mapping of str to (N,) ndarray of float
            The final model's loss, accuracy and further metrics at each client.
        plots : bool
            Whether to draw pictures.
        model : mapping, optional
            The final model's ``state_dict``, for ``model.pt``.

        Raises
        ------
        RunError
            When no round was played, or the folder cannot be written.
        """
        folder, records = self.path, self.records
        if not records:
            raise RunError(
                f"{folder}: the selector ended the run before its first round, so there is nothing to tell of"
            )
        run = RunData(records, self.experiment.training.importances(federation.sizes), scores, federation.sizes)
        tables = {"metrics": run.table, "clients": client_table(run), "client_rounds": client_rounds(records)}
        with _writing(folder):
            for name, table in tables.items():
                write_atomically(folder / f"{name}.csv", table.to_csv(index=False).encode())
            if plots:
                from fedselect.experiments.figures import counts_figure, curves_figure, save_figure

                label = folder.name
                save_figure(counts_figure({label: [records]}, len(federation)), folder / "plots" / "counts.png")
                save_figure(curves_figure({label: [run.table]}), folder / "plots" / "curves.png")
            if model is not None:
                import torch

                with appearing_whole(folder / "model.pt") as stream:
                    torch.save(dict(model), stream)
            # The summary comes last: its presence says that the run is finished.
            write_atomically(folder / "summary.json", json.dumps(summary(run), indent=1).encode())

    def _claim(self) -> None:
        """Write configuration and provenance of the run, or refuse a folder that holds another."""
        config = self.path / "config.toml"
        self.check()
        if not config.exists():
            # Files that came with the first use, by download, count as they are now.
            replace(self.origin, files=files_of(self.experiment)).write(self.path)
        # Its paths start at the file itself, as those of every configuration do.
        tables = self.experiment.tables(lambda path: seen_from(self.path, path), defaults=True)
        write_atomically(config, tomli_w.dumps(tables).encode())

    def _note_changes(self) -> None:
        """Keep what is different about the rounds from here on."""
        before = read_origin(self.path)
        if before is not None and (changed := self.origin.changed_since(before, finished=False)):
            note = f"from round {self.resumed + 1} on: {changed}"
            if note not in before.changes:
                replace(before, changes=(*before.changes, note)).write(self.path)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an error of the system against writing (a full disk, a lost permission) into a sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write the run folder {folder}: {error.strerror or error}") from error


def _same_results(config: Path, experiment: Experiment) -> bool:
    """Return True for a configuration of an experiment's results, however often they are saved."""
    try:
        found, _ = read_config(config, load=None)
    except ConfigError:
        return False
    return (found.name, found.seed, found.digest) == (experiment.name, experiment.seed, experiment.digest)


def _resume(folder: Path, loop: Server) -> list[dict[str, Any]]:
    """Bring the loop to the last checkpoint, and the record file to the same round."""
    path, checkpoint = folder / "rounds.jsonl", folder / "checkpoint.npz"
    if checkpoint.exists() and not loop.has_selector_state:
        _log.warning("%s begins again at the first round: its selector has no state_dict to continue by", folder)
    elif checkpoint.exists():
        state = load_checkpoint(checkpoint)
        try:
            loop.load_state_dict(state)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise RunError(f"{checkpoint} is no state of this run ({error}); remove {folder}") from error
    try:
        lines = read_bytes(path).split(b"\n")[: loop.round] if path.exists() else []
        if len(lines) < loop.round:
            raise Unreadable(f"it has {len(lines)} rounds, and the checkpoint is at round {loop.round}")
        records = [check_record(parse_json(line), t, loop.world.n_clients) for t, line in enumerate(lines)]
    except (OSError, Unreadable) as error:
        raise RunError(f"cannot read {path}: {error}; remove {folder}") from error
    write_atomically(path, b"".join(line + b"\n" for line in lines))
    return records
