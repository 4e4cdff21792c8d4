"""Tangent bounds in whole numbers: the problem rounded to a grid, multipliers on it, concavity seen exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import CertificateError

__all__ = ["FORM", "POINT", "Form", "Rounded", "part_of"]

#: A point's coordinates are multiples of this.
POINT = 1 << 20

#: Largest integer a rounded number of the problem or of the multipliers may have.
LARGEST = 1 << 40

#: Arrays of a form; those of all forms stand one after the other.
FORM = ("ones", "ids", "diagonal", "nonnegative", "dominated")

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Rounded:
    """The problem in units of 2^grid: ``sᵀ pair s − costᵀs``, and by how much a selection's value can be off."""

    pair: Integers
    cost: Integers
    size: int
    unit: Fraction
    error: Fraction

    @classmethod
    def of(cls, problem: Any, grid: int) -> Rounded:
        """Round ``problem``; refuse a grid so fine that sums would leave 64 bits."""
        unit = Fraction(2) ** grid
        m, h = int(problem.size), np.asarray(problem.distances, dtype=np.float64)
        c = np.asarray(problem.costs, dtype=np.float64)
        largest = Fraction(float(problem.weight)) * Fraction(float(h.max())) / unit
        if max(largest, Fraction(float(np.abs(c).max())) / unit) >= min(LARGEST, (1 << 61) // (m * m)) or grid < -900:
            raise CertificateError(f"the grid 2^{grid} is too fine for the problem's numbers")
        # weight · h is rounded once by the multiplication and once to the grid; scaling by a power of two is exact.
        products, scaled = np.ldexp(float(problem.weight) * h, -grid), np.ldexp(c, -grid)
        pair, cost = np.rint(products).astype(np.int64), np.rint(scaled).astype(np.int64)
        exact = math.frexp(float(problem.weight))[0] in (0.0, 0.5) and np.array_equal(pair, products)
        error = Fraction(0) if exact else m * (m - 1) * (Fraction(1, 2) + largest / (1 << 52))
        error += Fraction(0) if np.array_equal(cost, scaled) else Fraction(m, 2)
        return cls(pair, cost, m, unit, error * unit)

    def value(self, chosen: list[int]) -> int:
        """The value of a selection of the rounded problem."""
        return int(self.pair[np.ix_(chosen, chosen)].sum()) - int(self.cost[chosen].sum())


class Form:
    """One set of multipliers where ``ones`` are chosen and ``ids`` open, made concave there, and its tangents.

    The diagonal is raised by what that takes, or by ``room``, which must be as much.
    """

    def __init__(self, data: Rounded, part: Mapping[str, Integers], room: int | None = None) -> None:
        ones, ids = part["ones"], part["ids"]
        n = data.cost.size
        if np.unique(np.concatenate([ones, ids])).size != ones.size + ids.size or _outside(np.append(ones, ids), n):
            raise CertificateError("a form names a client twice, or one that does not exist")
        self.ones, self.ids = ones, ids
        self.open = data.size - ones.size
        self.place = np.full(n, -1)
        self.place[ids] = np.arange(ids.size)
        self.constant = data.value(ones.tolist())
        matrix = data.pair[np.ix_(ids, ids)].copy()
        self.linear = -data.cost[ids] + 2 * data.pair[np.ix_(ids, ones)].sum(axis=1)
        diagonal = part["diagonal"].astype(np.int64)
        raised, dominated = (part[k].reshape(-1, 3) for k in ("nonnegative", "dominated"))
        for triples in (raised, dominated):
            if _outside(triples[:, :2], ids.size) or (triples[:, 0] == triples[:, 1]).any():
                raise CertificateError("a multiplier's pair is not one of two different open clients of its form")
        if diagonal.shape != ids.shape or max(_most(diagonal), _most(raised), _most(dominated)) >= LARGEST:
            raise CertificateError("multipliers are missing, or too large for the grid")
        if (raised[:, 2] < 0).any():
            raise CertificateError("a multiplier of a product, which may only raise the objective, is negative")
        for triples, sign in ((raised, 1), (dominated, -1)):  # half of the product's multiplier on either side
            np.add.at(matrix, (triples[:, 0], triples[:, 1]), sign * triples[:, 2])
            np.add.at(matrix, (triples[:, 1], triples[:, 0]), sign * triples[:, 2])
        np.add.at(self.linear, dominated[:, 1], 2 * dominated[:, 2])
        self.dominated = [(int(ids[i]), int(ids[j])) for i, j, _ in dominated]
        self.raised = raised
        least = excess(matrix, diagonal)
        if room is not None and room < least:
            raise CertificateError("the multipliers do not make the objective concave")
        self.room = least if room is None else room
        diagonal = diagonal + self.room
        if _most(diagonal) >= 1 << 44:
            raise CertificateError("the multipliers do not make the objective concave")
        self.matrix = matrix
        self.matrix[np.arange(ids.size), np.arange(ids.size)] -= diagonal
        self.linear = self.linear + diagonal

    def tangent(self, point: Integers) -> tuple[list[int], int]:
        """The gradient at ``point / POINT`` (in units of 1 / POINT) and ``yᵀMy`` (in units of 1 / POINT²)."""
        if point.shape != self.ids.shape or (point < 0).any() or (point > POINT).any():
            raise CertificateError("a point has coordinates outside [0, 1], or not one for every open client")
        if int(point.sum()) != self.open * POINT:
            raise CertificateError("a point does not lie on the slice: its coordinates have the wrong sum")
        high, low = self.matrix >> 21, self.matrix & ((1 << 21) - 1)
        if _most(high) * self.open * POINT >= 1 << 53:  # below it these sums are exact, in any order
            raise CertificateError("the multipliers are too large for the grid")
        y = point.astype(np.float64)
        towards = (high @ y).astype(np.int64).astype(object) * (1 << 21) + (low @ y).astype(np.int64).astype(object)
        gradient = [int(a) * POINT + 2 * b for a, b in zip(self.linear, towards, strict=True)]
        return gradient, sum(int(a) * b for a, b in zip(point, towards, strict=True))


def excess(matrix: Integers, diagonal: Integers) -> int:
    """A whole number e for which ``matrix − Diag(diagonal + e)`` is negative semidefinite where ``1ᵀz = 0``.

    There ``u1ᵀ + 1uᵀ + t11ᵀ`` vanishes. A = that − matrix + Diag is compared with LLᵀ of its Cholesky factor: its
    smallest eigenvalue is at least minus the largest row sum of |A − LLᵀ|. Of that, what rounding in doubles can hide
    is added: a sum of n products is off by at most n 2⁻⁵³ / (1 − n 2⁻⁵³) of their absolute values, in whatever order
    (Higham, Accuracy and Stability of Numerical Algorithms, 3.5); those of LLᵀ are at most |Lᵢ| |Lⱼ|, and twice that
    also covers the rounding of this allowance.
    """
    n = len(diagonal)
    if n < 2:
        return 0
    means = (matrix.sum(axis=1) - diagonal) / n
    u = np.rint(means - means.mean() / 2).astype(np.int64)
    t = max(_most(matrix), _most(diagonal)) // n
    a = u[:, None] + u + t - matrix
    index = np.arange(n)
    a[index, index] += diagonal
    added = 0
    for attempt in range(60):
        if _most(a) + added >= 1 << 52:  # up to here doubles are exact
            break
        shifted = a.astype(np.float64)
        shifted[index, index] += added
        try:
            factor = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            least = 0.0 if attempt else float(np.linalg.eigvalsh(shifted)[0])
            added = max(2 * added + 1, math.ceil(-least))
            continue
        lengths = np.sqrt((factor * factor).sum(axis=1))
        hidden = (n + 8) * 2.0**-52 * lengths * lengths.sum()
        row = float((np.abs(shifted - factor @ factor.T).sum(axis=1) + hidden).max())
        if not row < 1 << 44:
            break
        return added + math.ceil(1.0001 * row)
    raise CertificateError("the multipliers do not make the objective concave")


def part_of(arrays: Mapping[str, Any], name: str, index: int) -> Integers:
    """Part ``index`` of the arrays that are kept one after the other: those of a form, or the points."""
    start, end = (int(arrays[f"{name}_start"][k]) for k in (index, index + 1))
    return arrays[name][max(start, 0) : max(end, 0)].astype(np.int64)


def _outside(values: Integers, n: int) -> bool:
    return bool(values.size and (values.min() < 0 or values.max() >= n))


def _most(values: Integers) -> int:
    return int(np.abs(values).max(initial=0))
