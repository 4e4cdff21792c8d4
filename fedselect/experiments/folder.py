"""Run folders: written round by round, killed at any moment and resumed to the same bits, read back and checked."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import tomli_w
from numpy.typing import NDArray

from fedselect.data import DATASETS, Federation
from fedselect.errors import ConfigError, RunError
from fedselect.experiments.config import Experiment, read_config
from fedselect.experiments.provenance import Origin, files_of, origin_of, read_origin
from fedselect.measures import RunData, client_rounds, client_table, round_table, run_measures, summary
from fedselect.options import seen_from
from fedselect.rounds.engine import round_record, solution_record
from solvers.files import alone, appearing_whole, write_atomically
from solvers.options import describe_type, matches
from solvers.reading import Unreadable, check_facts, parse_json, read_arrays, read_bytes, read_json, read_toml

if TYPE_CHECKING:
    from fedselect.training.server import Server

__all__ = [
    "MOST_CLIENTS",
    "RecordedRun",
    "RunFolder",
    "check_record",
    "load_checkpoint",
    "read_records",
    "read_summary",
    "round_record",
    "run_folder",
    "save_checkpoint",
    "solution_record",
]


_log = logging.getLogger(__name__)

_ARRAY = "__array__"


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a nested dictionary of arrays and JSON values."""
    arrays: dict[str, Any] = {}

    def strip(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"array{len(arrays)}"] = value
            return {_ARRAY: f"array{len(arrays) - 1}"}
        if isinstance(value, dict):
            return {str(key): strip(item) for key, item in value.items()}
        return value

    tree = json.dumps(strip(state))
    with appearing_whole(path) as stream:
        np.savez(stream, tree=np.array(tree), **arrays)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; raises `RunError` for anything else."""
    try:
        arrays = read_arrays(path)
        tree = parse_json(str(arrays.pop("tree", "")))
        if not isinstance(tree, dict):
            raise Unreadable("it holds no table")
        return _filled(tree, arrays)
    except (OSError, Unreadable, LookupError, TypeError) as error:
        raise RunError(f"cannot read {path}, which is damaged or no checkpoint; remove the folder") from error


def _filled(value: Any, arrays: dict[str, Any]) -> Any:
    """Put the arrays back into the tree."""
    if not isinstance(value, dict):
        return value
    return arrays[value[_ARRAY]] if _ARRAY in value else {key: _filled(item, arrays) for key, item in value.items()}


#: Clients that a run may have whose configuration does not say how many: every table has a row for each.
MOST_CLIENTS = 10_000_000

#: Facts of a record, beside the clients it names.
_FACTS: dict[str, Any] = {
    "loss": float | None, "accuracy": float | None, "select_seconds": float, "train_seconds": float,
    "solution": dict | None,
}  # fmt: skip

#: Facts of its solution, as far as anything reads them.
_SOLUTION: dict[str, Any] = dict.fromkeys(("objective", "bound", "gap", "seconds"), float | None) | {"status": str}

#: Numbers of what its clock says.
_TIMES: dict[str, Any] = dict.fromkeys(("start", "busy_seconds", "wasted_seconds", "sent_bytes", "wasted_bytes"), float)

#: Measures that every summary has.
_MEASURES = tuple(each.name for each in run_measures() if not each.needs)


def read_records(folder: str | Path, clients: int = MOST_CLIENTS) -> list[dict[str, Any]]:
    """Read the records of a run's rounds, one dictionary per round; a line that is still being written does not count.

    Parameters
    ----------
    folder : path-like
        The run folder.
    clients : int
        Number of clients N of the run; ids lie below it.

    Raises
    ------
    RunError
        When the folder holds no run, or a line of it is not a record.
    """
    path = Path(folder) / "rounds.jsonl"
    if not path.exists():
        raise RunError(f"{folder} is not a run folder: it has no rounds.jsonl")
    try:
        *lines, _ = read_bytes(path).split(b"\n")
        return [check_record(parse_json(line), number, clients) for number, line in enumerate(lines)]
    except (OSError, Unreadable) as error:
        raise RunError(f"cannot read {path}: {error}") from error


def check_record(record: Any, number: int, clients: int) -> dict[str, Any]:
    """Return the record of a round; raises `Unreadable` where it is not one of round ``number`` of so many clients."""
    where = f"line {number + 1}"
    if not isinstance(record, dict) or record.get("round") != number:
        raise Unreadable(f"{where} is not the record of round {number}")
    for key in ("available", "selected", "returned", "failed"):
        if not _are_ids(record.get(key), clients):
            raise Unreadable(f"{where}: {key} must be a list of clients below {clients}")
    applied = _as_array(record.get("applied"))
    if applied is None or applied.dtype.kind not in "iuf" or len(applied) != len(record["selected"]):
        raise Unreadable(f"{where}: applied must be a list with a weight for each client that is selected")
    check_facts(where, record, _FACTS)
    if record["solution"] is not None:
        check_facts(f"{where}: solution", record["solution"], _SOLUTION)
    _check_clock(where, record, clients)
    if "client_scores" in record:
        kind = list[float | None]
        scored = record["client_scores"]
        check_facts(f"{where}: client_scores", scored, {"loss": kind, "accuracy": kind})
        check_facts(f"{where}: client_scores", scored, dict.fromkeys(scored, kind))
        if any(len(values) != len(scored["loss"]) for values in scored.values()):
            raise Unreadable(f"{where}: client_scores must be lists of one length")
    check_facts(f"{where}: metrics", metrics := record.get("metrics", {}), dict.fromkeys(metrics, float | None))
    return record


def _check_clock(where: str, record: dict[str, Any], clients: int) -> None:
    """Raise `Unreadable` where what a record says of seconds is not as `fedselect.rounds.engine` writes it."""
    if "clock" not in record:
        return
    check_facts(where, record, {"seconds": float, "clock": dict})
    times = record["clock"]
    check_facts(f"{where}: clock", times, _TIMES)
    if not _are_ids(times.get("late"), clients):
        raise Unreadable(f"{where}: clock: late must be a list of clients below {clients}")
    for key in ("download", "compute", "upload", "begins", "ends", "stops"):
        kind = list[float | None] if key in ("begins", "ends", "stops") else list[float]
        if not matches(times.get(key), kind) or len(times[key]) != len(record["selected"]):
            raise Unreadable(f"{where}: clock: {key} must be a list with a number for each client that is selected")


def _are_ids(values: Any, clients: int) -> bool:
    """Return True for a list of ids of so many clients."""
    ids = _as_array(values)
    return ids is not None and (not ids.size or (ids.dtype.kind in "iu" and ids.min() >= 0 and ids.max() < clients))


def _as_array(values: Any) -> NDArray[Any] | None:
    """Return a list as a vector, to check all of it at once; None for everything else."""
    try:
        array = np.asarray(values) if isinstance(values, list) else None
    except ValueError:  # lists of unequal lengths
        return None
    return array if array is not None and array.ndim == 1 else None


def read_summary(folder: str | Path) -> dict[str, Any]:
    """Read the summary of a finished run (see `fedselect.measures.summary`).

    Raises
    ------
    RunError
        When the folder holds no finished run, or its summary cannot be read.
    """
    path = Path(folder) / "summary.json"
    if not path.exists():
        raise RunError(f"{folder} holds no finished run: it has no summary.json")
    try:
        summary = read_json(path)
        if not isinstance(summary, dict) or {"selector", "seed"} & set(summary):
            raise Unreadable("summary.json must name results by measure")
        check_facts("it", summary, dict.fromkeys((*_MEASURES, *summary), float | None))
    except (OSError, Unreadable) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    return summary


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """Content of a run folder so far, read and checked; its selector need not be registered here.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    config : dict
        The resolved configuration as nested tables.
    origin : Origin
        What it was made of: versions, code, files.
    records : list of dict
        One per round played.
    results : dict or None
        The summary; None while the run is not finished.
    """

    path: Path
    config: dict[str, Any]
    origin: Origin
    records: list[dict[str, Any]]
    results: dict[str, Any] | None

    @staticmethod
    def here(path: Path) -> bool:
        """Return True for the folder of a run that has begun."""
        return (path / "config.toml").exists() and (path / "origin.json").exists()

    @classmethod
    def read(cls, path: Path) -> RecordedRun:
        """Read a run folder; raises `RunError` for files that are not as `fedselect.experiments.run` writes them."""
        try:
            config = read_toml(path / "config.toml")
            _check_config(config)
        except (OSError, Unreadable) as error:
            raise RunError(f"cannot read the run folder {path}: {error}") from error
        origin = read_origin(path) or Origin()
        results = read_summary(path) if (path / "summary.json").exists() else None
        clients = _stated_clients(config) or MOST_CLIENTS
        records = read_records(path, clients) if (path / "rounds.jsonl").exists() else []
        early = config["experiment"].get("patience") is not None and len(records) == results_rounds(results)
        if results is not None and len(records) != config["experiment"]["rounds"] and not early:
            raise RunError(f"cannot read the run folder {path}: it is finished, and has {len(records)} rounds")
        return cls(path, config, origin, records, results)

    @property
    def finished(self) -> bool:
        """Whether every round is played and summarised."""
        return self.results is not None

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.config["experiment"]["seed"])

    @property
    def rounds(self) -> int:
        """Number of rounds of the finished run: fewer than planned where patience ended it."""
        return int(self.config["experiment"]["rounds"]) if self.results is None else len(self.records)

    @property
    def state(self) -> str:
        """Progress in words."""
        return "finished" if self.finished else f"{len(self.records)} of {self.rounds} rounds"

    @cached_property
    def n_clients(self) -> int:
        """Number of clients N: the configuration's or else the default; at least those that the rounds name."""
        there = (max(record["available"], default=-1) + 1 for record in self.records)
        return max(_stated_clients(self.config), *there, 0)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table with one row per round (`fedselect.measures.round_table`)."""
        return round_table(self.records)


def results_rounds(results: Mapping[str, Any] | None) -> int | None:
    """Return the number of rounds that a summary is about."""
    return None if results is None or results.get("rounds") is None else int(results["rounds"])


#: Keys that a configuration must have for its run to be read; its components need not be registered here.
_KEYS: dict[str, dict[str, type]] = {
    "experiment": {"name": str, "seed": int, "rounds": int, "clients_per_round": int},
    "data": {"name": str},
    "selector": {"name": str},
}


def _check_config(config: dict[str, Any]) -> None:
    """Raise `Unreadable` where a configuration lacks a key that the report of its run needs."""
    for section in _KEYS:
        if not isinstance(config.get(section), dict):
            raise Unreadable(f"config.toml has no [{section}]")
    for section, table in config.items():
        if not isinstance(table, dict):
            raise Unreadable(f"config.toml: {section} is no table")
        for key, kind in _KEYS.get(section, {}).items():
            if not matches(value := table.get(key), kind):
                raise Unreadable(f"config.toml: {section}.{key} must be {describe_type(kind)}; got {value!r:.80}")
    if not 0 < config["experiment"]["rounds"] < 2**31:
        raise Unreadable(f"config.toml: experiment.rounds is {config['experiment']['rounds']}")
    clients = config["data"].get("n_clients", 1)
    if not (matches(clients, int) and 0 < clients <= MOST_CLIENTS):
        raise Unreadable(f"config.toml: data.n_clients must lie between 1 and {MOST_CLIENTS}; got {clients!r:.80}")


def _stated_clients(config: dict[str, Any]) -> int:
    """Return the number of clients in a configuration, or its data set's default; 0 where neither is known."""
    data = config["data"]
    known = DATASETS.options(data["name"]) if data["name"] in DATASETS.names else {}
    stated = data.get("n_clients", known.get("n_clients", 0))
    return stated if isinstance(stated, int) else 0


