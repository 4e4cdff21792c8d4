r"""Checkers of bounds of convex problems, exactly: prices for allocations and schedules, a gradient for weights.

**Allocation.** For any price λ ≥ 0, :math:`\sum_k \min_s (c_k / s + \lambda s) - \lambda S - \sum_k c_k / N_k` is a
lower bound. In whole clients the minimum is one where neither neighbour is lower, as the terms are convex; in real
numbers :math:`c / s \ge 2c / r - c s / r^2` for any r > 0, and what is left is linear.

**Schedules.** For whole v and any whole a, :math:`(v - a)(v - a - 1) \ge 0`: the square of a client's turns is at
least :math:`(2a + 1) v - a (a + 1)`. A level :math:`a_k` of each client is a price :math:`2 a_k + 1` of each of its
turns, and no schedule's are cheaper than the cheapest of every round. As all schedules have as many turns, a bound on
the sum of squares is one on the variance; levels that are potentials of an optimal schedule prove it exactly.

**Aggregation weights** (optimisation error, total error). In the biased importance p the ratio of Theorem 2 is convex
and homogeneous of degree 1, so that its gradient d at the weights q of the certificate bounds it below by
:math:`d \cdot p` at every p. What is left is

* for the optimisation error :math:`\min_p d \cdot p = \min_k d_k`;
* with the squared total variation, by :math:`x^2 \ge 2tx - t^2`, for any t ≥ 0 and ν up to :math:`\min_k d_k + wt`:
  :math:`\nu + \sum_k \alpha_k \min(wt, d_k - \nu) + wt\,\alpha_0 - wt^2`, α₀ being the excluded importance;
* with χ², for any ν up to :math:`\min_k d_k`:
  :math:`\nu + \sum_k 2 \alpha_k \sqrt{w (d_k - \nu)} - 2w \sum_k \alpha_k + w`, roots rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from solvers.errors import CertificateError

#: Bits of the roots behind the point.
ROOT = 120


def check_allocation(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return the lower bound of ``price``; for allocations in whole clients alone where ``whole`` is 1."""
    (price,), (whole,) = arrays["price"].tolist(), arrays["whole"].tolist()
    rate = Fraction(price) * Fraction(2) ** grid
    sizes, lower, upper = (getattr(problem, name).tolist() for name in ("sizes", "lower", "upper"))
    everybody = sum(size for size, most in zip(sizes, upper, strict=True) if most > 0)
    bound = -rate * int(problem.total)
    for size, least, most, deviation in zip(sizes, lower, upper, problem.deviations.tolist(), strict=True):
        if most <= 0:
            continue
        cost = (Fraction(size) * Fraction(deviation) / everybody) ** 2
        if cost == 0:
            bound += rate * least
        elif whole:
            bound += _whole(cost, rate, max(least, 1), most) - cost / size
        else:
            bound += _real(cost, rate, least, most) - cost / size
    return bound


def _whole(cost: Fraction, rate: Fraction, least: int, most: int) -> Fraction:
    s = most if rate == 0 else min(max(isqrt(int(cost / rate)), least), most)
    for near in (s, s + 1, s - 1, s + 2):
        if least <= near <= most:
            value = cost / near + rate * near
            beside = [cost / k + rate * k for k in (near - 1, near + 1) if least <= k <= most]
            if all(value <= other for other in beside):
                return value
    raise CertificateError("no whole number of clients near the square root of cost over price is a best one")


def _real(cost: Fraction, rate: Fraction, least: int, most: int) -> Fraction:
    touch = Fraction(most)
    if rate > 0:
        # A root good to some forty bits: any would do, the bound only has to be close.
        scaled = cost / rate * (1 << 80)
        touch = min(max(Fraction(isqrt(int(scaled)) + 1, 1 << 40), Fraction(least)), touch)
    slope = rate - cost / touch**2
    return 2 * cost / touch + slope * (least if slope > 0 else most)


def check_schedule(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return a variance of the turns that no schedule is below; ``level`` holds a whole number for each client."""
    level, counts, n = arrays["level"], np.asarray(problem.counts).tolist(), len(problem.counts)
    least = sum((2 * a + 1) * c - a * (a + 1) for a, c in zip(level.tolist(), counts, strict=True))
    # Prices are below 2^35 by their range, and there are at most 2^23 of them.
    price = 2 * level + 1
    for there, size in zip(np.asarray(problem.available), np.asarray(problem.sizes).tolist(), strict=True):
        least += int(np.partition(price[there], size - 1)[:size].sum()) if size else 0
    turns = sum(counts) + int(np.asarray(problem.sizes).sum())
    return Fraction(n * least - turns**2, n * n)


def check_optimization_error(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return the lower bound that the weights ``q`` prove."""
    return min(_slopes(problem, grid, arrays)) + Fraction(float(problem.constant))


def check_total_error(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return the lower bound of the weights ``q`` and the multiplier: the variation t, or the depth of ν below."""
    slopes = _slopes(problem, grid, arrays)
    alpha = [Fraction(a) for a in problem.importance.tolist()]
    w, constant, least = Fraction(float(problem.bias_weight)), Fraction(float(problem.constant)), min(slopes)
    if w == 0:
        return least + constant
    (multiplier,) = arrays["multiplier"].tolist()
    step = multiplier * Fraction(2) ** grid
    if problem.bias == "tv":
        price = w * step
        level = least + price
        moved = sum(a * min(price, d - level) for a, d in zip(alpha, slopes, strict=True))
        return level + moved + price * Fraction(float(problem.excluded)) - w * step**2 + constant
    level = least - step
    roots = sum(a * _root(w * (d - level)) for a, d in zip(alpha, slopes, strict=True))
    return level + 2 * roots - 2 * w * sum(alpha) + w + constant


def _slopes(problem: Any, grid: int, arrays: Mapping[str, Any]) -> list[Fraction]:
    """The ratio's gradient in p at the certificate's weights, whatever their sum."""
    raw = arrays["q"].tolist()
    if sum(raw) == 0:
        raise CertificateError("the weights must not all be zero")
    total = Fraction(float(problem.total))
    q = [total * k / sum(raw) for k in raw]
    pi = [Fraction(a) for a in problem.availability.tolist()]
    v = [Fraction(a) for a in problem.variances.tolist()]
    energy = sum((a * b * c * c for a, b, c in zip(v, pi, q, strict=True)), Fraction(0)) / 2
    rest = (Fraction(float(problem.offset)) - energy) / total
    return [a * c + rest / b for a, b, c in zip(v, pi, q, strict=True)]


def _root(value: Fraction) -> Fraction:
    """The square root, rounded down."""
    return Fraction(isqrt(value.numerator * (1 << (2 * ROOT)) // value.denominator), 1 << ROOT)
