"""Certificates of aggregation weights: the weights themselves, and the multiplier of the bias."""

from __future__ import annotations

import math

import numpy as np

from solvers.certificates import Certificate, problem_digest
from solvers.proving import prover, whole_numbers
from solvers.solution import Solution
from solvers.weighting.optimization_error.problem import AggregationProblem
from solvers.weighting.total_error.problem import TotalErrorProblem

__all__ = ["certify"]


@prover(AggregationProblem)
def certify(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The gradient at the solution's weights; for the total variation its value there, for χ² the best level."""
    problem, x = solution.problem, solution.x
    assert isinstance(problem, AggregationProblem)
    assert solution.bound is not None
    if x is None:
        return None
    q = np.maximum(problem.decision(x), 0.0)
    if not isinstance(problem, TotalErrorProblem):
        grid, numbers = whole_numbers(q)
        arrays = {"q": numbers}
        return Certificate("optimization-error", problem_digest(problem), float(solution.bound), grid, arrays)
    p = problem.biased_importance(q)
    multiplier = math.sqrt(problem.bias_term(p)) if problem.bias == "tv" else _depth(problem, q)
    grid, numbers = whole_numbers([*q, multiplier])
    arrays = {"q": numbers[:-1], "multiplier": numbers[-1:]}
    return Certificate("total-error", problem_digest(problem), float(solution.bound), grid, arrays)


def _depth(problem: TotalErrorProblem, q: np.ndarray) -> float:
    r"""Return by how much the multiplier ν of Σp = 1 lies below the least slope: Σ α √(w / (d − ν)) = 1."""
    slopes, w = problem.slopes(q), problem.bias_weight
    rise = slopes - slopes.min()
    low, high = 0.0, max(w, 1e-300)
    for _ in range(200):
        depth = 0.5 * (low + high)
        if depth <= 0 or float((problem.importance * np.sqrt(w / (rise + depth))).sum()) > 1.0:
            low = depth
        else:
            high = depth
    return high
