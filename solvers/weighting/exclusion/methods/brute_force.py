"""Method ``brute-force``: look at every set of kept clients."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.exclusion.methods.convex import relax
from solvers.weighting.exclusion.problem import ExclusionProblem

__all__ = ["LARGEST", "brute_force"]

#: Clients that brute force is willing to enumerate the subsets of: 2.7e8 subsets.
LARGEST = 28

_LOW = 16


@method(ExclusionProblem, "brute-force", kind="exact")
def brute_force(problem: ExclusionProblem, run: Run) -> None:
    """Evaluate all 2ⁿ − 1 non-empty sets; the reference that other methods are tested against.

    Raises
    ------
    InvalidProblem
        When there are more than 28 clients.
    """
    n = problem.n
    if n > LARGEST:
        raise InvalidProblem(
            f"brute-force would look at all subsets of {n} clients; it accepts at most {LARGEST} clients "
            "(use 'cp-sat' or 'auto')"
        )
    run.tighten(relax(problem).bound)
    low = min(n, _LOW)
    mass, loss = subset_sums(problem.importance[:low]), subset_sums((problem.importance * problem.loss_gaps)[:low])
    high_mass = subset_sums(problem.importance[low:])
    high_loss = subset_sums((problem.importance * problem.loss_gaps)[low:])
    best = math.inf
    for block in range(1 << (n - low)):
        kept = mass + high_mass[block]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (loss + high_loss[block]) / kept + (1.0 - kept) ** 2 * problem.gamma
        if block == 0:
            values[0] = math.inf  # nobody is kept
        top = int(values.argmin())
        if values[top] < best:
            best = float(values[top])
            subset = top | block << low
            run.offer([subset >> k & 1 == 1 for k in range(n)])
        if run.expired:
            return
    # Every set was evaluated, each to within the rounding of its sums.
    run.tighten(best - problem.rounding)


def subset_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over all subsets; bit k of the index says whether value k is in."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums
