"""Method ``cvxpy``: the total error over the biased importance, stated in CVXPY."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.clarabel import clarabel_point
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.total_error.polish import polished
from solvers.weighting.total_error.problem import TotalErrorProblem


@method(TotalErrorProblem, "cvxpy", kind="exact")
def total_error_by_cvxpy(problem: TotalErrorProblem, run: Run) -> None:
    """State the problem in CVXPY over the biased importance p, where it is convex, and solve it with CLARABEL.

    p = π⊙y is the linear image of the paper's (y, s), with s = Σₖ pₖ/(Qπₖ) eliminated. The bound comes from
    `TotalErrorProblem.lower_bound`, not from the solver; for the total variation also at CLARABEL's point sharpened by
    `solvers.weighting.total_error.polish.polished`. ``raw`` is the biased importance found.
    """
    with run.loading():
        import cvxpy as cp

    pi, w = problem.availability, problem.bias_weight
    for start in (problem.unbiased(), np.full(problem.n, problem.total / problem.n)):
        if problem.objective(start) < math.inf:
            run.offer(start)
            run.tighten(problem.lower_bound(start))
    unit = problem.scale
    reach = 1.0 / pi  # of s·Q
    with run.building():
        # In units in which every variable is near 1: important clients and others are told apart equally well.
        size = problem.importance if problem.bias == "chi2" else np.full(problem.n, 1.0 / problem.n)
        z = cp.Variable(problem.n, nonneg=True)
        p = cp.multiply(size, z)
        cost: Any = (
            0.5 * problem.total / unit * cp.quad_over_lin(cp.multiply(np.sqrt(problem.variances / pi), p), reach @ p)
        )
        cost += problem.offset / problem.total / unit * (reach @ p)
        if w > 0 and problem.bias == "tv":
            cost += w / unit * cp.square(cp.sum(cp.pos(p - problem.importance)))
        elif w > 0:
            cost += w / unit * (problem.importance @ cp.inv_pos(z))
        model = cp.Problem(cp.Minimize(cost), [cp.sum(p) == 1])
    answer = clarabel_point(model, z, run)
    if answer is None:
        return
    floor = 1e-12 * problem.importance if problem.bias == "chi2" and w > 0 else 0.0
    found = np.maximum(size * answer, floor)
    points = [found]
    if not (w > 0 and problem.bias == "chi2"):
        points += [polished(problem, found / found.sum(), snap) for snap in (1e-4, 1e-5, 1e-6)]
    for point in points:
        q = problem.from_importance(point)
        run.offer(q)
        run.tighten(problem.lower_bound(q))
    assert run.x is not None
    run.details["raw"] = problem.biased_importance(run.x)
