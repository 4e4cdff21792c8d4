"""Problems with a matrix or between points stated as one between kinds: the same decisions, the same values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from solvers.dispersion.kinds.equal import equal_rows, kinds_of
from solvers.dispersion.problem import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.problem import Problem
from solvers.run import Run

__all__ = [
    "FEW",
    "Restated",
    "alike",
    "repeated",
]

#: Different points that are worth counting, at most.
_MOST_KINDS = 300

#: Clients of whom at least some must share a point, or nobody looks further.
_SAMPLE = 1_000


def repeated(problem: PointDispersionProblem) -> KindDispersionProblem | None:
    """The same problem between kinds, clients at one point being of one kind; ``None`` if few points are shared.

    A sample that holds too many different points already answers for all.
    """
    n = problem.n
    rows = problem.points
    sample = equal_rows(rows[:: max(1, n // _SAMPLE)])[1]
    if int(sample.max()) + 1 > min(_MOST_KINDS, sample.size // 2):
        return None
    first, kinds = equal_rows(rows)
    if first.size > min(_MOST_KINDS, n // 2):
        return None
    return KindDispersionProblem(
        problem.geometry.distances(first),
        kinds,
        problem.costs,
        size=problem.size,
        weight=problem.weight,
        clients=problem.clients,
    )


#: Clients to a kind, on average, from which on counting beats telling them apart.
_SHARE = 3

#: With fewer clients than this the tree over clients has proved it before.
FEW = 150


def alike(problem: DispersionProblem) -> KindDispersionProblem | None:
    """The same problem between kinds, where a matrix's clients come in few; ``None`` where they do not."""
    n = problem.n
    if n < FEW:
        return None
    # Clients of one kind have equal sums but for rounding: few sums, or there is nothing to find.
    sums = np.sort(problem.distances.sum(axis=1, dtype=np.float64))
    if 1 + int((np.diff(sums) > 1e-9 * max(sums[-1], 1e-300)).sum()) > n // _SHARE:
        return None
    found = kinds_of(problem.distances)
    if found is None or len(found[0]) > n // _SHARE:
        return None
    return KindDispersionProblem(
        *found, problem.costs, size=problem.size, weight=problem.weight, clients=problem.clients
    )


class Restated(Run):
    """A run on the same problem stated otherwise: decisions as they are, bounds with the rounding between the two."""

    def __init__(self, problem: Problem, whole: Run, rounding: float, share: float = 1.0) -> None:
        super().__init__(problem, whole.method, None, whole.seed)
        self.rng, self.whole, self.rounding = whole.rng, whole, rounding
        left = whole.remaining
        self.spare = (1.0 - share) * left if math.isfinite(left) else 0.0
        if whole.x is not None:
            super().offer(whole.x)

    @property
    def remaining(self) -> float:
        """Seconds left to the whole run, less what it keeps; none when it is proved."""
        return 0.0 if self.whole.proved else max(0.0, self.whole.remaining - self.spare)

    def offer(self, x: ArrayLike) -> float:
        """As `Run.offer`, for the whole run as well."""
        value = super().offer(x)
        self.whole.offer(x)
        return value

    def tighten(self, bound: float) -> None:
        """As `Run.tighten`, for the whole run as well."""
        super().tighten(bound)
        self.whole.tighten(bound + self.rounding)
