"""The report of one run, finished or not."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedselect.data import DATASETS
from fedselect.errors import RunError
from fedselect.experiments.metrics import round_table, selection_counts, summary
from fedselect.experiments.run import read_records
from fedselect.reports.document import Report, frame_table, value_table
from fedselect.reports.pictures import pictures_of
from fedselect.rounds.history import History

__all__ = ["RecordedRun", "facts_of", "run_report"]


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
        return max(int(data.get("clients", known.get("clients", 0))), *there, 0)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a round (`fedselect.experiments.metrics.round_table`)."""
        return round_table(self.records)


def run_report(run: RecordedRun) -> Report:
    """Make the report of a run: what it came to, what happened round by round and client by client, pictures."""
    head, label = run.config["experiment"], run.config["selector"].get("name", "?")
    summary_line = (
        f"{label} on {run.config['data'].get('name', '?')}: {run.clients} clients, "
        f"{head['clients_per_round']} a round, {run.rounds} rounds, seed {run.seed}."
    )
    notes = [] if run.finished else [f"The run is not finished: {run.state} are played. All numbers are so far."]
    if not run.records:
        return Report(f"{head['name']}: {label}", summary_line, facts_of([run]), tuple(notes))
    # What the updates were worth is not known before the end: it needs the sizes, which the federation has.
    results = run.results or summary(run.records, np.full(run.clients, math.nan))
    tables = [
        value_table("results", "The run in a few numbers.", results),
        frame_table("clients", "Every client.", _clients(run)),
        frame_table("rounds", "Every round; a dash where nothing is known or was measured.", run.table),
    ]
    pictures, missing = pictures_of({label: [run]})
    return Report(
        f"{head['name']}: {label}", summary_line, facts_of([run]), (*notes, *missing), tuple(tables), pictures
    )


def facts_of(runs: Iterable[RecordedRun], selectors: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[Any, ...]:
    """The configuration and versions of runs that share all but selector and seed, as names and values.

    Parameters
    ----------
    runs : iterable of RecordedRun
        The first one's configuration is shown, and the versions of all.
    selectors : mapping, optional
        The selectors' tables by label, where there are several.

    Returns
    -------
    tuple of (str, str)
    """
    runs = list(runs)
    config = dict(runs[0].config)
    head = dict(config.pop("experiment"))
    if selectors is not None:
        del config["selector"]
        head.pop("seed", None)
    facts = [(key.replace("_", " "), str(value)) for key, value in head.items()]
    facts += [(section, _choice(table)) for section, table in config.items()]
    facts += [(f"selector {label}", _choice(table)) for label, table in (selectors or {}).items()]
    versions: dict[str, list[str]] = {}
    for run in runs:
        for package, version in run.versions.items():
            seen = versions.setdefault(package, [])
            if version not in seen:
                seen.append(version)
    facts += [(package, " and ".join(seen)) for package, seen in versions.items()]
    return tuple(facts)


def _choice(table: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key} = {value}" for key, value in table.items() if key != "name" and value != {})
    name = str(table.get("name", ""))
    return f"{name} ({options})" if name and options else name or options


def _clients(run: RecordedRun) -> pd.DataFrame:
    if (run.path / "clients.csv").exists():
        return pd.read_csv(run.path / "clients.csv")
    history = History.from_records(run.records, run.clients)
    return pd.DataFrame(
        {
            "client": np.arange(run.clients),
            "available": history.available,
            "selected": selection_counts(run.records, run.clients),
            "returned": history.returns,
        }
    )
