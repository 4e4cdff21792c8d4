"""Other statements of a dispersion problem solved as one between kinds: the same decisions, the same values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from solvers.dispersion.kinds.equal import kinds_of
from solvers.dispersion.kinds.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.problem import DispersionProblem
from solvers.problem import Problem
from solvers.run import Run

__all__ = ["FEW", "Restated", "alike", "solve_by_kinds"]

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


def solve_by_kinds(same: KindDispersionProblem, run: Run, rounding: float, share: float = 1.0) -> None:
    """Solve what ``run`` is for by its statement between kinds.

    Parameters
    ----------
    same : KindDispersionProblem
        The same problem; clients are in the same places.
    run : Run
        The run to serve.
    rounding : float
        How far objectives of the two statements can differ.
    share : float
        Part of the remaining time to use; where there is no limit, any less than 1 allows some thousand nodes.
    """
    inner = Restated(same, run, rounding, share)
    run.details["kinds"] = same.k
    try:
        branch_and_bound(same, inner, nodes=None if share == 1.0 else 5_000)
    finally:
        run.nodes = inner.nodes


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
