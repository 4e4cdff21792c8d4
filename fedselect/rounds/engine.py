"""One round as every engine plays it: the selector's decision, what came of it, its record; rounds without training.

What a scheme does to participation does not need a model: E3CS's success ratio, FedAU's weights, the balance of the
counts. Nothing here imports PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability import Availability, Dropout
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, Probe, RoundContext, RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import World
from solvers import Solution
from solvers.solution import jsonable

__all__ = [
    "Callback",
    "Decision",
    "Round",
    "decide",
    "listeners",
    "play",
    "round_record",
    "simulate",
    "solution_record",
]


@dataclass(frozen=True, eq=False)
class Decision:
    """A selector's decision, and which of the selected come back.

    Attributes
    ----------
    selection : Selection
        The selected clients and their weights.
    available : (N,) ndarray of bool
        Clients that were available.
    returned : (m,) ndarray of bool
        Which of the selected come back, by the dropout model.
    seconds : float
        Wall time of the decision.
    """

    selection: Selection
    available: NDArray[np.bool_]
    returned: NDArray[np.bool_]
    seconds: float

    def outcomes(self, failed: NDArray[np.bool_] | None = None) -> NDArray[np.int8]:
        """Outcome of every client, shape (N,); ``failed`` (m,) marks those whose update cannot be used."""
        outcomes = np.where(self.available, np.int8(Outcome.IDLE), np.int8(Outcome.UNAVAILABLE))
        of_selected = np.where(self.returned, np.int8(Outcome.RETURNED), np.int8(Outcome.MISSING))
        if failed is not None:
            of_selected[failed] = Outcome.FAILED
        outcomes[self.selection.clients] = of_selected
        return outcomes


@dataclass(frozen=True, eq=False)
class Round:
    """Outcome of one round, trained or simulated.

    Attributes
    ----------
    round : int
        Round index, from 0.
    selection : Selection
        The selector's decision.
    outcomes : (N,) ndarray of Outcome
        Outcome of every client.
    applied : (m,) ndarray of float
        Weights applied (in a simulation: that an aggregation would apply), in the order of ``selection.clients``.
    loss, accuracy : float or None
        Mean loss and share of correct answers on the server's test set, after the round; None in rounds without an
        evaluation, and the accuracy where labels are no classes.
    select_seconds, train_seconds : float
        Wall time of the decision and of the local training.
    metrics : dict of str to float
        Further numbers of an evaluation, where the loop has some.
    refused : dict of int to str
        Clients whose answer cannot be used, and why; they are among the failed.
    """

    round: int
    selection: Selection
    outcomes: NDArray[np.int8]
    applied: NDArray[np.float64]
    loss: float | None = None
    accuracy: float | None = None
    select_seconds: float = 0.0
    train_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)


def decide(
    selector: Selector,
    world: World,
    round: int,
    *,
    probe: Probe | None = None,
    validation_probe: Probe | None = None,
    connected: NDArray[np.bool_] | None = None,
) -> Decision:
    """Ask the selector for one round.

    Parameters
    ----------
    selector : Selector
        Decides.
    world : World
        Availability and dropout of the clients, their numbers of samples, seed and time limit.
    round : int
        Round index, from 0.
    probe, validation_probe : callable, optional
        Passed on in the `RoundContext`.
    connected : (N,) ndarray of bool, optional
        Clients that can be reached at all, where they are real; only those can be available.

    Returns
    -------
    Decision

    Raises
    ------
    ConfigError
        When the selector chose clients that are not available.
    """
    available = world.availability.available(round)
    if connected is not None:
        available = available & connected
    context = RoundContext(
        round=round,
        available=available,
        sizes=world.sizes,
        rng=generator(world.seed, "selector", round),
        time_limit=world.time_limit,
        probe=probe,
        validation_probe=validation_probe,
    )
    start = time.perf_counter()
    selection = selector.select(context)
    seconds = time.perf_counter() - start
    absent = selection.clients[~available[selection.clients]]
    if absent.size:
        raise ConfigError(f"the selector chose clients that are not available in round {round}: {absent.tolist()}")
    return Decision(selection, available, world.dropout.returned(round)[selection.clients], seconds)


# -- rounds without training ---------------------------------------------------------------------------------------


def simulate(
    selector: Selector,
    availability: Availability,
    dropout: Dropout | None = None,
    *,
    sizes: ArrayLike,
    rounds: int,
    seed: int = 0,
    time_limit: float | None = None,
) -> Iterator[Round]:
    """Play rounds without training; under one seed the same clients are there, and come back, as in a trained run.

    The selector learns outcomes and nothing else: there are no losses, no norms and no ``probe``, so a selector that
    needs them cannot be simulated this way.

    Parameters
    ----------
    selector : Selector
        Decides; its state advances.
    availability : Availability
        Which clients are available.
    dropout : Dropout, optional
        Which clients come back; all by default.
    sizes : (N,) array-like of int
        Samples of each client.
    rounds : int
        Rounds to play.
    seed : int
        Seed of the selector's draws; give the availability and dropout models the same one.
    time_limit : float, optional
        Seconds a selector may take for a decision.

    Yields
    ------
    Round
        One per round, played when it is asked for. ``History.collect(simulate(...), n_clients)`` keeps the part that
        `fedselect.experiments.metrics` needs.

    Raises
    ------
    ConfigError
        When ``sizes`` or ``rounds`` is out of range (at once), or the selector chose clients that are not available.
    """
    world = World(np.asarray(sizes), availability, dropout, seed, time_limit)  # type: ignore[arg-type]
    return play(selector, world, rounds)


def play(selector: Selector, world: World, rounds: int) -> Iterator[Round]:
    """Play rounds without training in a `World` (a `Scenario`, say); otherwise as `simulate`."""
    if rounds < 0:
        raise ConfigError(f"rounds must not be negative; got {rounds}")
    return (_play_one(selector, world, t) for t in range(rounds))


def _play_one(selector: Selector, world: World, t: int) -> Round:
    decision = decide(selector, world, t)
    selection, outcomes = decision.selection, decision.outcomes()
    selector.update(RoundFeedback(t, selection, outcomes))
    applied = selection.applied_weights(decision.returned)
    return Round(t, selection, outcomes, applied, select_seconds=decision.seconds)


# -- records -------------------------------------------------------------------------------------------------------

#: A round as JSON values: a line of ``rounds.jsonl``.
Record = dict[str, Any]


def round_record(done: Round) -> Record:
    """Convert a round to the JSON values of a line of ``rounds.jsonl``."""
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


def solution_record(solution: Solution) -> Record:
    """Convert a solution to JSON values: everything but problem, decision and trace."""
    known = ("method", "status", "stopped", "objective", "bound", "absolute_gap", "gap")
    spent = ("seconds", "build_seconds", "nodes", "details")
    return {key: jsonable(getattr(solution, key)) for key in (*known, *spent)}


class Callback(Protocol):
    """Receives the record of every round; ``close()``, where it has one, is called when the training ends."""

    def on_round(self, record: Record) -> Any:
        """Take note of a round."""
        ...


@contextmanager
def listeners(callbacks: Iterable[Callback | Callable[[Record], Any]]) -> Iterator[Callable[[Record], bool]]:
    """Pass records on to callbacks inside the block, and close these behind it, however it ends.

    Yields
    ------
    callable
        ``tell(record)``: False where a callback asks to stop, by raising `StopIteration`.

    Raises
    ------
    ConfigError
        When a callback is neither a function nor has ``on_round``.
    """
    told: list[Callable[[Record], Any]] = []
    with ExitStack() as stack:
        for callback in callbacks:
            hear = getattr(callback, "on_round", callback)
            if not callable(hear) or isinstance(callback, type):
                raise ConfigError(f"a callback is a function of a record, or has on_round(record); got {callback!r}")
            told.append(hear)
            if callable(close := getattr(callback, "close", None)):
                stack.callback(close)

        def tell(record: Record) -> bool:
            going = True
            for hear in told:
                try:
                    hear(record)
                except StopIteration:
                    going = False
            return going

        yield tell
