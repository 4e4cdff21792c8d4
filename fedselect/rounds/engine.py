"""One round: the selector's decision, what came of it, its record; rounds without training.

The loop of PyTorch (`fedselect.training`), Flower's, `simulate` and a loop of your own decide by `decide` or `context`,
and tell the selector by `conclude` or `feedback`. What a scheme does to participation does not need a model: E3CS's
success ratio, FedAU's weights, the balance of the counts. A loop of your own is::

    context = rounds.context(t, available, sizes, seed)
    selection = selector.select(context)
    ...  # train selection.clients; apply selection.applied_weights(...)
    selector.update(rounds.feedback(context, selection, returned=[3, 7], losses={3: 0.8, 7: 1.1}))
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability import Availability, Dropout
from fedselect.clock import Clock, RoundTimes
from fedselect.errors import ConfigError
from fedselect.options import array_of
from fedselect.randomness import generator
from fedselect.rounds.protocol import (
    EndOfRun,
    Outcome,
    Probe,
    RoundContext,
    RoundFeedback,
    Selection,
    Selector,
    check_finite,
)
from fedselect.rounds.scenario import World
from fedselect.signals import interrupt_again
from solvers import Solution
from solvers.checks import seconds_or_none
from solvers.solution import jsonable


@dataclass(frozen=True, eq=False)
class Round:
    """A round, trained or simulated, as it was decided and as it ended.

    Attributes
    ----------
    round : int
        Round index, from 0.
    selection : Selection
        The selector's decision.
    outcomes : (N,) ndarray of Outcome
        Outcome of every client. As decided, clients return as the dropout model and, where there is one, the clock
        have it.
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

    @property
    def available(self) -> NDArray[np.bool_]:
        """Which clients were available, shape (N,)."""
        return self.outcomes != Outcome.UNAVAILABLE

    @property
    def returned(self) -> NDArray[np.bool_]:
        """Which of the selected returned, shape (m,)."""
        return self.outcomes[self.selection.clients] == Outcome.RETURNED


#: A round as `decide` returns it.
Decision = Round


