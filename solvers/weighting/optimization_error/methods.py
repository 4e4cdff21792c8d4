"""Methods for optimisation error problems: Dinkelbach's, and CVXPY."""

from __future__ import annotations

from typing import Literal

import numpy as np

from solvers.clarabel import clarabel_point
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.optimization_error.problem import OptimizationErrorProblem

__all__ = ["dinkelbach"]


@method(OptimizationErrorProblem, "dinkelbach", kind="exact")
def dinkelbach(problem: OptimizationErrorProblem, run: Run) -> None:
    r"""Lower the ratio λ until its parametric problem gives it back, about five steps of O(n) after one sort.

    At ratio λ the problem :math:`\min_q \tfrac12 q^\top A q - \lambda \pi^\top q` on the simplex of mass Q is solved
    by :math:`q_k = \lambda \max(\pi_k - u, 0) / A_k` at the level u where :math:`\sum_k \max(\pi_k - u, 0) / A_k =
    Q / \lambda`. The order of the clients does not depend on λ, so two prefix sums answer every level by bisection.
    Levels are measured down from the largest π, where no digits cancel. The multipliers λ, θ = λu and μ come back as
    ``duals``; the bound is `OptimizationErrorProblem.lower_bound`.
    """
    order = np.argsort(-problem.availability, kind="stable")
    pi = problem.availability[order]
    curvature = problem.curvature[order]
    below = pi[0] - pi
    inverse = np.cumsum(1.0 / curvature)
    missing = np.cumsum(below / curvature)
    # Mass that has been poured when the level comes down to the j-th client: ascending in j.
    reached = np.maximum.accumulate(below * inverse - missing)
    q = np.full(problem.n, problem.total / problem.n)
    ratio = problem.ratio(q)
    while True:
        mass = problem.total / ratio
        last = max(int(np.searchsorted(reached, mass)) - 1, 0)
        depth = float((mass + missing[last]) / inverse[last])
        q = np.maximum(depth - below, 0.0) / curvature
        q *= problem.total / q.sum()
        lower = (0.5 * float((curvature * q * q).sum()) + problem.offset) / float((pi * q).sum())
        if not lower < ratio or run.expired:
            break
        ratio = lower
    weights = np.empty(problem.n)
    weights[order] = q
    run.offer(weights)
    run.tighten(problem.lower_bound(weights))
    theta = ratio * (float(pi[0]) - depth)
    run.duals.update(ratio=ratio, theta=theta, mu=np.maximum(theta - ratio * problem.availability, 0.0))


@method(OptimizationErrorProblem, "cvxpy", kind="exact")
def optimization_error_by_cvxpy(
    problem: OptimizationErrorProblem, run: Run, *, form: Literal["perspective", "q"] = "perspective"
) -> None:
    """State the ratio in CVXPY and solve it with CLARABEL; the bound comes from the problem, not from the solver.

    Parameters
    ----------
    form : {"perspective", "q"}
        The paper's substitution (Eq. 27) in y = q/πᵀq and s = 1/πᵀq, which also gives the multipliers of Eq. 28 as
        ``duals``; or a quadratic over a linear function of q itself. Both are disciplined convex programs with the
        same optimum.
    """
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


@method(OptimizationErrorProblem, "auto", kind="exact")
def auto(problem: OptimizationErrorProblem, run: Run) -> None:
    """``dinkelbach``."""
    dinkelbach(problem, run)
