"""Availability drawn independently for every client and round, from each client's own rate."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.randomness import generator

__all__ = ["AVAILABILITY", "Availability", "Independent", "bernoulli", "ideal", "lognormal"]

AVAILABILITY: Registry = Registry("availability")


class Availability(Protocol):
    """Who is there, as a pure function of the round."""

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that are available in ``round``, shape (N,)."""
        ...


class Independent:
    """Each client is available with its own rate, independently of everything else.

    Parameters
    ----------
    rates : (N,) array-like
        Probability of each client, in [0, 1].
    seed : int
        Seed of the run; client k's draw in round t depends on (seed, t, k) alone.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1] or NaN, or all are zero: nobody would ever be available.
    """

    def __init__(self, rates: NDArray[np.float64], seed: int) -> None:
        rates = np.asarray(rates, dtype=np.float64)
        if not ((rates >= 0) & (rates <= 1)).all():
            bad = int(np.flatnonzero(~((rates >= 0) & (rates <= 1)))[0])
            raise ConfigError(f"availability rates must lie in [0, 1]; client {bad} has {rates[bad]}")
        if not (rates > 0).any():
            raise ConfigError("every client's availability rate is 0, so nobody would ever be there to select")
        self.rates = rates
        self.seed = seed

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients available in ``round``."""
        return generator(self.seed, "availability", round).random(self.rates.size) < self.rates


@AVAILABILITY.register("ideal", "IDL")
def ideal(federation: Federation, seed: int) -> Independent:
    """Everyone is available in every round (FedGS's IDL)."""
    return Independent(np.ones(len(federation)), seed)


@AVAILABILITY.register("bernoulli")
def bernoulli(federation: Federation, seed: int, *, rate: float = 0.5) -> Independent:
    """Everyone is available with the same rate."""
    return Independent(np.full(len(federation), float(rate)), seed)


@AVAILABILITY.register("lognormal", "LN")
def lognormal(federation: Federation, seed: int, *, beta: float = 0.5) -> Independent:
    r"""Rates are log-normal over the clients (FedGS's LN).

    :math:`p_k = c_k / \max_i c_i` with :math:`\log c_k \sim N(0, \sigma^2)`, :math:`\sigma = \ln(1 / (1 - \beta))`.
    The paper leaves open whether its second parameter is σ or σ²; the authors' code takes it for σ, and so does this.
    The rates are drawn once per seed. At N = 100 and β = 0.5 about 23 clients are available a round.

    Parameters
    ----------
    federation : Federation
        Whose clients.
    seed : int
        Seed of the run.
    beta : float
        Heterogeneity β in [0, 1): 0 makes everyone available always.

    Raises
    ------
    ConfigError
        When ``beta`` is outside [0, 1).
    """
    if not 0 <= beta < 1:
        raise ConfigError(f"beta must lie in [0, 1); got {beta}")
    sigma = -math.log1p(-beta)
    logs = sigma * generator(seed, "profile").standard_normal(len(federation))
    return Independent(np.exp(logs - logs.max()), seed)
