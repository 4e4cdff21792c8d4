"""Exchanges of one client for another that are never a loss: in exact arithmetic, each looked at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import CertificateError

__all__ = ["Exchanges"]


class Exchanges:
    """Which exchanges the best selection, the first in ``order`` among its equals, leaves nothing to gain by.

    An exchange that may gain nothing counts only where ``order`` puts the one who comes before the one who goes: so
    exchanges come to an end.
    """

    def __init__(self, problem: Any, order: NDArray[np.int64]) -> None:
        self.problem, self.order = problem, order
        if sorted(order.tolist()) != list(range(problem.costs.size)):
            raise CertificateError("the order of the clients does not name each of them once")
        self.known: dict[tuple[int, int], bool] = {}
        self.rows: dict[int, list[int]] = {}
        self.grain = Fraction(1, max(value.as_integer_ratio()[1] for value in np.unique(problem.distances).tolist()))

    def require(self, i: int, j: int, ones: list[int], free: list[int]) -> None:
        """Exchanging j for i beside ``ones`` and any others of ``free`` is never a loss, or CertificateError."""
        if (i, j) not in self.known:  # most are no loss beside any company at all
            self.known[i, j] = self._no_loss(i, j, [], list(range(self.problem.costs.size)))
        if not self.known[i, j] and not self._no_loss(i, j, ones, free):
            raise CertificateError(f"exchanging client {j} for {i} can be a loss, or go on without end")

    def _no_loss(self, i: int, j: int, ones: list[int], free: list[int]) -> bool:
        first, second = self._row(i), self._row(j)
        gains = [a - b for a, b in zip(first, second, strict=True)]
        company = max(int(self.problem.size) - 1 - len(ones), 0)
        others = sorted(gains[k] for k in free if k not in (i, j))[:company]
        worth = Fraction(sum(gains[k] for k in ones) + sum(others)) * self.grain
        least = 2 * Fraction(float(self.problem.weight)) * worth
        least -= Fraction(float(self.problem.costs[i])) - Fraction(float(self.problem.costs[j]))
        return bool(least > 0 or (least == 0 and self.order[i] < self.order[j]))

    def _row(self, i: int) -> list[int]:
        """The distances of a client in units of ``grain``, of which every distance is a whole number."""
        if i not in self.rows:
            ratios = [value.as_integer_ratio() for value in self.problem.distances[i].tolist()]
            self.rows[i] = [number * (self.grain.denominator // below) for number, below in ratios]
        return self.rows[i]
