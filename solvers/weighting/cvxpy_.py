"""Method ``cvxpy``: the convex problems over aggregation weights, stated in CVXPY."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np

from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.optimization_error import OptimizationErrorProblem
from solvers.weighting.polish import polished
from solvers.weighting.total_error import TotalErrorProblem

__all__ = ["optimization_error_by_cvxpy", "solved", "total_error_by_cvxpy"]


@method(OptimizationErrorProblem, "cvxpy", kind="exact", requires="cvxpy")
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
    if not solved(model, run) or z.value is None:
        return
    q = np.maximum(z.value, 0.0)
    q *= problem.total / q.sum()
    run.offer(q)
    run.tighten(problem.lower_bound(q))
    if form == "perspective":
        theta, mu, ratio = (constraint.dual_value * problem.scale for constraint in constraints)
        run.duals.update(ratio=-float(ratio), theta=float(theta), mu=np.maximum(mu, 0.0))


@method(TotalErrorProblem, "cvxpy", kind="exact", requires="cvxpy")
def total_error_by_cvxpy(problem: TotalErrorProblem, run: Run) -> None:
    """State the problem in CVXPY over the biased importance p, where it is convex, and solve it with CLARABEL.

    p = π⊙y is the linear image of the paper's (y, s), with s = Σₖ pₖ/(Qπₖ) eliminated. The bound comes from
    `TotalErrorProblem.lower_bound`, not from the solver; for the
    total variation also at CLARABEL's point sharpened by `solvers.weighting.polish.polished`. ``details["p"]`` is the
    biased importance found.
    """
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
    if not solved(model, run) or z.value is None:
        return
    floor = 1e-12 * problem.importance if problem.bias == "chi2" and w > 0 else 0.0
    found = np.maximum(size * z.value, floor)
    points = [found]
    if not (w > 0 and problem.bias == "chi2"):
        points += [polished(problem, found / found.sum(), snap) for snap in (1e-4, 1e-5, 1e-6)]
    for point in points:
        q = problem.from_importance(point)
        run.offer(q)
        run.tighten(problem.lower_bound(q))
    assert run.x is not None
    run.details["p"] = problem.biased_importance(run.x)


def solved(model: Any, run: Run) -> bool:
    """Run CLARABEL inside what is left of the time; whether it left a point to look at."""
    import cvxpy as cp

    if run.expired:
        return False
    error: Exception | None = None
    for accuracy in (1e-12, 1e-8):  # the second is CLARABEL's own, where the first is more than it can do
        options = {"tol_gap_abs": accuracy, "tol_gap_rel": accuracy, "tol_feas": accuracy}
        if math.isfinite(run.remaining):
            options["time_limit"] = max(run.remaining, 1e-3)
        try:
            with warnings.catch_warnings():
                # That CLARABEL could not reach the last digit is no news: the bound says how far the answer is.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                model.solve(solver=cp.CLARABEL, **options)
        except cp.error.SolverError as raised:
            error = raised
            continue
        run.message = f"CLARABEL: {model.status}"
        return True
    run.stop("error", f"CLARABEL: {error}")
    return False
