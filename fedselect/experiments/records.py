"""What a run folder says of a run: a record a round, and a summary at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedselect.errors import RunError
from fedselect.rounds.protocol import Outcome
from solvers import Solution
from solvers.plain import plain

if TYPE_CHECKING:
    from fedselect.training.coordinator import Round

__all__ = ["read_records", "read_summary", "round_record", "solution_record"]


def round_record(done: Round) -> dict[str, Any]:
    """One round as the line of ``rounds.jsonl`` has it."""
    selection, outcomes = done.selection, done.outcomes
    ids = {outcome: np.flatnonzero(outcomes == outcome).tolist() for outcome in Outcome}
    record = {
        "round": done.round,
        "available": np.flatnonzero(outcomes != Outcome.UNAVAILABLE).tolist(),
        "selected": selection.clients.tolist(),
        "weights": selection.weights.tolist(),
        "applied": done.applied.tolist(),
        "inclusion": None if selection.inclusion is None else selection.inclusion[selection.clients].tolist(),
        "returned": ids[Outcome.RETURNED],
        "failed": ids[Outcome.FAILED],
        "missing": ids[Outcome.MISSING],
        "solution": None if selection.solution is None else solution_record(selection.solution),
        "loss": done.loss,
        "accuracy": done.accuracy,
        "select_seconds": done.select_seconds,
        "train_seconds": done.train_seconds,
    }
    return record | ({"notes": plain(selection.notes)} if selection.notes else {})


def solution_record(solution: Solution) -> dict[str, Any]:
    """What is known about a solution, as JSON values: everything but problem, decision and trace."""
    known = ("method", "status", "stopped", "objective", "bound", "absolute_gap", "gap")
    spent = ("seconds", "build_seconds", "nodes", "details")
    return {key: plain(getattr(solution, key)) for key in (*known, *spent)}


def read_records(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's rounds, one dictionary a round; a line that is still being written does not count.

    Raises
    ------
    RunError
        When the folder holds no run, or a line of it is not a record.
    """
    path = Path(folder) / "rounds.jsonl"
    if not path.exists():
        raise RunError(f"{folder} is not a run folder: it has no rounds.jsonl")
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    for number, record in enumerate(records):
        if not isinstance(record, dict) or record.get("round") != number:
            raise RunError(f"cannot read {path}: line {number + 1} is not the record of round {number}")
    return records


def read_summary(folder: str | Path) -> dict[str, Any]:
    """The summary of a finished run (see `fedselect.experiments.metrics.summary`).

    Raises
    ------
    RunError
        When the folder holds no finished run, or its summary cannot be read.
    """
    path = Path(folder) / "summary.json"
    if not path.exists():
        raise RunError(f"{folder} holds no finished run: it has no summary.json")
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    if not isinstance(summary, dict):
        raise RunError(f"cannot read {path}: it must name results by measure")
    return summary
