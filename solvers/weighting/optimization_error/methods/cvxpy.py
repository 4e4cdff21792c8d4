"""Method ``cvxpy``: the optimisation error over aggregation weights, stated in CVXPY."""

from __future__ import annotations

from typing import Literal

import numpy as np

from solvers.clarabel import clarabel_point
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.optimization_error.problem import OptimizationErrorProblem


@method(OptimizationErrorProblem, "cvxpy", kind="exact")
def optimization_error_by_cvxpy(
    problem: OptimizationErrorProblem, run: Run, *, form: Literal["perspective", "q"] = "perspective"
) -> None:
    """State the ratio in CVXPY and solve it with CLARABEL; the bound comes from the problem, not from the solver.

    Parameters
    ----------
    problem : OptimizationErrorProblem
        The problem.
    run : Run
        Clock, incumbent and bound.
    form : {"perspective", "q"}
        The paper's substitution (Eq. 27) in y = q/πᵀq and s = 1/πᵀq, which also gives the multipliers of Eq. 28 as
        ``duals``; or a quadratic over a linear function of q itself. Both are disciplined convex programs with the
        same optimum.

    Raises
    ------
    InvalidOption
        When ``form`` is neither.
    """
    if form not in ("q", "perspective"):
        raise InvalidOption(f"form must be 'perspective' or 'q'; got {form!r}")
    with run.loading():
        import cvxpy as cp

    n, pi, root = problem.n, problem.availability, np.sqrt(problem.curvature)
    start = np.full(n, problem.total / n)
    run.offer(start)
    run.tighten(problem.lower_bound(start))
    # In units of Q for the weights and of the value at equal weights for the objective.
    quadratic, linear = 0.5 * problem.total / problem.scale, problem.offset / problem.total / problem.scale
    with run.building():
        if form == "q":
            z = cp.Variable(n)
            cost = quadratic * cp.quad_over_lin(cp.multiply(root, z), pi @ z) + linear * cp.inv_pos(pi @ z)
            constraints = [cp.sum(z) == 1, z >= 0]
        else:
            z, s = cp.Variable(n), cp.Variable()
            cost = quadratic * cp.quad_over_lin(cp.multiply(root, z), s) + linear * s
            constraints = [cp.sum(z) == s, z >= 0, pi @ z == 1]
        model = cp.Problem(cp.Minimize(cost), constraints)
    point = clarabel_point(model, z, run)
    if point is None:
        return
    q = np.maximum(point, 0.0)
    q *= problem.total / q.sum()
    run.offer(q)
    run.tighten(problem.lower_bound(q))
    if form == "perspective":
        theta, mu, ratio = (constraint.dual_value * problem.scale for constraint in constraints)
        run.duals.update(ratio=-float(ratio), theta=float(theta), mu=np.maximum(mu, 0.0))
