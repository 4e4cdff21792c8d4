"""Certificates of capping problems: the multiplier of the sum."""

from __future__ import annotations

import numpy as np

from solvers.capping.problem import CappingProblem, log_sum
from solvers.certificates import Certificate, problem_digest
from solvers.proving import prover, whole_numbers
from solvers.solution import Solution

__all__ = ["certify"]


@prover(CappingProblem)
def certify(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The logarithm of probability over share of a client that is not capped, or the largest cap over share."""
    problem, x = solution.problem, solution.x
    assert isinstance(problem, CappingProblem)
    assert solution.bound is not None
    mass = problem.size - problem.n * problem.floor
    multiplier = 0.0
    if x is not None and mass > 0:
        logs = problem.log_weights
        if logs is None:
            logs = np.log(problem.weights)  # type: ignore[arg-type]  # one of the two is given
        shares = np.log(mass) + logs - float(log_sum(logs))
        residual, cap = x - problem.floor, 1.0 - problem.floor
        inside = (residual < cap * (1 - 1e-12)) & (residual > 0)
        if inside.any():
            largest = int(np.where(inside, residual, -1.0).argmax())
            multiplier = float(np.log(residual[largest]) - shares[largest])
        elif cap > 0:
            multiplier = float((np.log(cap) - shares).max())
    grid, numbers = whole_numbers([multiplier])
    arrays = {"multiplier": numbers}
    return Certificate("capping", problem_digest(problem), float(solution.bound), grid, arrays)
