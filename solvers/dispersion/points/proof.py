"""Certificates of dispersion between points: where the relaxation ends, which is one point of the slice."""

from __future__ import annotations

import math

import numpy as np

from solvers.certificates import Certificate, problem_digest
from solvers.certificates.schema import POINT
from solvers.dispersion.methods.points import relaxed as climbed
from solvers.dispersion.problem import PointDispersionProblem
from solvers.proving import prover
from solvers.run import Run
from solvers.solution import Solution

__all__ = ["certify"]

#: Distances that a certificate is read with; some microseconds each.
_MOST = 20_000_000


@prover(PointDispersionProblem)
def certify(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The tangent at the relaxation's point; None for other metrics, and where reading it would take minutes."""
    problem = solution.problem
    assert isinstance(problem, PointDispersionProblem)
    assert solution.bound is not None
    if problem.metric != "euclidean" or problem.n * problem.size > _MOST:
        return None
    y = _point(problem, solution, time_limit)
    exact = np.clip(y, 0.0, 1.0) * POINT
    whole = np.floor(exact).astype(np.int64)
    while missing := problem.size * POINT - int(whole.sum()):
        room = np.flatnonzero(whole < POINT if missing > 0 else whole > 0)
        changed = room[np.argsort((whole - exact)[room], kind="stable")][: abs(missing)]
        whole[changed] += 1 if missing > 0 else -1
    clients = np.flatnonzero(whole)
    arrays = {"clients": clients.astype(np.int64), "shares": whole[clients]}
    return Certificate("points", problem_digest(problem), float(solution.bound), 0, arrays)


def _point(problem: PointDispersionProblem, solution: Solution, time_limit: float) -> np.ndarray:
    """Where the relaxation is in half of the time, from the solution's decision."""
    run = Run(problem, "tangent", None if math.isinf(time_limit) else 0.5 * time_limit, 0)
    if solution.x is not None:
        run.offer(solution.x)
    return np.ones(problem.n) if problem.size == problem.n else climbed(problem, run).y
