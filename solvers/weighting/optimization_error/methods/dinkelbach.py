"""Method ``dinkelbach``: Newton's method on the ratio, each step a water-filling."""

from __future__ import annotations

import numpy as np

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
