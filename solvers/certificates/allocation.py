r"""Checker of bounds of allocation problems: the price of a client, in fractions.

For any price λ ≥ 0, :math:`\sum_k \min_s (c_k / s + \lambda s) - \lambda S - \sum_k c_k / N_k` is a lower bound. In
whole clients the minimum is one where neither neighbour is lower, as the terms are convex; in real numbers
:math:`c / s \ge 2c / r - c s / r^2` for any r > 0, and what is left is linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

from solvers.errors import CertificateError

__all__ = ["check_allocation"]


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
