"""A run as its folder has it, finished or not."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.data import DATASETS
from fedselect.errors import RunError
from fedselect.experiments.metrics import round_table
from fedselect.experiments.records import read_records

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
            config = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
            versions = json.loads((path / "versions.json").read_text(encoding="utf-8"))
            done = path / "summary.json"
            results = json.loads(done.read_text(encoding="utf-8")) if done.exists() else None
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read the run folder {path}: {error}") from error
        for section in ("experiment", "data", "selector"):
            if not isinstance(config.get(section), dict):
                raise RunError(f"cannot read the run folder {path}: config.toml has no [{section}]")
        if not isinstance(versions, dict) or not all(isinstance(each, str) for each in versions.values()):
            raise RunError(f"cannot read the run folder {path}: versions.json must name versions by package")
        if results is not None and not isinstance(results, dict):
            raise RunError(f"cannot read the run folder {path}: summary.json must name results by measure")
        records = read_records(path) if (path / "rounds.jsonl").exists() else []
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
        data = self.config["data"]
        known = DATASETS.options(data["name"]) if data.get("name") in DATASETS.names else {}
        there = (max(record["available"], default=-1) + 1 for record in self.records)
        return max(int(data.get("n_clients", known.get("n_clients", 0))), *there, 0)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a round (`fedselect.experiments.metrics.round_table`)."""
        return round_table(self.records)
