"""Certificates of cutoff problems: the cutoff, whose neighbours are no better."""

from __future__ import annotations

import numpy as np

from solvers.certificates import Certificate, problem_digest
from solvers.participation.problem import CutoffProblem
from solvers.proving import prover
from solvers.solution import Solution

__all__ = ["certify"]


@prover(CutoffProblem)
def certify(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The solution itself: the objective is convex in the cutoff."""
    if solution.x is None or solution.bound is None:
        return None
    arrays = {"cutoff": np.array([int(solution.x)])}
    return Certificate("cutoff", problem_digest(solution.problem), float(solution.bound), 0, arrays)
