"""Problems between points that need no search: one client, all of them, or nothing to choose by."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.run import Run

__all__ = ["marginal"]


def marginal(problem: PointDispersionProblem, run: Run) -> bool:
    """Solve the problem if pairs do not matter: m = 1, m = n, weight 0, or all points equal; False if they do."""
    n, m = problem.n, problem.size
    if m not in (1, n) and problem.weight * problem.farthest > 0:
        return False
    x = np.zeros(n, dtype=np.int64)
    x[np.argsort(problem.costs, kind="stable")[:m]] = 1
    run.tighten(run.offer(x))  # no rounding: costs are summed exactly, and no pair differs
    return True
