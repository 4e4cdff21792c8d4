"""Selection without training: a selector driven by availability and dropout alone, for as many clients as one likes.

What a scheme does to participation does not need a model: E3CS's success ratio, FedAU's weights, the balance of the
counts. Nothing here imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability import DROPOUT, Availability, Dropout
from fedselect.errors import ConfigError
from fedselect.rounds.decide import decide
from fedselect.rounds.protocol import RoundFeedback, Selection, Selector

__all__ = ["SimulatedRound", "simulate"]


@dataclass(frozen=True, eq=False)
class SimulatedRound:
    """What happened in one round.

    Attributes
    ----------
    round : int
        Round index, from 0.
    selection : Selection
        The selector's decision.
    outcomes : (N,) ndarray of Outcome
        What became of every client.
    applied : (m,) ndarray of float
        Weights that an aggregation would apply, in the order of ``selection.clients``.
    select_seconds : float
        Wall time of the decision.
    """

    round: int
    selection: Selection
    outcomes: NDArray[np.int8]
    applied: NDArray[np.float64]
    select_seconds: float


def simulate(
    selector: Selector,
    availability: Availability,
    dropout: Dropout | None = None,
    *,
    sizes: ArrayLike,
    rounds: int,
    seed: int = 0,
    time_limit: float | None = None,
) -> Iterator[SimulatedRound]:
    """Play rounds without training; under one seed the same clients are there, and come back, as in a trained run.

    The selector is told outcomes and nothing else: there are no losses, no norms and no ``probe``, so a selector that
    needs them cannot be simulated this way.

    Parameters
    ----------
    selector : Selector
        Who decides; its state advances.
    availability : Availability
        Who is there.
    dropout : Dropout, optional
        Who comes back; everyone by default.
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
    SimulatedRound
        One a round, played when it is asked for. ``History.collect(simulate(...), clients)`` keeps what
        `fedselect.experiments.metrics` needs of them.

    Raises
    ------
    ConfigError
        When ``sizes`` or ``rounds`` is out of range, or the selector chose clients that are not available.
    """
    counts = np.asarray(sizes, dtype=np.int64)
    if counts.ndim != 1 or counts.size == 0 or (counts < 1).any():
        raise ConfigError("sizes must be one positive number of samples a client, and there must be a client")
    if rounds < 0:
        raise ConfigError(f"rounds must not be negative; got {rounds}")
    dropout = dropout or DROPOUT.build("none", counts.size, seed)
    return _play(selector, availability, dropout, counts, rounds, seed, time_limit)


def _play(
    selector: Selector,
    availability: Availability,
    dropout: Dropout,
    sizes: NDArray[np.int64],
    rounds: int,
    seed: int,
    time_limit: float | None,
) -> Iterator[SimulatedRound]:
    for t in range(rounds):
        decision = decide(selector, availability, dropout, round=t, sizes=sizes, seed=seed, time_limit=time_limit)
        selection, outcomes = decision.selection, decision.outcomes()
        selector.update(RoundFeedback(t, selection, outcomes))
        yield SimulatedRound(t, selection, outcomes, selection.applied_weights(decision.returned), decision.seconds)
