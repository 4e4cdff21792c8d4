"""A round as JSON values: a line of ``rounds.jsonl``, and what callbacks are told."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import Outcome, Selection
from solvers import Solution
from solvers.solution import jsonable

__all__ = ["round_record", "solution_record"]


class PlayedRound(Protocol):
    """What a training loop gives of a round (`fedselect.training.server_round.Round`)."""

    @property
    def round(self) -> int: ...
    @property
    def selection(self) -> Selection: ...
    @property
    def outcomes(self) -> NDArray[np.int8]: ...
    @property
    def applied(self) -> NDArray[np.float64]: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def accuracy(self) -> float | None: ...
    @property
    def select_seconds(self) -> float: ...
    @property
    def train_seconds(self) -> float: ...
    @property
    def metrics(self) -> dict[str, float]: ...
    @property
    def refused(self) -> dict[int, str]: ...


def round_record(done: PlayedRound) -> dict[str, Any]:
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
    record |= {"metrics": jsonable(done.metrics)} if done.metrics else {}
    record |= {"refused": {str(client): why for client, why in done.refused.items()}} if done.refused else {}
    return record | ({"notes": jsonable(selection.notes)} if selection.notes else {})


def solution_record(solution: Solution) -> dict[str, Any]:
    """What is known about a solution, as JSON values: everything but problem, decision and trace."""
    known = ("method", "status", "stopped", "objective", "bound", "absolute_gap", "gap")
    spent = ("seconds", "build_seconds", "nodes", "details")
    return {key: jsonable(getattr(solution, key)) for key in (*known, *spent)}
