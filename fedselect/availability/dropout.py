"""Dropout: selected clients whose update never arrives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.randomness import generator

__all__ = ["DROPOUT", "Dropout"]

DROPOUT: Registry = Registry("dropout")


class Dropout:
    """Every selected client goes missing with the same probability, independently.

    Parameters
    ----------
    clients : int
        Number of clients N.
    seed : int
        Seed of the run; client k's draw in round t depends on (seed, t, k) alone.
    rate : float
        Probability in [0, 1].
    """

    def __init__(self, clients: int, seed: int, rate: float) -> None:
        if not 0 <= rate <= 1:
            raise ConfigError(f"the dropout rate must lie in [0, 1]; got {rate}")
        self.clients, self.seed, self.rate = clients, seed, rate

    def returned(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that would return in ``round`` if they were selected, shape (N,)."""
        return generator(self.seed, "dropout", round).random(self.clients) >= self.rate


@DROPOUT.register("none")
def none(clients: int, seed: int) -> Dropout:
    """Every selected client returns."""
    return Dropout(clients, seed, 0.0)


@DROPOUT.register("bernoulli")
def bernoulli(clients: int, seed: int, *, rate: float = 0.1) -> Dropout:
    """Every selected client goes missing with probability ``rate``."""
    return Dropout(clients, seed, rate)
