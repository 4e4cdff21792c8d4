r"""Checker of bounds of dispersion between points: the tangent at one point of the slice, in whole numbers.

Euclidean distances D are of negative type (Schoenberg): :math:`z^\top D z \le 0` wherever :math:`1^\top z = 0`. So the
objective is concave on the slice :math:`1^\top s = m`, and for any y there no selection is worth more than
:math:`\max_s g^\top s - w \, y^\top D y` with :math:`g = 2 w D y - c`. Roots are rounded to the safe side. Side
constraints fix clients, and prices in units of 2^grid charge for their rows (`solvers.certificates.exact.sides`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from solvers.certificates.exact.sides import FREE, ONE, Sides
from solvers.certificates.schema import POINT
from solvers.errors import CertificateError

#: Binary digits of the roots behind the point, beyond those of the coordinates' grid.
_DIGITS = 24


def check_points(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return the upper bound of the tangent at the point whose ``clients`` have ``shares`` in units of 2^-20."""
    clients, shares = arrays["clients"].tolist(), arrays["shares"].tolist()
    m, weight = int(problem.size), Fraction(float(problem.weight))
    if problem.metric != "euclidean" or weight < 0:
        raise CertificateError("only Euclidean distances, with a weight that is not negative, are read")
    if len(set(clients)) != len(clients) or sum(shares) != m * POINT:
        raise CertificateError("the point must name different clients, whose shares sum to the size")
    unit, places = _whole(problem.points.tolist())
    above, inner = [], 0
    near = [(places[j], share) for j, share in zip(clients, shares, strict=True) if share]
    shared = dict(zip(clients, shares, strict=True))
    for i, here in enumerate(places):
        reach = 0
        for there, share in near:
            square = sum((a - b) * (a - b) for a, b in zip(here, there, strict=True))
            reach += share * isqrt(square << (2 * _DIGITS))
        inner += shared.get(i, 0) * reach
        above.append(reach + m * POINT)  # each root is less than one more than what it was rounded to
    scale = 2 * weight * unit / (1 << _DIGITS) / POINT
    sides, prices = Sides(problem), arrays.get("price", np.zeros(0, dtype=np.int64))
    if prices.size not in (0, len(sides.limits)) or sides.is_contradictory:
        raise CertificateError("there is not one price for each row of the constraints, or they contradict each other")
    (paid, each), cell = sides.charge(prices if prices.size else np.zeros(len(sides.limits), int)), Fraction(2) ** grid
    values = (scale * reach - Fraction(c) for reach, c in zip(above, problem.costs.tolist(), strict=True))
    charged = [value - cell * int(charge) for value, charge in zip(values, each, strict=True)]
    ones = [value for value, state in zip(charged, sides.start, strict=True) if state == ONE]
    free = sorted((value for value, state in zip(charged, sides.start, strict=True) if state == FREE), reverse=True)
    if not 0 <= m - len(ones) <= len(free):
        raise CertificateError("include and exclude leave no selection")
    return sum(ones + free[: m - len(ones)], cell * paid) - scale / 2 * Fraction(inner, POINT)


def _whole(points: list[list[float]]) -> tuple[Fraction, list[list[int]]]:
    """A unit of which every coordinate is a whole number, and these numbers."""
    ratios = [[value.as_integer_ratio() for value in row] for row in points]
    below = max((d for row in ratios for _, d in row), default=1)
    return Fraction(1, below), [[number * (below // d) for number, d in row] for row in ratios]
