"""Selection without training: a selector driven by availability and dropout alone, for as many clients as one likes.

What a scheme does to participation does not need a model: E3CS's success ratio, FedAU's weights, the balance of the
counts. Nothing here imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability import Availability, Dropout
from fedselect.errors import ConfigError
from fedselect.rounds.decision import decide
from fedselect.rounds.protocol import RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import World

__all__ = ["SimulatedRound", "play", "simulate"]


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
    world = World(np.asarray(sizes), availability, dropout, seed, time_limit)  # type: ignore[arg-type]
    return play(selector, world, rounds)


def play(selector: Selector, world: World, rounds: int) -> Iterator[SimulatedRound]:
    """Play rounds in a world that stands already; see `simulate`.

    Parameters
    ----------
    selector : Selector
        Who decides; its state advances.
    world : World
        Where: a `fedselect.rounds.Scenario`, say.
    rounds : int
        Rounds to play.

    Yields
    ------
    SimulatedRound
        One a round, played when it is asked for.

    Raises
    ------
    ConfigError
        When ``rounds`` is negative (at once), or the selector chose clients that are not available.
    """
    if rounds < 0:
        raise ConfigError(f"rounds must not be negative; got {rounds}")
    return (_play_one(selector, world, t) for t in range(rounds))


def _play_one(selector: Selector, world: World, t: int) -> SimulatedRound:
    decision = decide(selector, world, t)
    selection, outcomes = decision.selection, decision.outcomes()
    selector.update(RoundFeedback(t, selection, outcomes))
    return SimulatedRound(t, selection, outcomes, selection.applied_weights(decision.returned), decision.seconds)
