"""Availability drawn independently for every client and round, from each client's own rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.protocol import AVAILABILITY, check_choice, check_rates
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator

__all__ = ["Independent", "bernoulli", "ideal"]


class Independent:
    r"""Each client is available with its own rate :math:`p_k`, independently of everything else.

    Subclasses whose rates change with the round override `base_rates`.

    Parameters
    ----------
    rates : (N,) array-like
        Probability of each client, in [0, 1].
    seed : int
        Seed of the run; client k's draw in round t depends on (seed, t, k) alone.
    empty : {"pass", "redraw"}
        What happens when nobody is drawn: the round passes with nobody there, or the round is drawn again until
        somebody is, as in FedGS's code. The second conditions the distribution: client k is then available with
        probability :math:`p_k / (1 - \prod_i (1 - p_i))`. It draws from that law at once, without a loop; a round in
        which every rate is 0 passes all the same.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1] or NaN, all are zero (nobody would ever be available), or ``empty`` is unknown.
    """

    def __init__(self, rates: NDArray[np.float64], seed: int, *, empty: str = "pass") -> None:
        rates = check_rates(rates)
        if not (rates > 0).any():
            raise ConfigError("every client's availability rate is 0, so nobody would ever be there to select")
        self._rates = rates
        self.seed = seed
        self.empty = check_choice("empty", empty, "pass", "redraw")

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round`` before any redraw, shape (N,)."""
        return self._rates

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to be available in ``round``, shape (N,)."""
        rates = self.base_rates(round)
        if self.empty == "pass":
            return rates.copy()
        somebody = _somebody(rates)
        return rates / somebody if somebody > 0 else rates.copy()

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Correlation of each client's rounds, as `TwoState` has one: 0, shape (N,)."""
        return np.zeros(self._rates.size)

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients available in ``round``."""
        rng = generator(self.seed, "availability", round)
        rates = self.base_rates(round)
        there = rng.random(rates.size) < rates
        if self.empty == "redraw" and not there.any() and (rates > 0).any():
            # Given that somebody is there: the first of them from its conditional law, the later ones as ever.
            with np.errstate(divide="ignore"):
                first_by = -np.expm1(np.cumsum(np.log1p(-rates)))
            first = min(int(np.searchsorted(first_by, rng.random() * first_by[-1], side="right")), rates.size - 1)
            while rates[first] == 0:  # only rounding can land behind the last client that is ever there
                first -= 1
            there = rng.random(rates.size) < rates
            there[:first] = False
            there[first] = True
        return there


def _somebody(rates: NDArray[np.float64]) -> float:
    """Probability that at least one client is available."""
    with np.errstate(divide="ignore"):
        return float(-np.expm1(np.log1p(-rates).sum()))


@AVAILABILITY.register("ideal", "IDL")
def ideal(federation: Federation, seed: int = 0) -> Independent:
    """Make every client available in every round (FedGS's IDL)."""
    return Independent(np.ones(len(federation)), seed)


@AVAILABILITY.register("bernoulli")
def bernoulli(federation: Federation, seed: int = 0, *, rate: float = 0.5) -> Independent:
    """Make every client available with the same rate."""
    return Independent(np.full(len(federation), float(rate)), seed)
