"""One round as every engine plays it, whatever the training: ask the selector, see who returns, say what is applied."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, Probe, RoundContext, Selection, Selector
from fedselect.rounds.scenario import World

__all__ = ["Decision", "decide"]


@dataclass(frozen=True, eq=False)
class Decision:
    """A selector's decision, and who came back.

    Attributes
    ----------
    selection : Selection
        Who was selected, with which weights.
    available : (N,) ndarray of bool
        Who was there.
    returned : (m,) ndarray of bool
        Which of the selected come back, as the dropout model has it.
    seconds : float
        Wall time of the decision.
    """

    selection: Selection
    available: NDArray[np.bool_]
    returned: NDArray[np.bool_]
    seconds: float

    def outcomes(self, failed: NDArray[np.bool_] | None = None) -> NDArray[np.int8]:
        """What became of every client, shape (N,); ``failed`` (m,) marks those whose update cannot be used."""
        outcomes = np.where(self.available, np.int8(Outcome.IDLE), np.int8(Outcome.UNAVAILABLE))
        of_selected = np.where(self.returned, np.int8(Outcome.RETURNED), np.int8(Outcome.MISSING))
        if failed is not None:
            of_selected[failed] = Outcome.FAILED
        outcomes[self.selection.clients] = of_selected
        return outcomes


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
        Who decides.
    world : World
        Who is there and comes back, with how many samples, under which seed and within which time.
    round : int
        Round index, from 0.
    probe, validation_probe : callable, optional
        Passed on in the `RoundContext`.
    connected : (N,) ndarray of bool, optional
        Who can be reached at all, where the clients are real; only those can be available.

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