def decide(
    selector: Selector,
    world: World,
    round: int,
    *,
    probe: Probe | None = None,
    validation_probe: Probe | None = None,
    connected: NDArray[np.bool_] | None = None,
    seconds: float = 0.0,
) -> Round:
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
    Round
        With the outcomes that dropout and clock allow; `conclude` says what came of it.

    Raises
    ------
    ConfigError
        When availability or dropout is of another number of clients, or the selector's answer is no selection of
        clients that are available. What the selector raises comes beside.
    """
    interrupt_again()
    timed = world.timed
    if timed is not None and world.clock is None:
        seconds = round * timed.round_seconds
    available = world.availability.available(round) if timed is None else timed.available_at(seconds)
    _check_clients("availability", available, world)
    if connected is not None:
        available = available & connected
    rng = generator(world.seed, "selector", round)
    known = RoundContext(
        round, available, world.sizes, rng, world.time_limit, probe, validation_probe, seconds, world.clock
    )
    start = time.perf_counter()
    selection = selection_of(selector.select(known), world.sizes, selector)
    spent = time.perf_counter() - start
    clients = selection.clients
    if (absent := clients[~available[clients]]).size:
        raise ConfigError(f"the selector chose clients that are not available in round {round}: {absent.tolist()}")
    returns, times = world.dropout.returned(round), None
    _check_clients("dropout", returns, world)
    returned = returns[clients]
    leaves = None if timed is None else timed.leaves(seconds)[clients]
    if world.clock is not None:
        times = world.clock.play(round, clients, returned, start=seconds, leaves=leaves, enough=selection.enough)
        returned = times.arrived
    elif timed is not None and leaves is not None:
        returned = returned & (leaves >= seconds + timed.round_seconds)
    outcomes = np.where(available, np.int8(Outcome.IDLE), np.int8(Outcome.UNAVAILABLE))
    outcomes[clients] = np.where(returned, np.int8(Outcome.RETURNED), np.int8(Outcome.MISSING))
    return Round(round, selection, outcomes, selection.applied_weights(returned), select_seconds=spent, times=times)


def check_built_for(selector: Any, world: World) -> None:
    """Raise `ConfigError` before the first round where a selector says that it was built for other clients."""
    n = getattr(selector, "n_clients", None)
    if isinstance(n, int) and n != world.n_clients:
        raise ConfigError(
            f"this {type(selector).__name__} was built for {n} clients, and there are {world.n_clients}: build one for "
            "these clients"
        )


def _check_clients(what: str, mask: NDArray[np.bool_], world: World) -> None:
    """Raise `ConfigError` where a model of the clients is of another number of them."""
    if np.shape(mask) != world.sizes.shape:
        raise ConfigError(f"{what} is stated for {np.size(mask)} clients; the federation has {world.sizes.size}")


def selection_of(found: Any, sizes: NDArray[np.int64], selector: Any) -> Selection:
    """Return what a selector answered as a `Selection`; ids alone are weighed by data size."""
    if isinstance(found, Selection):
        _check_ids(found.clients, sizes, selector)
        return found
    ids = array_of(list(found) if isinstance(found, set | frozenset) else found)
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
    _check_ids(ids, sizes, selector)
    return Selection(ids, sizes[ids] / max(sizes[ids].sum(), 1), on_failure="renormalise")


def _check_ids(ids: NDArray[np.int64], sizes: NDArray[np.int64], selector: Any) -> None:
    """Raise `ConfigError` where sorted ids are not all of clients that there are."""
    if ids.size and not 0 <= ids[0] <= ids[-1] < sizes.size:
        raise ConfigError(
            f"select of {type(selector).__name__} returned ids from {ids[0]} to {ids[-1]}, of {sizes.size}"
        )


def learn(selector: Any, feedback: RoundFeedback) -> None:
    """Pass the outcomes of a round to a selector; one without ``update`` learns nothing."""
    if callable(update := getattr(selector, "update", None)):
        update(feedback)


def conclude(
    selector: Any, decided: Round, arrived: NDArray[np.bool_], heard: NDArray[np.bool_] | None = None, **known: Any
) -> Round:
    """Tell the selector what came of a round.

    Parameters
    ----------
    selector : Selector
        Whose decision it was.
    decided : Round
        From `decide`.
    arrived : (m,) ndarray of bool
        Which of the selected sent an update that is used.
    heard : (m,) ndarray of bool, optional
        Which of them were heard of at all: those whose update is not used have failed, the rest is missing.
    **known
        Losses, norms, updates of those that arrived: fields of `RoundFeedback`.

    Returns
    -------
    Round
        With these outcomes, and the weights applied.
    """
    selection, times, outcomes = decided.selection, decided.times, decided.outcomes.copy()
    lost = np.int8(Outcome.MISSING) if heard is None else np.where(heard, np.int8(Outcome.FAILED), Outcome.MISSING)
    outcomes[selection.clients] = np.where(arrived, np.int8(Outcome.RETURNED), lost)
    if times is not None:
        clients, ends = selection.clients[arrived].tolist(), times.ends[arrived].tolist()
        known |= {"durations": dict(zip(clients, ends, strict=True)), "seconds": times.seconds}
    learn(selector, RoundFeedback(decided.round, selection, outcomes, **known))
    return replace(decided, outcomes=outcomes, applied=selection.applied_weights(arrived))


# -- loops of one's own --------------------------------------------------------------------------------------------


def context(
    round: int,
    available: ArrayLike,
    sizes: ArrayLike,
    seed: int = 0,
    *,
    time_limit: float | None = None,
    probe: Probe | None = None,
    validation_probe: Probe | None = None,
    seconds: float = 0.0,
    clock: Clock | None = None,
) -> RoundContext:
    """Make the context of one round; the same draws as in `fedselect.rounds.decide` under the same seed.

    Parameters
    ----------
    round : int
        Round index, from 0.
    available : (N,) array of bool
        Which clients are available.
    sizes : (N,) array of int
        Training samples of each client.
    seed : int
        Seed of the selector's draws.
    time_limit : float, optional
        Seconds the decision may take.
    probe, validation_probe : callable, optional
        ``probe(clients) -> losses``, for selectors that ask for them.
    seconds : float
        Start of the round, since the start of the run, by your clock.
    clock : Clock, optional
        What is expected of each client's times, for selectors that ask for it (`fedselect.clock.build_clock`).

    Returns
    -------
    RoundContext

    Raises
    ------
    ConfigError
        When ``available`` or ``sizes`` has another shape or type, a number is out of range, or the clock is of other
        clients.
    """
    try:
        there, samples = np.asarray(available), np.asarray(sizes)
    except ValueError as error:  # lists of unequal lengths
        raise ConfigError(f"available and sizes must have one entry a client each: {error}") from None
    if samples.ndim != 1 or samples.size == 0 or samples.dtype.kind not in "iu" or (samples < 1).any():
        raise ConfigError(f"sizes must be one positive whole number of samples a client; got {_short(sizes)}")
    if there.dtype != np.bool_:
        raise ConfigError(
            f"available must say True or False for each of the {samples.size} clients; got {_short(available)} "
            f"(of ids: numpy.isin(numpy.arange({samples.size}), ids))"
        )
    if there.shape != samples.shape:
        raise ConfigError(f"available and sizes must have one entry a client each; got {there.size} and {samples.size}")
    for name, value in (("round", round), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ConfigError(f"{name} must be a whole number from 0; got {value!r}")
    seconds_or_none(time_limit, error=ConfigError)
    if clock is not None and len(clock.devices) != samples.size:
        raise ConfigError(f"the clock must be of {samples.size} clients; it is of {len(clock.devices)}")
    rng = generator(int(seed), "selector", int(round))
    return RoundContext(
        int(round), there, samples.astype(np.int64), rng, time_limit, probe, validation_probe,
        seconds=_duration("seconds", seconds), clock=clock,
    )  # fmt: skip


def feedback(
    context: RoundContext,
    selection: Selection,
    *,
    returned: Sequence[int] | NDArray[np.int64] | None = None,
    failed: Collection[int] = (),
    losses: Mapping[int, float] | None = None,
    norms: Mapping[int, float] | None = None,
    received_losses: Mapping[int, float] | None = None,
    updates: Mapping[int, NDArray[np.float32]] | None = None,
    durations: Mapping[int, float] | None = None,
    seconds: float = 0.0,
) -> RoundFeedback:
    """Make the feedback of a round, refused where it contradicts the selection.

    Parameters
    ----------
    context, selection : RoundContext, Selection
        The selector's context, and its answer.
    returned : sequence of int, optional
        Ids of the clients whose update arrived; all of the selected that have not failed if left out.
    failed : collection of int
        Ids of those that reported an error. The rest of the selected is missing.
    losses, norms, received_losses, updates : mapping, optional
        By client, of those that returned (see `RoundFeedback`). Norms are computed from the updates where only these
        are given. A selector that learns from them says what it needs in its description.
    durations : mapping, optional
        Seconds from the start of the round to the end of the upload, by client, of those that returned: measured in
        your loop, or by a clock.
    seconds : float
        Length of the round.

    Returns
    -------
    RoundFeedback

    Raises
    ------
    ConfigError
        When a client returned or failed that was not selected, did both, or has numbers without having returned; when
        a selected client was not available; when a loss, norm or duration is not a finite number, or a duration is
        negative.
    """
    chosen = selection.clients
    outcomes = np.where(context.available, np.int8(Outcome.IDLE), np.int8(Outcome.UNAVAILABLE))
    if chosen.size and (chosen[0] < 0 or chosen[-1] >= outcomes.size):
        raise ConfigError(f"the selection names client {chosen[-1]}, and there are {outcomes.size} clients")
    absent = chosen[~context.available[chosen]]
    if absent.size:
        raise ConfigError(
            f"the selection names clients that were not available in round {context.round}: {_ids(absent)}"
        )
    back = chosen if returned is None else _clients("returned", returned, chosen)
    lost = _clients("failed", failed, chosen)
    if returned is None:
        back = np.setdiff1d(chosen, lost)
    if (both := np.intersect1d(back, lost)).size:
        raise ConfigError(f"clients cannot both have returned and failed: {_ids(both)}")
    outcomes[chosen] = Outcome.MISSING
    outcomes[back] = Outcome.RETURNED
    outcomes[lost] = Outcome.FAILED
    if updates is not None and norms is None:
        norms = {client: float(np.linalg.norm(np.asarray(updates[client]))) for client in updates}
    given = (("losses", losses), ("norms", norms), ("received_losses", received_losses))
    of_losses, of_norms, of_received = (_numbers(name, values or {}, back) for name, values in given)
    _check_returned("updates", updates or {}, back)
    took = _numbers("durations", durations or {}, back)
    for client, value in took.items():
        _duration(f"durations of client {client}", value)
    return RoundFeedback(
        context.round, selection, outcomes, of_losses, of_norms, of_received, dict(updates or {}),
        durations=took, seconds=_duration("seconds", seconds),
    )  # fmt: skip


def _duration(what: str, value: float) -> float:
    """Return a number of seconds; raise `ConfigError` where it is negative or not finite."""
    if not 0.0 <= value < math.inf:
        raise ConfigError(f"{what} must be a number of seconds from 0; got {value}")
    return float(value)


def _clients(what: str, given: Any, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids that a caller gave, sorted, all of them selected."""
    ids = np.asarray(list(given))
    if ids.size == 0:
        return np.empty(0, dtype=np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ConfigError(f"{what} must be a list of client ids; got {_short(given)}")
    if (strangers := np.setdiff1d(ids, chosen)).size:
        raise ConfigError(f"{what} names clients that were not selected: {_ids(strangers)} (selected: {_ids(chosen)})")
    if np.unique(ids).size != ids.size:
        raise ConfigError(f"{what} names a client twice: {_ids(ids)}")
    return np.sort(ids).astype(np.int64)


def _numbers(what: str, given: Mapping[int, float], back: NDArray[np.int64]) -> dict[int, float]:
    _check_returned(what, given, back)
    check_finite(what, given)
    return {int(client): float(value) for client, value in given.items()}


def _check_returned(what: str, given: Mapping[int, Any], back: NDArray[np.int64]) -> None:
    if (others := np.setdiff1d(np.asarray(list(given), dtype=np.int64), back)).size:
        raise ConfigError(f"{what} are given of clients that did not return: {_ids(others)} (returned: {_ids(back)})")


def _ids(clients: NDArray[np.int64]) -> str:
    shown = ", ".join(map(str, clients[:10].tolist()))
    return (shown or "none") + (f", ... ({clients.size} in all)" if clients.size > 10 else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


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

    The selector learns outcomes and, with a clock, durations: there are no losses, no norms and no ``probe``, so a
    selector that needs them cannot be simulated this way.

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
        How long rounds last, and which clients are late; its settings state ``model_bytes``.

    Yields
    ------
    Round
        One per round, played when it is asked for, until the selector ends the run (`fedselect.rounds.EndOfRun`).
        ``History.collect(simulate(...), n_clients)`` keeps what the functions of `fedselect.measures`
        need that take a history.

    Raises
    ------
    ConfigError
        When ``sizes`` or ``rounds`` is out of range, the selector was built for other clients or the clock has no
        ``model_bytes`` (at once); or as `decide` has it, in the round.
    """
    world = World(sizes, availability, dropout, seed, time_limit, clock)  # type: ignore[arg-type]
    return play(selector, world, rounds)


def play(selector: Selector, world: World, rounds: int) -> Iterator[Round]:
    """Play rounds without training in a `World` (a `Scenario`, say); otherwise as `simulate`."""
    if rounds < 0:
        raise ConfigError(f"rounds must not be negative; got {rounds}")
    check_built_for(selector, world)
    if world.clock is not None:
        _ = world.clock.model_bytes  # that it is not known is said now
    return _played(selector, world, rounds)


def _played(selector: Selector, world: World, rounds: int) -> Iterator[Round]:
    seconds = 0.0
    for t in range(rounds):
        try:
            decided = decide(selector, world, t, seconds=seconds)
        except EndOfRun:
            return
        done = conclude(selector, decided, decided.returned)
        seconds = 0.0 if done.times is None else done.times.end
        yield done


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

    A client's work is wasted where its update was not used; ``used`` counts those that were.
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
    """Convert to JSON values what a record has of a solution: outcome, objective, bound, gaps, cost and details."""
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
    if callable(callbacks) or hasattr(callbacks, "on_round") or not isinstance(callbacks, Iterable):
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
