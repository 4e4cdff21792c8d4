"""Method ``sorting``: exact when all clients are equally important."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.exclusion.problem import ExclusionProblem

__all__ = ["sorting"]


@method(ExclusionProblem, "sorting", kind="exact")
def sorting(problem: ExclusionProblem, run: Run) -> None:
    """Keep the k smallest loss gaps, for the best k; exact for equal importance, in O(n log n).

    For equal α the bias depends on the *number* of kept clients alone, so that for each number the clients with the
    smallest loss gaps are best: n candidates, evaluated by prefix sums.

    Raises
    ------
    InvalidProblem
        When the importance is not the same for every client.
    """
    low, high = float(problem.importance.min()), float(problem.importance.max())
    if low != high:
        raise InvalidProblem(
            f"sorting is exact only when every client has the same importance; here it ranges from {low:.9g} to "
            f"{high:.9g} (use 'cp-sat' or 'auto')"
        )
    order, values = prefixes(problem)
    size = int(values.argmin()) + 1
    run.offer(keep(order[:size], problem.n))
    # Every candidate was evaluated to within the rounding of its sums.
    run.tighten(float(values[size - 1]) - problem.rounding)


def prefixes(problem: ExclusionProblem) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The clients by ascending loss gap, and the estimate of keeping the first 1, 2, …, n of them."""
    order = np.argsort(problem.loss_gaps, kind="stable")
    importance = problem.importance[order]
    mass = np.cumsum(importance)
    excluded = np.maximum(1.0 - mass, 0.0)
    values = np.cumsum(importance * problem.loss_gaps[order]) / mass + excluded * excluded * problem.gamma
    return order, values


def keep(clients: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    """The decision that keeps these clients."""
    x = np.zeros(n, dtype=np.bool_)
    x[clients] = True
    return x
