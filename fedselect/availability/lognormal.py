"""FedGS's modes with log-normal rates: LN, and SLN whose rates also rise and fall with the time of day."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.independent import Independent
from fedselect.availability.protocol import AVAILABILITY, check_share
from fedselect.data import Federation
from fedselect.randomness import generator
from graphs.reproducible import exponential

__all__ = ["SinLognormal", "lognormal", "sin_lognormal"]


#: Which generator the clients' rates come from.
Draw = Literal["streams", "authors"]


@AVAILABILITY.register("lognormal", "LN", "LogNormal")
def lognormal(federation: Federation, seed: int, *, beta: float = 0.5, draw: Draw = "streams") -> Independent:
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
    draw : {"streams", "authors"}
        Where the c_k come from: this toolkit's generator, or the first N of NumPy's legacy generator of seed
        21 + ``seed``, as in FedGS's code.

    Raises
    ------
    ConfigError
        When ``beta`` is outside [0, 1).
    """
    return Independent(_profile(len(federation), seed, beta, draw), seed)


class SinLognormal(Independent):
    r"""Fixed rates times a sinusoid of 24 rounds: :math:`p_k^t = q_k f(t \bmod 24)`.

    :math:`f(j) = 0.5 + 0.4 \sin(2 \pi j / 23)`. The authors' grid has both ends of the circle, so that rounds 0 and 23
    of a cycle are alike, f(j) lies in [0.101, 0.899] with mean 0.5, and no rate ever reaches 1.

    Parameters
    ----------
    rates : (N,) array-like
        q_k, in [0, 1].
    seed, empty
        As for `Independent`.
    """

    #: f(0), ..., f(23).
    factors: NDArray[np.float64] = 0.5 + 0.4 * np.sin(2 * np.pi * np.arange(24) / 23)

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round`` before any redraw, shape (N,)."""
        return self._rates * self.factors[round % 24]


@AVAILABILITY.register("sin-lognormal", "SLN", "SinLogNormal")
def sin_lognormal(
    federation: Federation, seed: int, *, beta: float = 0.5, empty: str = "pass", draw: Draw = "streams"
) -> SinLognormal:
    r"""Log-normal rates that rise and fall over 24 rounds (FedGS's SLN).

    Executed by the authors' code, whose docstring speaks of another period; see `SinLognormal` for the formula and
    `lognormal` for the rates q_k, which are the same as LN's under one seed.

    Parameters
    ----------
    federation : Federation
        Whose clients.
    seed : int
        Seed of the run.
    beta : float
        Heterogeneity β in [0, 1) of the rates.
    empty : {"pass", "redraw"}
        See `Independent`; FedGS's code redraws.
    draw : {"streams", "authors"}
        As for `lognormal`.

    Raises
    ------
    ConfigError
        When ``beta`` is outside [0, 1).
    """
    return SinLognormal(_profile(len(federation), seed, beta, draw), seed, empty=empty)


def _profile(clients: int, seed: int, beta: float, draw: Draw) -> NDArray[np.float64]:
    sigma = -math.log1p(-check_share("beta", beta, below_one=True))
    normal = generator(seed, "profile") if draw == "streams" else np.random.RandomState(21 + seed)
    logs = sigma * normal.standard_normal(clients)
    return exponential(logs - logs.max())
