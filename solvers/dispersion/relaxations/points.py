r"""The concave relaxation between points: a point of the slice, its gradient, tangent bounds and reduced costs.

See docs/mathematics/dispersion.md, *Concave where it counts*; docs/mathematics/dispersion_relaxations.md has symbols
and names.

With :math:`f(y) = w \, y^\top H y - c^\top y` concave on :math:`1^\top y = m` and :math:`g = 2 w H y - c`,

.. math:: f(x) \le g^\top x - w \, y^\top H y \quad \text{for every x with } 1^\top x = m,

whatever y is; the maximum over 0/1 vectors takes the m largest entries of g. A client whose entry lies so far on its
side of the m-th largest that changing it costs more than the distance to the incumbent is fixed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.constraints import Constraints
from solvers.dispersion.geometry import potentials
from solvers.dispersion.kernels import load
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem, PointDispersionProblem, SelectionProblem
from solvers.dispersion.subproblem import SubproblemRun
from solvers.feasible_set import FREE, ONE, ZERO
from solvers.run import Run

_EPS = float(np.finfo(np.float64).eps)

#: Weights are multiples of this, so that their sum stays exactly m.
GRAIN = 2.0**-30


class PointRelaxation:
    """A point of the slice that climbs, with a bound on what rounding has done to its gradient.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Whose clock counts; `OutOfTime` may be raised when it has run out.
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
        self.run.spend(places.size * problem.n)
        change = amounts[places]
        self.g = self.g + pair * problem.geometry.potentials(places, change, self.run)
        reach = pair * float(np.abs(change).sum()) * problem.diameter
        self.error += reach * (problem.geometry.distance_error + (places.size + 4) * _EPS)
        self.error += 2 * _EPS * float(np.abs(self.g).max())

    def climb(self) -> float:
        """Move weight between the clients nearest to the threshold; return how much the tangent bound leaves open.

        That is the Frank-Wolfe gap, ``max gᵀx − gᵀy``: an upper bound on what more climbing can bring.
        """
        climb = load("ascent", self.run).climb
        problem = self.problem
        some = self.working(problem.geometry.at_once)
        h = problem.geometry.distances(some)
        y, g = self.y[some][None], self.g[some][None]
        enough = 1e-10 * problem.scale / problem.size
        slope = math.inf
        for _ in range(20):
            self.run.spend(2 * DEFAULT_POLICY.climb_slice * some.size)
            known, slope = slope, climb(h, problem.weight, 0.0, y, g, DEFAULT_POLICY.climb_slice, enough, GRAIN)
            if slope <= enough or slope > 0.9 * known or self.run.expired:
                break
        moved = self.y.copy()
        moved[some] = y[0]
        self.move(moved)
        return self.gap()

    def move(self, y: NDArray[np.float64]) -> None:
        """Go to another point of the slice."""
        change = y - self.y
        self.y = y
        self._add(np.flatnonzero(change), change)

    def take(self, other: PointRelaxation, shift: NDArray[np.float64]) -> None:
        """Go to the point of a relaxation of the same distances, whose costs are higher by ``shift``."""
        self.y, self.g = other.y, other.g + shift
        sizes = np.abs(other.g).max() + np.abs(shift).max() + np.abs(self.g).max()
        self.error = other.error + _EPS * float(sizes)

    def working(self, number: int) -> NDArray[np.intp]:
        """The clients between which `climb` moves weight: all fractional ones, and those that move first."""
        y, g = self.y, self.g
        ones, zeros = y >= 1.0, y <= 0.0
        threshold = self.threshold()
        side = np.where(ones, g - threshold, threshold - g)  # negative: on the wrong side
        side[~(ones | zeros)] = -math.inf
        number = min(side.size, max(number, int((side == -math.inf).sum()) + number // 3))
        return np.sort(np.argpartition(side, number - 1)[:number])

    def threshold(self) -> float:
        """The least entry of the gradient that its maximiser takes: without side constraints the m-th largest."""
        return self.problem.feasible.threshold(self.g)

    def value(self) -> float:
        """The objective at the point."""
        support = np.flatnonzero(self.y)
        return float((self.y[support] * (self.g[support] - self.problem.costs[support])).sum() / 2)

    def gap(self) -> float:
        """``max gᵀx − gᵀy`` over the feasible set."""
        support = np.flatnonzero(self.y)
        return self.problem.feasible.support(self.g) - float((self.y[support] * self.g[support]).sum())

    def bound(self, support: float | None = None) -> float:
        """The tangent's bound on the objective of every decision, with rounding; ``support`` is max gᵀx if known."""
        problem = self.problem
        support = problem.feasible.support(self.g) if support is None else support
        there = np.flatnonzero(self.y)
        inner = (self.y[there] * (self.g[there] + problem.costs[there])).sum() / 2
        return support - float(inner) + self.margin

    @property
    def margin(self) -> float:
        """Bound what rounding can have taken from `bound`: entries of g are off by ``error``, and sums by some eps."""
        largest = float(np.abs(self.g).max()) + float(np.abs(self.problem.costs).max())
        return self.problem.size * (2 * self.error + 128 * _EPS * largest)

    def fixed(self, value: float) -> NDArray[np.int8]:
        """Who is in (ONE) or out (ZERO) of every decision worth more than ``value``, by reduced costs."""
        slack = self.bound() + 2 * self.error + 4 * _EPS * float(np.abs(self.g).max()) - value
        return self.problem.feasible.fixed(self.g, slack)

    def open_places(self, value: float) -> NDArray[np.intp]:
        """Return the clients that `fixed` does not fix where the point has them."""
        state, y = self.fixed(value), self.y
        agree = ((state == ONE) & (y >= 1.0)) | ((state == ZERO) & (y <= 0.0))
        return np.flatnonzero(~agree | (state == FREE))


class ReducedProblem:
    """The clients at ``places``, beside those of the others that a point of the slice has at 1.

    The point must have no fractions elsewhere.

    Attributes
    ----------
    places, ones : ndarray of int
        The clients of the part, and those that are held in; places in the whole problem.
    costs : ndarray of float
        Costs of the clients of the part, less what they gain beside ``ones``.
    size : int
        How many of them to choose.
    constant : float
        What ``ones`` are worth among themselves.
    error : float
        How far the value of a decision of the part, plus ``constant``, can be from its value in the whole.
    """

    def __init__(self, relaxation: PointRelaxation, places: NDArray[np.intp]) -> None:
        problem = self.problem = relaxation.problem
        self.places = places
        held = relaxation.y >= 1.0
        held[places] = False
        self.ones = np.flatnonzero(held)
        self.size = problem.size - self.ones.size
        c, w = np.ascontiguousarray(problem.geometry.coordinates[:, places]), problem.weight
        y, g = relaxation.y[places], relaxation.g[places]
        support = np.flatnonzero(y)
        towards = w * potentials(c, np.ascontiguousarray(c[:, support]), y[support], relaxation.run)
        self.costs = 2 * towards - g
        self.constant = relaxation.value() - float((y[support] * (towards - self.costs)[support]).sum())
        largest = float(np.abs(relaxation.g).max() + np.abs(problem.costs).max())
        entry = relaxation.error + 8 * _EPS * largest
        entry += 2 * w * self.size * problem.diameter * (problem.geometry.distance_error + (support.size + 4) * _EPS)
        self.error = 2 * problem.size * entry + 128 * _EPS * problem.size * largest

    def start(self, y: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.int64]:
        """The decision nearest to a point of the slice; ties go to the larger gradient."""
        order = np.lexsort((-gradient[self.places], -y[self.places]))
        x = np.zeros(self.places.size, dtype=np.int64)
        x[order[: self.size]] = 1
        return x

    def points(self) -> PointDispersionProblem:
        """The part as points."""
        p = self.problem
        return PointDispersionProblem(
            p.points[self.places], self.costs, size=self.size, weight=p.weight, metric=p.metric
        )

    def dense(self, **constraints: Any) -> DispersionProblem:
        """The part with its matrix of distances, under side constraints of its own."""
        distances = self.problem.geometry.distances(self.places)
        return DispersionProblem(distances, self.costs, size=self.size, weight=self.problem.weight, **constraints)

    def run(self, problem: SelectionProblem, whole: Run, outside: float | None = None) -> SubproblemRun:
        """Return a run on the part, as points or with its matrix; see `SubproblemRun` for ``outside``."""

        def map_back(x: NDArray[np.int64]) -> NDArray[np.int64]:
            found = self.whole(x)
            if (
                self.problem.is_constrained and self.problem.violation(found) > 0
            ):  # the part's limits are rounded outwards
                assert whole.x is not None
                return whole.x
            return found

        slack = self.error + self.problem.rounding
        return SubproblemRun(problem, whole, slack, map_back=map_back, constant=self.constant, outside=outside)

    def constraints(self) -> Constraints:
        """Return what the clients that are held in leave of the side constraints."""
        states = np.full(self.problem.n, ZERO, dtype=np.int8)
        states[self.ones], states[self.places] = ONE, FREE
        return self.problem.constraints.restricted(states)[1]

    def whole(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """A decision of the part as one of the whole problem."""
        full = np.zeros(self.problem.n, dtype=np.int64)
        full[self.ones] = 1
        full[self.places[x == 1]] = 1
        return full
