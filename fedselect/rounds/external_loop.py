"""Context and feedback of a selector in an external training loop, made of what any loop knows.

::

    context = rounds.context(t, available, sizes, seed)
    selection = selector.select(context)
    ...  # train selection.clients; apply selection.applied_weights(...)
    selector.update(rounds.feedback(context, selection, returned=[3, 7], losses={3: 0.8, 7: 1.1}))
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.clock import Clock
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, Probe, RoundContext, RoundFeedback, Selection, check_finite

__all__ = ["context", "feedback"]


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
        When an argument is not as described.
    """
    there, samples = np.asarray(available), np.asarray(sizes)
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
    if time_limit is not None and not time_limit > 0:
        raise ConfigError(f"time_limit must be a positive number of seconds, or None; got {time_limit}")
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
        Ids of the clients whose update arrived; all of the selected if left out.
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
        a selected client was not available; when a loss or norm is not a number.
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
