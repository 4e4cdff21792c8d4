"""The report of one run, finished or not."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedselect.errors import RunError
from fedselect.experiments.folder import RecordedRun
from fedselect.experiments.metrics import run_gaps, selection_counts, summary
from fedselect.reports.document import Report, frame_table, value_table
from fedselect.reports.participation import participation_pictures
from fedselect.reports.pictures import pictures_of
from fedselect.rounds.history import History
from solvers.reading import read_text

__all__ = ["facts_of", "run_report"]

_ROUNDS = (
    "Every round; a dash where nothing is known or was measured. Gaps are |bound − objective| over the mean "
    "|objective| of the run, as a round's own objective may be near zero (over 1 where the mean itself is at most "
    "1e-12)."
)


def run_report(run: RecordedRun) -> Report:
    """Make the report of a run: what it came to, what happened round by round and client by client, pictures."""
    head, label = run.config["experiment"], run.config["selector"].get("name", "?")
    summary_line = (
        f"{label} on {run.config['data'].get('name', '?')}: {run.n_clients} clients, "
        f"{head['clients_per_round']} a round, {run.rounds} rounds, seed {run.seed}."
    )
    notes = [] if run.finished else [f"The run is not finished: {run.state} are played. All numbers are so far."]
    if not run.records:
        return Report(f"{head['name']}: {label}", summary_line, facts_of([run]), tuple(notes))
    # What the updates were worth is not known before the end: it needs the sizes, which the federation has.
    results = run.results or summary(run.records, np.full(run.n_clients, math.nan))
    tables = [
        value_table("results", "The run in a few numbers.", results),
        frame_table("clients", "Every client.", _clients(run)),
        frame_table("rounds", _ROUNDS, run.table.assign(gap=run_gaps(run.table))),
    ]
    pictures, missing = pictures_of({label: [run]})
    pictures = (*participation_pictures(run.records, run.n_clients), *pictures)
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
    path = run.path / "clients.csv"
    if path.exists():
        try:
            return pd.read_csv(io.StringIO(read_text(path)))
        except (OSError, ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors
            raise RunError(f"cannot read {path}: {error}") from error
    history = History.from_records(run.records, run.n_clients)
    return pd.DataFrame(
        {
            "client": np.arange(run.n_clients),
            "available": history.available,
            "selected": selection_counts(run.records, run.n_clients),
            "returned": history.returns,
        }
    )
