"""A round loop without training, for tests of selectors alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection, Selector

Masks = Callable[[int], NDArray[np.bool_]]


def context(available, round=0, sizes=None, seed=0, losses=None) -> RoundContext:
    """The context of one round; ``losses`` (N,) are what a probe answers, none without them."""
    mask = np.asarray(available, dtype=bool)
    sizes = np.full(mask.size, 10) if sizes is None else np.asarray(sizes)

    def probe(clients: Sequence[int]) -> NDArray[np.float64]:
        return np.asarray(losses, dtype=float)[np.asarray(clients, dtype=int)]

    rng = generator(seed, "selector", round)
    return RoundContext(round, mask, sizes, rng, probe=None if losses is None else probe)


def outcomes(available, selection: Selection, returned=None) -> NDArray[np.int8]:
    """Everybody returns, or those in ``returned``."""
    mask = np.asarray(available, dtype=bool)
    back = np.ones(mask.size, bool) if returned is None else np.asarray(returned, dtype=bool)
    result = np.where(mask, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
    chosen = selection.clients
    result[chosen] = np.where(back[chosen], Outcome.RETURNED, Outcome.MISSING)
    return result


def drive(
    selector: Selector,
    rounds: int,
    available: Masks,
    returned: Masks | None = None,
    *,
    sizes=None,
    seed: int = 0,
    losses=None,
    start: int = 0,
) -> Iterator[tuple[Selection, NDArray[np.int8]]]:
    """Select and tell, round after round."""
    for t in range(start, start + rounds):
        mask = available(t)
        selection = selector.select(context(mask, t, sizes, seed, losses))
        happened = outcomes(mask, selection, None if returned is None else returned(t))
        selector.update(RoundFeedback(t, selection, happened))
        yield selection, happened


def everybody(clients: int) -> Masks:
    """Everybody is there, in every round."""
    mask = np.ones(clients, dtype=bool)
    return lambda t: mask


def bernoulli(rates, seed: int = 0, purpose="availability") -> Masks:
    """Independent over clients and rounds."""
    p = np.asarray(rates, dtype=float)
    return lambda t: generator(seed, purpose, t).random(p.size) < p
