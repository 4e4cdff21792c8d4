"""Fill real numbers to a common level between bounds, and round them to whole ones; on plain arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["fill", "round_up_largest", "water_fill"]


def fill(
    a: NDArray[np.float64], total: float, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """The level τ at which ``clip(τ·a, lower, upper)`` sums to ``total``, and that vector; O(K log K).

    Parameters
    ----------
    a : (K,) ndarray
        Positive rates.
    total : float
        Wanted sum, between those of the bounds.
    lower, upper : (K,) ndarray
        Bounds.

    Returns
    -------
    x : (K,) ndarray
        The filled vector.
    level : float
        τ.
    """
    enter, leave = lower / a, upper / a
    breaks = np.sort(np.concatenate([enter, leave]))
    # The sum is piecewise linear and grows between the breaks: find the last break at which it is not too large.
    first, last = 0, breaks.size
    while last - first > 1:
        middle = (first + last) // 2
        if float(np.clip(breaks[middle] * a, lower, upper).sum()) <= total:
            first = middle
        else:
            last = middle
    level = float(breaks[first])
    full, free = leave <= level, (enter <= level) & (leave > level)
    if free.any():
        fixed = float(upper[full].sum() + lower[~full & ~free].sum())
        level = max(level, (total - fixed) / float(a[free].sum()))  # never below the break, by rounding
    return np.where(full, upper, np.where(free, np.clip(level * a, lower, upper), lower)), level


def water_fill(
    costs: NDArray[np.float64],
    sizes: NDArray[np.int64],
    total: int,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
) -> tuple[NDArray[np.float64], float]:
    r"""Minimise :math:`\sum_k c_k / x_k` over real :math:`\text{lower} \le x \le \text{upper}` of sum ``total``.

    Groups with zero cost stay at their lower bound while others have room; what is left then is split over them in
    proportion to their sizes, at price 0.

    Parameters
    ----------
    costs : (K,) ndarray
        c ≥ 0.
    sizes : (K,) ndarray of int
        Clients of each group; they matter for groups of zero cost alone.
    total : int
        Wanted sum, between those of the bounds.
    lower, upper : (K,) ndarray of int
        Bounds; a group with upper bound 0 is absent.

    Returns
    -------
    x : (K,) ndarray
        The best allocation.
    price : float
        λ = 1/τ² of a client.
    """
    x = lower.astype(np.float64)
    most = upper.astype(np.float64)
    counts = costs > 0
    idle = ~counts & (upper > 0)
    for_rest = float(lower[idle].sum())
    wanted = min(total - for_rest, float(most[counts].sum()))
    price = 0.0
    if counts.any():
        x[counts], level = fill(np.sqrt(costs[counts]), wanted, x[counts], most[counts])
        if total - for_rest <= float(most[counts].sum()):
            price = 1.0 / level**2 if level > 0 else math.inf
    if idle.any() and (rest := total - wanted) > for_rest:
        x[idle], _ = fill(sizes[idle].astype(np.float64), rest, x[idle], most[idle])
    return x, price


def round_up_largest(
    x: NDArray[np.float64], total: int, first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Round down, then up again where most was lost, until ``total`` clients are allotted; ties to the lowest index.

    ``x`` must lie between ``first`` and ``upper`` and sum to ``total``.
    """
    down = np.clip(np.floor(x + 1e-9).astype(np.int64), first, upper)
    lost = np.where(down < upper, x - down, -np.inf)
    missing = total - int(down.sum())
    down[np.argsort(-lost, kind="stable")[: max(missing, 0)]] += 1
    return down