def run_folder(experiment: Experiment, out: str | Path) -> Path:
    """Return a run's folder: ``out/<name>/<selector>-<digest>-s<seed>``, with ``-2``, ``-3`` for one begun afresh."""
    return RunFolder.of(experiment, out).path


class RunFolder:
    """A folder that holds one run, whichever engine plays it: claimed, continued, written round by round, finished.

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
        """Say for what the run in the folder is refused, and what else has changed; both empty where nothing has."""
        if not (self.path / "config.toml").exists():
            return "", ""
        before = read_origin(self.path)
        if before is None:
            return "it has no origin.json, the record of its provenance", ""
        changed = self.origin.changed_since(before, self.finished)
        refused = self.origin.difference(before) or (changed if self.strict else "")
        return refused, "" if refused else changed

    def check(self) -> None:
        """Raise `RunError` where the folder holds a run of another configuration or other files; warn of other code."""
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
        """Whether the run has ended; nothing is left to do then."""
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
            When the folder cannot be written, holds another run, or another process is at work in it.
        """
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with alone(self.path, RunError(f"another process is running {self.path}; wait for it or stop it")):
            with _writing(self.path):
                self._claim()
                self.records = _resume(self.path, loop)
                self.resumed = len(self.records)
                self._note_changes()
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
        """
        folder, records = self.path, self.records
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
        tables = self.experiment.tables(lambda path: seen_from(self.path, path))
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
