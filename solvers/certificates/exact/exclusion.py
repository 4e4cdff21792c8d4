r"""Bounds of CA-Fed's exclusion problem, in fractions: what a branch and a leaf of a certificate's tree say.

No set is worth less than ρ exactly when :math:`\sum_S \alpha_k (e_k - \rho) + \Gamma' a (T - a)^2 \ge 0` for every
set S, of importance :math:`a = \alpha(S)`, T being that of all. Of clients that are equally important those of least
loss gap are kept first, so that a set is a number of clients of each group of equal importance. A certificate is a tree
over these numbers and over a. A leaf has a slope s: with t the least of :math:`\Gamma' a (T - a)^2 - s a` over the
leaf's a, the sum is at least :math:`t + \sum_S \alpha_k (e_k - \rho + s)`, which falls apart into clients.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate
from math import isqrt
from typing import Any

from solvers.errors import CertificateError

#: Codes in ``tree``: a leaf, with its slope; a branch on the importance kept. A number from 0 up is a group.
LEAF, IMPORTANCE = -1, -2

#: What is left to choose: the least and largest number kept of each group, the least and largest importance kept.
Box = tuple[tuple[int, ...], tuple[int, ...], Fraction, Fraction]


class Groups:
    """The clients by importance, ascending, and in each group by loss gap; all in fractions."""

    def __init__(self, problem: Any) -> None:
        gaps: dict[Fraction, list[Fraction]] = {}
        for a, e in zip(problem.importance.tolist(), problem.loss_gaps.tolist(), strict=True):
            gaps.setdefault(Fraction(a), []).append(Fraction(e))
        self.weights = sorted(gaps)
        self.gaps = [sorted(gaps[a]) for a in self.weights]
        self.sums = [[Fraction(0), *accumulate(each)] for each in self.gaps]
        self.total = sum((a * len(each) for a, each in zip(self.weights, self.gaps, strict=True)), Fraction(0))
        self.gamma = Fraction(float(problem.heterogeneity))
        if self.gamma < 0 or min(self.weights) <= 0:
            raise CertificateError("importance must be positive, and heterogeneity not negative")

    def everything(self) -> Box:
        """Any set at all."""
        return (0,) * len(self.weights), tuple(map(len, self.gaps)), Fraction(0), self.total

    def branches(self, box: Box, code: int, at: Fraction | int) -> tuple[Box, Box]:
        """The two sides of a branch: at most ``at`` of a group (or of the importance), then more (at least as much)."""
        low, high, least, most = box
        if code == IMPORTANCE:
            return (low, high, least, min(most, Fraction(at))), (low, high, max(least, Fraction(at)), most)
        fewer, more = list(high), list(low)
        fewer[code], more[code] = min(high[code], int(at)), max(low[code], int(at) + 1)
        return (low, tuple(fewer), least, most), (tuple(more), high, least, most)

    def leaf(self, box: Box, rho: Fraction, slope: Fraction) -> Fraction | None:
        """A lower bound of the sum over the sets in a box; None where there are none."""
        low, high, least, most = box
        least = max(least, sum((a * k for a, k in zip(self.weights, low, strict=True)), Fraction(0)))
        most = min(most, sum((a * k for a, k in zip(self.weights, high, strict=True)), Fraction(0)))
        if least > most or any(k > j for k, j in zip(low, high, strict=True)):
            return None
        bound = self.intercept(slope, least, most)
        price = rho - slope
        for a, each, sums, k, j in zip(self.weights, self.gaps, self.sums, low, high, strict=True):
            kept = min(max(bisect_left(each, price), k), j)
            bound += a * (sums[kept] - price * kept)
        return bound

    def intercept(self, slope: Fraction, least: Fraction, most: Fraction) -> Fraction:
        """A lower bound of the cubic less ``slope`` times a between two values of a, neither of them negative."""

        def value(a: Fraction) -> Fraction:
            return self.gamma * a * (self.total - a) ** 2 - slope * a

        found, bend = min(value(least), value(most)), 2 * self.total / 3
        if most <= bend or self.gamma == 0:
            return found  # concave: smallest at an end
        # Convex from the bend on, where any tangent lies below; it is taken at some forty bits of the lowest point.
        left = max(least, bend)
        inside = self.total**2 + 3 * slope / self.gamma
        root = Fraction(isqrt(max(int(inside * (1 << 80)), 0)), 1 << 40)
        touch = min(max((2 * self.total + root) / 3, left), most)
        tilt = self.gamma * (self.total - touch) * (self.total - 3 * touch) - slope
        return min(found, value(left), value(touch) + min(tilt * (left - touch), tilt * (most - touch)))
