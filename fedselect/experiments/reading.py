"""Run folders read, and checked: they may be received ones, of selectors that are not registered here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedselect.data import DATASETS
from fedselect.errors import RunError
from fedselect.experiments.provenance import Origin, read_origin
from fedselect.measures import round_table, run_measures
from solvers.options import describe_type, matches
from solvers.reading import Unreadable, check_facts, parse_json, read_bytes, read_json, read_toml

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
    """Content of a run folder so far, read and checked.

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
        planned = config["experiment"]["rounds"]
        # Patience or the selector may have ended it before, as its summary then says.
        early = results is not None and 0 < len(records) == results.get("rounds") < planned
        if results is not None and len(records) != planned and not early:
            raise RunError(f"cannot read the run folder {path}: it is finished, and has {len(records)} rounds")
        return cls(path, config, origin, records, results)

    @property
    def finished(self) -> bool:
        """Whether the run has ended and is summarised."""
        return self.results is not None

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.config["experiment"]["seed"])

    @property
    def rounds(self) -> int:
        """Number of rounds of the finished run: fewer than planned where patience or the selector ended it."""
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
