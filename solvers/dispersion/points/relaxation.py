r"""The concave relaxation between points: a point of the slice, its gradient, tangent bounds and reduced costs.

With :math:`f(y) = w \, y^\top H y - c^\top y` concave on :math:`1^\top y = m` and :math:`g = 2 w H y - c`,

.. math:: f(x) \le g^\top x - w \, y^\top H y \quad \text{for every x with } 1^\top x = m,

whatever y is; the maximum over 0/1 vectors takes the m largest entries of g. A client whose entry lies so far on its
side of the m-th largest that changing it costs more than the distance to the incumbent is fixed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.sums import potentials
from solvers.run import Run

__all__ = ["FREE", "ONE", "ZERO", "Relaxation"]

FREE, ONE, ZERO = 0, 1, 2

_EPS = float(np.finfo(np.float64).eps)

#: Clients between whom weight is moved at a time; their distances are stored (18 MB).
_WORKING = 1_500

#: Moves of weight between two looks at the clock.
_STEPS = 2_000


class Relaxation:
    """A point of the slice that climbs, with a bound on what rounding has done to its gradient.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Whose clock counts; `OutOfTime` is raised when it has run out.
    x : (n,) ndarray
        A decision to start from.
    """

    def __init__(self, problem: PointDispersionProblem, run: Run, x: NDArray[np.int64]) -> None:
        self.problem, self.run = problem, run
        self.y = x.astype(np.float64)
        self.refresh()

    def refresh(self) -> None:
        """Compute the gradient afresh, free of what its updates have added up."""
        self.g = -self.problem.costs
        self.error = 0.0
        self._add(np.flatnonzero(self.y), self.y)

    def _add(self, places: NDArray[np.intp], amounts: NDArray[np.float64]) -> None:
        """Add the rows of some clients to the gradient, and what that may have cost to the error."""
        if places.size == 0:
            return
        problem = self.problem
        pair = 2 * problem.weight
        c, change = problem.coordinates, amounts[places]
        self.g = self.g + pair * potentials(c, np.ascontiguousarray(c[:, places]), change, self.run)
        reach = pair * float(np.abs(change).sum()) * problem.diameter
        self.error += reach * (problem.distance_error + (places.size + 4) * _EPS)
        self.error += 2 * _EPS * float(np.abs(self.g).max())

    def climb(self) -> float:
        """Move weight between the clients nearest to the threshold; return how much the tangent bound leaves open.

        That is the Frank-Wolfe gap, ``max gᵀx − gᵀy``: an upper bound on what more climbing can bring.
        """
        climb = load("points", self.run).climb
        problem = self.problem
        some = self.working()
        h = problem.distances(some)
        y, g = self.y[some], self.g[some]
        enough = 1e-10 * problem.scale / problem.size
        slope = math.inf
        for _ in range(20):
            known, slope = slope, climb(h, 2 * problem.weight, y, g, _STEPS, enough)
            if slope <= enough or slope > 0.9 * known or self.run.expired:
                break
        moved = self.y.copy()
        moved[some] = y
        self.move(moved)
        return self.gap()

    def move(self, y: NDArray[np.float64]) -> None:
        """Go to another point of the slice."""
        change = y - self.y
        self.y = y
        self._add(np.flatnonzero(change), change)

    def working(self, number: int = _WORKING) -> NDArray[np.intp]:
        """The clients with weight on the move: all fractional ones, and those that move first."""
        y, g = self.y, self.g
        ones, zeros = y >= 1.0, y <= 0.0
        threshold = self.threshold()
        side = np.where(ones, g - threshold, threshold - g)  # negative: on the wrong side
        side[~(ones | zeros)] = -math.inf
        number = min(side.size, max(number, int((side == -math.inf).sum()) + number // 3))
        return np.sort(np.argpartition(side, number - 1)[:number])

    def threshold(self) -> float:
        """The m-th largest entry of the gradient."""
        n, m = self.problem.n, self.problem.size
        return float(np.partition(self.g, n - m)[n - m])

    def value(self) -> float:
        """The objective at the point."""
        support = np.flatnonzero(self.y)
        return float((self.y[support] * (self.g[support] - self.problem.costs[support])).sum() / 2)

    def gap(self) -> float:
        """``max gᵀx − gᵀy`` over the slice."""
        n, m = self.problem.n, self.problem.size
        support = np.flatnonzero(self.y)
        top = np.partition(self.g, n - m)[n - m :]
        return float(top.sum() - (self.y[support] * self.g[support]).sum())

    def bound(self) -> float:
        """The tangent's bound on the objective of every decision, rounding included."""
        problem = self.problem
        n, m = problem.n, problem.size
        support = np.flatnonzero(self.y)
        inner = (self.y[support] * (self.g[support] + problem.costs[support])).sum() / 2
        top = np.partition(self.g, n - m)[n - m :].sum()
        return float(top - inner) + self.margin

    @property
    def margin(self) -> float:
        """What rounding can have taken from `bound`: entries of g are off by ``error``, and sums by some eps."""
        largest = float(np.abs(self.g).max()) + float(np.abs(self.problem.costs).max())
        return self.problem.size * (2 * self.error + 128 * _EPS * largest)

    def fixed(self, value: float) -> NDArray[np.int8]:
        """Who is in (ONE) or out (ZERO) of every decision worth more than ``value``, by reduced costs."""
        n, m = self.problem.n, self.problem.size
        state = np.zeros(n, dtype=np.int8)
        if m == n:
            state[:] = ONE
            return state
        order = np.argpartition(self.g, n - m)
        inside, outside = order[n - m :], order[: n - m]
        least, most = float(self.g[inside].min()), float(self.g[outside].max())
        slack = self.bound() + 2 * self.error + 4 * _EPS * float(np.abs(self.g).max()) - value
        state[inside[self.g[inside] - most > slack]] = ONE
        state[outside[least - self.g[outside] > slack]] = ZERO
        return state
