"""Points that many clients share: then they are kinds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kinds import KindDispersionProblem, equal_rows
from solvers.dispersion.kinds.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.run import Run

__all__ = ["by_kinds", "repeated"]

#: Different points that are worth counting, at most.
_MOST = 300

#: Clients of whom at least some must share a point, or nobody looks further.
_SAMPLE = 1_000


def repeated(problem: PointDispersionProblem) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """A client for each different point, and the number of its point for every client; ``None`` if few are shared.

    A sample that holds too many different points already answers for all.
    """
    n = problem.n
    rows = problem.points
    sample = equal_rows(rows[:: max(1, n // _SAMPLE)])[1]
    if int(sample.max()) + 1 > min(_MOST, sample.size // 2):
        return None
    first, kinds = equal_rows(rows)
    return (first, kinds) if first.size <= min(_MOST, n // 2) else None


def by_kinds(problem: PointDispersionProblem, run: Run, places: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    """Solve the problem as one of kinds; decisions are the same, and so are values up to rounding."""
    first, kinds = places
    same = KindDispersionProblem(
        problem.distances(first), kinds, problem.costs, problem.size, problem.weight, problem.clients
    )
    inner = _Same(same, run, problem.rounding + same.rounding)
    run.details["kinds"] = same.k
    try:
        branch_and_bound(same, inner)
    finally:
        run.nodes = inner.nodes


class _Same(Run):
    """A run on the same problem stated otherwise: decisions as they are, bounds with the rounding between the two."""

    def __init__(self, problem: KindDispersionProblem, whole: Run, rounding: float) -> None:
        super().__init__(problem, whole.method, None, whole.seed)
        self.rng, self.whole, self.rounding = whole.rng, whole, rounding
        if whole.x is not None:
            super().offer(whole.x)

    @property
    def remaining(self) -> float:
        """Seconds left to the whole run."""
        return self.whole.remaining

    def offer(self, x: NDArray[np.int64]) -> float:  # type: ignore[override]
        """As `Run.offer`, for the whole run as well."""
        value = super().offer(x)
        self.whole.offer(x)
        return value

    def tighten(self, bound: float) -> None:
        """As `Run.tighten`, for the whole run as well."""
        super().tighten(bound)
        self.whole.tighten(bound + self.rounding)
