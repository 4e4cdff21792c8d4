"""A run as its folder has it, finished or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.data import DATASETS
from fedselect.errors import RunError
from fedselect.experiments.metrics import round_table
from fedselect.experiments.records import MOST_CLIENTS, read_records, read_summary
from solvers.options import describe_type, matches
from solvers.reading import Unreadable, read_json, read_toml

__all__ = ["RecordedRun"]


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """What a run has written so far; it reads configurations whose selector is not registered here, too.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    config : dict
        The resolved configuration as nested tables.
    versions : dict of str to str
        Packages it was run with.
    records : list of dict
        One a round played.
    results : dict or None
        The summary; None while the run is not finished.
    """

    path: Path
    config: dict[str, Any]
    versions: dict[str, str]
    records: list[dict[str, Any]]
    results: dict[str, Any] | None

    @staticmethod
    def here(path: Path) -> bool:
        """Whether a folder is one of a run that has begun."""
        return (path / "config.toml").exists() and (path / "versions.json").exists()

    @classmethod
    def read(cls, path: Path) -> RecordedRun:
        """Read a run folder; raises `RunError` for files that are not as `fedselect.experiments.run` writes them."""
        try:
            config, versions = read_toml(path / "config.toml"), read_json(path / "versions.json")
            _check_config(config)
            if not isinstance(versions, dict) or not all(isinstance(each, str) for each in versions.values()):
                raise Unreadable("versions.json must name versions by package")
        except (OSError, Unreadable) as error:
            raise RunError(f"cannot read the run folder {path}: {error}") from error
        results = read_summary(path) if (path / "summary.json").exists() else None
        clients = _stated_clients(config) or MOST_CLIENTS
        records = read_records(path, clients) if (path / "rounds.jsonl").exists() else []
        if results is not None and len(records) != config["experiment"]["rounds"]:
            raise RunError(f"cannot read the run folder {path}: it is finished, and has {len(records)} rounds")
        return cls(path, config, versions, records, results)

    @property
    def finished(self) -> bool:
        """Whether every round is played and summed up."""
        return self.results is not None

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.config["experiment"]["seed"])

    @property
    def rounds(self) -> int:
        """Rounds the run has when finished."""
        return int(self.config["experiment"]["rounds"])

    @property
    def state(self) -> str:
        """How far it is, in words."""
        return "finished" if self.finished else f"{len(self.records)} of {self.rounds} rounds"

    @cached_property
    def clients(self) -> int:
        """Number of clients N: of the configuration, or else of the default; at least those that the rounds name."""
        there = (max(record["available"], default=-1) + 1 for record in self.records)
        return max(_stated_clients(self.config), *there, 0)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a round (`fedselect.experiments.metrics.round_table`)."""
        return round_table(self.records)


#: What reading a run asks of its configuration, whose parts need not be registered here.
_KEYS: dict[str, dict[str, type]] = {
    "experiment": {"name": str, "seed": int, "rounds": int, "clients_per_round": int},
    "data": {"name": str},
    "selector": {"name": str},
}


def _check_config(config: dict[str, Any]) -> None:
    """Raise `Unreadable` where a configuration lacks what its own report needs."""
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
    """Number of clients that a configuration states, or its data set's default; 0 where neither is known."""
    data = config["data"]
    known = DATASETS.options(data["name"]) if data["name"] in DATASETS.names else {}
    stated = data.get("n_clients", known.get("n_clients", 0))
    return stated if isinstance(stated, int) else 0
