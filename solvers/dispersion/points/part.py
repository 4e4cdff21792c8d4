"""A few clients of many as a problem of their own, the others held where they are, and the run that solves it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.relaxation import Relaxation
from solvers.dispersion.points.sums import potentials
from solvers.dispersion.problem import DispersionProblem
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Part", "Rest"]

_EPS = float(np.finfo(np.float64).eps)

#: Decisions of up to this many clients are evaluated as they are found, those of more at the end.
QUICK = 3_000


class Rest:
    """The clients at ``places``, beside those of the others that a point of the slice has at 1.

    The point must have no fractions elsewhere. Its gradient gives everything: no distance to the others is computed.

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

    def __init__(self, relaxation: Relaxation, places: NDArray[np.intp]) -> None:
        problem = self.problem = relaxation.problem
        self.places = places
        held = relaxation.y >= 1.0
        held[places] = False
        self.ones = np.flatnonzero(held)
        self.size = problem.size - self.ones.size
        c, w = np.ascontiguousarray(problem.coordinates[:, places]), problem.weight
        y, g = relaxation.y[places], relaxation.g[places]
        support = np.flatnonzero(y)
        towards = w * potentials(c, np.ascontiguousarray(c[:, support]), y[support], relaxation.run)
        self.costs = 2 * towards - g
        self.constant = relaxation.value() - float((y[support] * (towards - self.costs)[support]).sum())
        largest = float(np.abs(relaxation.g).max() + np.abs(problem.costs).max())
        entry = relaxation.error + 8 * _EPS * largest
        entry += 2 * w * self.size * problem.diameter * (problem.distance_error + (support.size + 4) * _EPS)
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

    def dense(self) -> DispersionProblem:
        """The part with its matrix of distances."""
        return DispersionProblem(
            self.problem.distances(self.places), self.costs, size=self.size, weight=self.problem.weight
        )

    def whole(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """A decision of the part as one of the whole problem."""
        full = np.zeros(self.problem.n, dtype=np.int64)
        full[self.ones] = 1
        full[self.places[x == 1]] = 1
        return full


class Part(Run):
    """A run on a part of a problem, which ends when the whole is proved.

    Parameters
    ----------
    problem : PointDispersionProblem or DispersionProblem
        The part as a problem.
    whole : Run
        The run on the whole problem: its clock counts, and it receives decisions and bounds.
    rest : Rest
        How the two are related.
    beside : float, optional
        No decision that has the other clients elsewhere is worth more: the value by which they were fixed. Without
        it a bound on the part says nothing about the whole.
    """

    def __init__(
        self,
        problem: DispersionProblem | PointDispersionProblem,
        whole: Run,
        rest: Rest,
        beside: float | None = None,
    ) -> None:
        super().__init__(problem, whole.method, None, whole.seed)
        self.rng = whole.rng
        self.whole, self.rest, self.beside = whole, rest, beside
        self.slack = rest.error + rest.problem.rounding

    @property
    def remaining(self) -> float:
        """Seconds left to the whole run; none when the whole is proved."""
        return 0.0 if self.enough else self.whole.remaining

    @property
    def enough(self) -> bool:
        """Whether bound and objective prove the whole problem."""
        if self.objective is None or self.bound is None or self.beside is None:
            return False
        value = self.objective + self.rest.constant
        if self.whole.objective is not None:
            value = max(value, self.whole.objective)
        bound = max(self.bound + self.rest.constant + self.slack, self.beside)
        return bound - value <= self.rest.problem.tolerance_at(value, 0.9 * OPTIMALITY_GAP)

    def offer(self, x: ArrayLike) -> float:
        """As `Run.offer`; what is better goes to the whole run at once where that is cheap."""
        known = self.objective
        value = super().offer(x)
        if self.rest.problem.size <= QUICK and (known is None or value > known):
            self.hand_over()
        return value

    def hand_over(self) -> None:
        """Offer the best decision to the whole run, if it is better there too."""
        if self.x is None or self.objective is None:
            return
        known = self.whole.objective
        if known is None or self.objective + self.rest.constant > known - self.slack:
            self.whole.offer(self.rest.whole(self.x))

    def tighten(self, bound: float) -> None:
        """As `Run.tighten`, for the whole run as well."""
        super().tighten(bound)
        if self.beside is not None and self.bound is not None and math.isfinite(self.bound):
            self.whole.tighten(max(self.bound + self.rest.constant + self.slack, self.beside))
