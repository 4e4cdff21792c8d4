r"""Checker of bounds of aggregation weights (optimisation error, total error), in fractions.

In the biased importance p the ratio of Theorem 2 is convex and homogeneous of degree 1, so that its gradient d at the
weights q of the certificate bounds it below by :math:`d \cdot p` at every p. What is left is

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

from solvers.errors import CertificateError

__all__ = ["check_optimization_error", "check_total_error"]

#: Bits of the roots behind the point.
ROOT = 120


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
