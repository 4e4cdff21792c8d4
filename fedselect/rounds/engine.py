"""One round as every engine plays it: the selector's decision, what came of it, its record; rounds without training.

What a scheme does to participation does not need a model: E3CS's success ratio, FedAU's weights, the balance of the
counts. Nothing here imports PyTorch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability import Availability, Dropout
from fedselect.clock import Clock, RoundTimes
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, Probe, RoundContext, RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import World
from solvers import Solution
from solvers.solution import jsonable

__all__ = [
    "Callback",
    "Callbacks",
    "Decision",
    "Round",
    "decide",
    "learn",
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
        Which of the selected come back, by the dropout model and, where there is one, by the clock.
    seconds : float
        Wall time of the decision.
    times : RoundTimes, optional
        Times of the round on the clock, where there is one.
    """

    selection: Selection
    available: NDArray[np.bool_]
    returned: NDArray[np.bool_]
    seconds: float
    times: RoundTimes | None = None

    def told(self, returned: NDArray[np.bool_]) -> dict[str, Any]:
        """Return what the clock tells a selector, as fields of `RoundFeedback`; ``returned`` is a mask (m,)."""
        if self.times is None:
            return {}
        clients, ends = self.selection.clients, self.times.ends
        if not returned.all():
            clients, ends = clients[returned], ends[returned]
        return {"durations": dict(zip(clients.tolist(), ends.tolist(), strict=True)), "seconds": self.times.seconds}

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
    times : RoundTimes, optional
        Times of the round on the clock, where there is one.
    client_scores : dict of str to (N,) ndarray of float, optional
        Loss, accuracy and further metrics of the model at every client after the round, where they were evaluated; NaN
        for a client without a test sample.
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
    times: RoundTimes | None = None
    client_scores: dict[str, NDArray[np.float64]] | None = None


