"""What a recorded participation history says: weight error, and the Q of Theorem 2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.participation.weights import ParticipationWeights, check_rates

__all__ = ["second_moment", "weight_error"]


def weight_error(history: ArrayLike, rates: ArrayLike, cutoff: int | None = None) -> float:
    r"""Theorem 2's weight error of one history, :math:`\frac{1}{NT} \sum_t \sum_n (p_n \omega_t^n - 1)^2`.

    Its expectation is what Theorem 3 bounds (FedAU, Wang & Ji, ICLR 2024); average over histories for that.

    Parameters
    ----------
    history : (T, N) array-like of bool
        Who participated in which round.
    rates : (N,) array-like
        Participation rates p in (0, 1].
    cutoff : int, optional
        K ≥ 1 of the weights, or ``None`` for K = ∞.

    Returns
    -------
    float
        The mean over rounds and clients.

    Raises
    ------
    InvalidProblem
        When an argument is out of range or the shapes disagree.
    """
    p = check_rates(rates)
    errors = [float(((p * weights - 1.0) ** 2).mean()) for weights in _replay(history, p, cutoff)]
    return float(np.mean(errors))


def second_moment(history: ArrayLike, rates: ArrayLike, cutoff: int | None = None) -> float:
    r"""Theorem 2's Q of one history, :math:`\max_t \frac1N \sum_n p_n (\omega_t^n)^2`; mean(1/p) for ideal weights.

    Parameters
    ----------
    history, rates, cutoff
        As for `weight_error`.

    Returns
    -------
    float
        Q, as printed: on the realised weights, not their expectation.

    Raises
    ------
    InvalidProblem
        When an argument is out of range or the shapes disagree.
    """
    p = check_rates(rates)
    return max(float((p * weights**2).mean()) for weights in _replay(history, p, cutoff))


def _replay(history: ArrayLike, p: NDArray[np.float64], cutoff: int | None) -> Iterator[NDArray[np.float64]]:
    """The weights used in each round."""
    rounds = np.asarray(history)
    if rounds.ndim != 2 or rounds.shape[0] == 0 or rounds.shape[1] != p.shape[0]:
        raise InvalidProblem(
            f"history must have a row per round (at least one) and a column per rate, {p.shape[0]}; got {rounds.shape}"
        )
    online = ParticipationWeights(p.shape[0], cutoff)
    for participated in rounds:
        yield online.weights
        online.update(participated)
