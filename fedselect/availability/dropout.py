"""Dropout: selected clients whose update never arrives."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.protocol import check_rates
from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.randomness import generator

__all__ = ["DROPOUT", "Dropout", "IndependentDropout", "bernoulli", "none"]

#: Builders ``(clients, seed, *, options) -> Dropout`` by name.
DROPOUT: Registry = Registry("dropout")


class Dropout(Protocol):
    """Who comes back, as a pure function of the seed, the round and the client."""

    def returned(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that would return in ``round`` if they were selected, shape (N,)."""
        ...

    def rates(self, round: int) -> NDArray[np.float64]:
        """True probability of each client to return in ``round`` if it is selected, shape (N,); for oracles only."""
        ...


class IndependentDropout:
    r"""Each selected client returns with its own rate :math:`\rho_k`, independently of everything else.

    Parameters
    ----------
    rates : (N,) array-like
        Probability of each client to return, in [0, 1].
    seed : int
        Seed of the run; client k's draw in round t depends on (seed, t, k) alone, and not on who was selected.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1] or NaN.
    """

    def __init__(self, rates: NDArray[np.float64], seed: int) -> None:
        self._rates = check_rates(rates, "return rates")
        self.seed = seed

    def returned(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that would return in ``round`` if they were selected, shape (N,)."""
        # 1 - u <= rate: with the same draw a client of a higher rate returns whenever one of a lower rate does.
        return generator(self.seed, "dropout", round).random(self._rates.size) >= 1 - self._rates

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to return in ``round``, shape (N,)."""
        return self._rates.copy()


@DROPOUT.register("none")
def none(clients: int, seed: int) -> IndependentDropout:
    """Every selected client returns."""
    return IndependentDropout(np.ones(clients), seed)


@DROPOUT.register("bernoulli")
def bernoulli(clients: int, seed: int, *, rate: float = 0.1) -> IndependentDropout:
    """Every selected client goes missing with probability ``rate``."""
    if not 0 <= rate <= 1:
        raise ConfigError(f"the dropout rate must lie in [0, 1]; got {rate}")
    return IndependentDropout(np.full(clients, 1.0 - rate), seed)