def decide(
    selector: Selector,
    world: World,
    round: int,
    *,
    probe: Probe | None = None,
    validation_probe: Probe | None = None,
    connected: NDArray[np.bool_] | None = None,
    seconds: float = 0.0,
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
    seconds : float
        Start of the round on the world's clock, where it has one: the end of the round before.

    Returns
    -------
    Decision

    Raises
    ------
    ConfigError
        When the selector chose clients that are not available.
    """
    timed = world.timed
    if timed is not None and world.clock is None:
        seconds = round * timed.round_seconds
    available = world.availability.available(round) if timed is None else timed.available_at(seconds)
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
        seconds=seconds,
        clock=world.clock,
    )
    start = time.perf_counter()
    selection = _selection_of(selector.select(context), world.sizes, selector)
    spent = time.perf_counter() - start
    absent = selection.clients[~available[selection.clients]]
    if absent.size:
        raise ConfigError(f"the selector chose clients that are not available in round {round}: {absent.tolist()}")
    clients = selection.clients
    returned, times = world.dropout.returned(round)[clients], None
    leaves = None if timed is None else timed.leaves(seconds)[clients]
    if world.clock is not None:
        times = world.clock.play(round, clients, returned, start=seconds, leaves=leaves, enough=selection.enough)
        returned = times.arrived
    elif timed is not None and leaves is not None:
        returned = returned & (leaves >= seconds + timed.round_seconds)
    return Decision(selection, available, returned, spent, times)


def _selection_of(found: Any, sizes: NDArray[np.int64], selector: Any) -> Selection:
    """Return what a selector answered as a `Selection`; ids alone are weighed by data size."""
    if isinstance(found, Selection):
        return found
    ids = np.asarray(sorted(found) if isinstance(found, set | frozenset) else found)
    if found is None or ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ConfigError(
            f"select of {type(selector).__name__} returned {found!r:.80}; a Selection(clients, weights) is wanted, or "
            "a list of client ids, which are weighed by data size"
        )
    ids, times = np.unique(ids.astype(np.int64), return_counts=True)
    if (times > 1).any():
        raise ConfigError(
            f"select of {type(selector).__name__} returned client {ids[times > 1][0]} more than once; a client trains "
            "once a round, and a weight says how much its update counts"
        )
    if ids.size and not 0 <= ids[0] <= ids[-1] < sizes.size:
        raise ConfigError(
            f"select of {type(selector).__name__} returned ids from {ids[0]} to {ids[-1]}, of {sizes.size}"
        )
    return Selection(ids, sizes[ids] / max(sizes[ids].sum(), 1), on_failure="renormalise")


def learn(selector: Any, feedback: RoundFeedback) -> None:
    """Pass the outcomes of a round to a selector; one without ``update`` learns nothing."""
    if callable(update := getattr(selector, "update", None)):
        update(feedback)


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
    clock: Clock | None = None,
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
    clock : Clock, optional
        How long rounds last, and who is late; its settings state ``model_bytes``.

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
    world = World(np.asarray(sizes), availability, dropout, seed, time_limit, clock)  # type: ignore[arg-type]
    return play(selector, world, rounds)


def play(selector: Selector, world: World, rounds: int) -> Iterator[Round]:
    """Play rounds without training in a `World` (a `Scenario`, say); otherwise as `simulate`."""
    if rounds < 0:
        raise ConfigError(f"rounds must not be negative; got {rounds}")
    if world.clock is not None:
        _ = world.clock.model_bytes  # that it is not known is said now
    return _played(selector, world, rounds)


def _played(selector: Selector, world: World, rounds: int) -> Iterator[Round]:
    seconds = 0.0
    for t in range(rounds):
        decision = decide(selector, world, t, seconds=seconds)
        selection, outcomes, times = decision.selection, decision.outcomes(), decision.times
        learn(selector, RoundFeedback(t, selection, outcomes, **decision.told(decision.returned)))
        applied = selection.applied_weights(decision.returned)
        seconds = 0.0 if times is None else times.end
        yield Round(t, selection, outcomes, applied, select_seconds=decision.seconds, times=times)


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
    record |= {} if done.times is None else _clock_record(done, done.times, len(ids[Outcome.RETURNED]))
    if done.client_scores is not None:
        record["client_scores"] = jsonable({name: list(values) for name, values in done.client_scores.items()})
    record |= {"metrics": jsonable(done.metrics)} if done.metrics else {}
    record |= {"refused": {str(client): why for client, why in done.refused.items()}} if done.refused else {}
    return record | ({"notes": jsonable(selection.notes)} if selection.notes else {})


def _clock_record(done: Round, times: RoundTimes, used: int) -> Record:
    """Convert the times of a round to JSON values: ``seconds`` at its end since the start of the run, and ``clock``.

    A client's work is wasted where its update was not used; ``used`` counts those that were. Where all were, nothing
    is late, leaves or is wasted, and few steps are left: they are felt in rounds of a few milliseconds.
    """
    clients, parts = done.selection.clients, (times.download.tolist(), times.compute.tolist(), times.upload.tolist())
    if used == clients.size and times.arrived.all():
        stops: list[float | None] = [None] * used
        begins, ends, late = times.begins.tolist(), times.ends.tolist(), []
        busy = sum(map(sum, parts), 0.0)  # the bits of any other order: durations are whole ticks
        sent, wasted_seconds, wasted_bytes = float(times.sent.sum()), 0.0, 0.0
    else:
        begins, ends, stops = _moments(times.begins), _moments(times.ends), _moments(times.stops)
        unused, late = done.outcomes[clients] != Outcome.RETURNED, clients[times.late].tolist()
        busy, wasted_seconds = float(times.busy.sum()), float(times.busy[unused].sum())
        sent, wasted_bytes = float(times.sent.sum()), float(times.sent[unused].sum())
    return {
        "seconds": times.end,
        "clock": {
            "start": times.start,
            "download": parts[0],
            "compute": parts[1],
            "upload": parts[2],
            "begins": begins,
            "ends": ends,
            "stops": stops,
            "late": late,
            "busy_seconds": busy,
            "wasted_seconds": wasted_seconds,
            "sent_bytes": sent,
            "wasted_bytes": wasted_bytes,
        },
    }


def _moments(values: NDArray[np.float64]) -> list[float | None]:
    """Return moments as JSON has them: None for what never comes."""
    return [value if value < math.inf else None for value in values.tolist()]


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


#: One callback, or several.
Callbacks = Callback | Callable[[Record], Any] | Iterable[Callback | Callable[[Record], Any]]


@contextmanager
def listeners(callbacks: Callbacks) -> Iterator[Callable[[Record], bool]]:
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
    if callable(callbacks) or hasattr(callbacks, "on_round"):
        callbacks = [callbacks]  # type: ignore[list-item]
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
