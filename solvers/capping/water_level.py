"""From an overflow set to the probabilities, on plain arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["TIE", "log_sum", "share_out", "tail_sums"]

#: A share above the ceiling by less than this is rounding of an exact tie.
TIE = 1e-12


def share_out(
    log_shares: NDArray[np.float64], size: int, floor: float, capped: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float, NDArray[np.bool_]]:
    """Cap ``capped``, share the rest out in proportion, and cap whoever that lifts above 1, until nobody is.

    Starting from any subset of the overflow set (the empty one included) this ends at the overflow set: a client
    above 1 stays above it when more clients are capped.

    Parameters
    ----------
    log_shares : (K,) ndarray
        Logarithms of the proportional shares, which sum to the mass above the floor; the mass must be positive.
    size : int
        Sum k of the probabilities.
    floor : float
        Smallest probability σ.
    capped : (K,) ndarray of bool
        Clients known to overflow.

    Returns
    -------
    x : (K,) ndarray
        The probabilities.
    multiplier : float
        μ, the logarithm of probability above the floor over proportional share, for clients not capped.
    capped : (K,) ndarray of bool
        The overflow set.
    """
    t, n, k, room = log_shares, log_shares.shape[0], size, 1.0 - floor
    if k == n:  # everybody has 1, and the level is not unique: the highest is the smallest share's
        return np.ones(n), math.log(room) - float(t.min()), t > t.min()
    while True:
        m = int(capped.sum())
        free = t if m == 0 else t[~capped]
        top = float(free.max())
        parts = np.exp(free - top)
        # (k - m) - (K - m)σ rather than q - m(1 - σ): the integers are exact.
        left, total = (k - m) - (n - m) * floor, float(parts.sum())
        parts *= left / total
        over = parts > room * (1 + TIE)
        if not over.any() or over.all():
            break
        capped = capped.copy()
        capped[~capped] = over
    x = np.ones(n)
    x[~capped] = np.minimum(parts + floor, 1.0)
    multiplier = 0.0 if m == 0 else math.log(left) - top - math.log(total)
    return x, multiplier, capped


def tail_sums(descending: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of R_m: the sum over ``rest`` and ``descending[m:]``, for each m."""
    base = [log_sum(rest)] if rest.size else [-math.inf]
    return np.logaddexp.accumulate(np.concatenate([base, descending[::-1]]))[:0:-1]


def log_sum(logs: NDArray[np.float64]) -> float:
    """Logarithm of the sum of exponentials."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))
