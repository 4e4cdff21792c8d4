"""What a run folder says of a run, read back and checked: anybody may have written it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import RunError
from fedselect.rounds.records import round_record, solution_record
from solvers.options import matches
from solvers.reading import Unreadable, parse_json, read_bytes, read_json

__all__ = ["MOST_CLIENTS", "check_record", "read_records", "read_summary", "round_record", "solution_record"]

#: Clients that a run may have whose configuration does not say how many: every table has a row for each.
MOST_CLIENTS = 10_000_000

#: What a record says beside the clients it names.
_FACTS: dict[str, Any] = {
    "loss": float | None, "accuracy": float | None, "select_seconds": float, "train_seconds": float,
    "solution": dict | None,
}  # fmt: skip

#: What it says of a solution, as far as anything reads it.
_SOLUTION: dict[str, Any] = dict.fromkeys(("objective", "bound", "gap", "seconds"), float | None) | {"status": str}

#: What a summary says and every table of a comparison shows.
_MEASURES = (
    "count_variance", "longest_absence", "final_loss", "final_accuracy", "mean_gap", "max_gap", "proved",
    "median_solve_seconds", "max_solve_seconds",
)  # fmt: skip


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
    _check_facts(where, record, _FACTS)
    if record["solution"] is not None:
        _check_facts(f"{where}: solution", record["solution"], _SOLUTION)
    _check_facts(f"{where}: metrics", metrics := record.get("metrics", {}), dict.fromkeys(metrics, float | None))
    return record


def _are_ids(values: Any, clients: int) -> bool:
    """Whether these are ids of clients."""
    ids = _as_array(values)
    return ids is not None and (not ids.size or (ids.dtype.kind in "iu" and ids.min() >= 0 and ids.max() < clients))


def _as_array(values: Any) -> NDArray[Any] | None:
    """A list as a vector, to look at all of it at once; None for everything else."""
    try:
        array = np.asarray(values) if isinstance(values, list) else None
    except ValueError:  # lists of unequal lengths
        return None
    return array if array is not None and array.ndim == 1 else None


def _check_facts(where: str, table: Any, facts: Mapping[str, Any]) -> None:
    """Raise `Unreadable` where a fact is missing or of another type; NaN and infinity are numbers here."""
    if not isinstance(table, dict):
        raise Unreadable(f"{where} must be a table")
    for key, kind in facts.items():
        value = table.get(key, _MISSING)
        if not matches(value, kind) and not (isinstance(value, float) and matches(0.0, kind)):
            raise Unreadable(f"{where}: {key} is {'missing' if value is _MISSING else repr(value)[:80]}")


_MISSING = object()


def read_summary(folder: str | Path) -> dict[str, Any]:
    """Read the summary of a finished run (see `fedselect.experiments.metrics.summary`).

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
        _check_facts("it", summary, dict.fromkeys((*_MEASURES, *summary), float | None))
    except (OSError, Unreadable) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    return summary
