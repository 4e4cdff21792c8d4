"""Certificates of allocation problems: the price of a client."""

from __future__ import annotations

import numpy as np

from solvers.allocation.problem import AllocationProblem
from solvers.certificates import Certificate, problem_digest
from solvers.proving import prover, whole_numbers
from solvers.solution import Solution

__all__ = ["certify"]


@prover(AllocationProblem)
def certify(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The price between what the next client gains and the last one cost; a real allocation's price for real ones."""
    problem, x = solution.problem, solution.x
    assert isinstance(problem, AllocationProblem)
    assert solution.bound is not None
    if x is None:
        return None
    whole = x.dtype.kind in "iu"
    if whole:
        gain = problem.costs / np.maximum(x * (x + 1.0), 0.5)  # who has nobody costs nothing, or is absent
        loss = problem.costs / np.maximum(x * (x - 1.0), 0.5)
        least = float(gain[x < problem.upper].max(initial=0.0))
        most = float(loss[x > np.maximum(problem.first, 1)].min(initial=np.inf))
        price = least if not np.isfinite(most) else 0.5 * (least + most)
    else:
        price = problem.water_fill(problem.first)[1]
    grid, (number,) = whole_numbers([price])
    arrays = {"price": np.array([number]), "whole": np.array([int(whole)])}
    return Certificate("allocation", problem_digest(problem), float(solution.bound), grid, arrays)
