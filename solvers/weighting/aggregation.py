"""Methods for the problems over aggregation weights: Dinkelbach's, Newton's, and CVXPY with polishing."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.backends import clarabel_point
from solvers.errors import InvalidProblem
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.problem import OptimizationErrorProblem, TotalErrorProblem


@method(OptimizationErrorProblem, "dinkelbach", kind="exact")
def dinkelbach(problem: OptimizationErrorProblem, run: Run) -> None:
    r"""Lower the ratio λ until its parametric problem gives it back, about five steps of O(n) after one sort.

    At ratio λ the problem :math:`\min_q \tfrac12 q^\top A q - \lambda \pi^\top q` on the simplex of mass Q is solved
    by :math:`q_k = \lambda \max(\pi_k - u, 0) / A_k` at the level u where :math:`\sum_k \max(\pi_k - u, 0) / A_k =
    Q / \lambda`. The multipliers λ, θ = λu and μ come back as ``duals``; the bound is
    `OptimizationErrorProblem.lower_bound`.
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
        ``duals``; or a quadratic over a linear function of q itself.
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
def auto_optimization_error(problem: OptimizationErrorProblem, run: Run) -> None:
    """``dinkelbach``."""
    dinkelbach(problem, run)


def polished(
    problem: TotalErrorProblem, p: NDArray[np.float64], snap: float = 1e-5, steps: int = 8
) -> NDArray[np.float64]:
    r"""Newton steps over the clients that lie strictly between 0, α and 1.

    An interior-point solver leaves p near, but not on, the kinks at 0 and at α. Put there what is within ``snap`` of
    them, and the objective is smooth over the rest: the ratio plus :math:`w (\sum_U (p_k - \alpha_k))^2`, where U are
    the clients above α. A step that would cross a kink is cut short; a wrong guess of the face costs accuracy,
    not validity, for the bound is computed afresh.

    Parameters
    ----------
    problem : TotalErrorProblem
        With ``bias="tv"``, or a bias of no weight.
    p : (n,) ndarray
        A distribution close to the optimum.
    snap : float
        Distance from a kink that counts as on it, relative to α (or 1/n where that is larger).
    steps : int
        Steps to take.

    Returns
    -------
    (n,) ndarray
        A distribution, close to ``p``.
    """
    importance = problem.importance if problem.bias_weight > 0 else np.full(problem.n, -1.0)  # no kink at α then
    near = snap * np.maximum(importance, 1.0 / problem.n)
    p = np.where(p <= near, 0.0, np.where(np.abs(p - importance) <= near, importance, p))
    free = (p != 0) & (p != importance)
    if free.sum() < 2:
        return p / p.sum()
    p[free] *= (1.0 - p[~free].sum()) / p[free].sum()
    above = (p > importance) & (problem.bias_weight > 0)
    for _ in range(steps):
        gradient, diagonal, v, core = ratio_model(problem, p)
        if above[free].any():
            variation = float((p - problem.importance)[above].sum())
            gradient = gradient + 2.0 * problem.bias_weight * variation * above
            v = np.vstack([v, above.astype(np.float64)])
            core = np.pad(core, ((0, 1), (0, 1)))
            core[2, 2] = 2.0 * problem.bias_weight
        step = np.zeros_like(p)
        step[free] = direction(gradient[free], diagonal[free], v[:, free], core, p[free])
        floor = np.where(above, importance, 0.0)
        ceiling = np.where(above | (importance < 0), np.inf, importance)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step < 0, (floor - p) / step, np.where(step > 0, (ceiling - p) / step, np.inf))
        p = p + min(1.0, 0.9 * float(room[free].min())) * step
    return p


@method(TotalErrorProblem, "newton", kind="exact")
def newton(problem: TotalErrorProblem, run: Run, *, steps: Annotated[int, AtLeast(0)] = 200) -> None:
    r"""Damped Newton steps on the biased importance p, from the unbiased weights.

    χ² keeps every p away from 0, so that the only constraint that matters is Σp = 1. The Hessian is diagonal plus a
    matrix of rank two: with :math:`D_k = v_k / \pi_k`, :math:`h_k = 1/(Q\pi_k)`, s = h·p it is
    :math:`\mathrm{diag}(D/s + 2 w \alpha^2/p^3) - (u h^\top + h u^\top)/s^2 + (u^\top p) h h^\top / s^3`, u = D⊙p.

    Parameters
    ----------
    problem : TotalErrorProblem
        With ``bias="chi2"`` and a positive weight.
    steps : int
        Most steps to take: five are usual for a large weight of the bias, twenty to fifty for a small one.

    Raises
    ------
    InvalidProblem
        When the bias is the total variation, which has no second derivative, or weighs nothing.
    """
    if problem.bias != "chi2" or problem.bias_weight == 0:
        raise InvalidProblem(
            f"newton needs bias='chi2' with a positive bias_weight; got {problem.bias!r} with "
            f"{problem.bias_weight:g} (use 'cvxpy')"
        )
    p = problem.importance.copy()
    value = _value(problem, p)
    run.offer(problem.from_importance(p))
    run.tighten(problem.lower_bound(problem.from_importance(p)))
    for _ in range(steps):
        gradient, step = _step(problem, p)
        decrease = -float(gradient @ step)
        if not decrease > 0 or run.expired:
            break
        shrinking = step < 0
        length = min(1.0, 0.99 * float((p[shrinking] / -step[shrinking]).min())) if shrinking.any() else 1.0
        lower = np.inf
        while length > 1e-12:
            trial = p + length * step
            trial /= trial.sum()
            lower = _value(problem, trial)
            if lower <= value - 0.1 * length * decrease:
                break
            length *= 0.5
        if not lower < value:  # rounding hides the decrease; the full step still polishes the multipliers
            p = np.where(p + step > 0, p + step, p)
            break
        p, value = trial, lower
    q = problem.from_importance(p)
    run.offer(q)
    run.tighten(problem.lower_bound(q))
    run.details["raw"] = problem.biased_importance(q)
    run.duals.update(problem.multipliers(q))


def _value(problem: TotalErrorProblem, p: NDArray[np.float64]) -> float:
    s = float((p / problem.availability).sum()) / problem.total
    spread = 0.5 * float((problem.variances / problem.availability * p * p).sum()) / s
    return spread + problem.offset * s + problem.bias_weight * problem.bias_term(p)


def _step(problem: TotalErrorProblem, p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradient, and the Newton direction within Σp = 1."""
    gradient, diagonal, v, core = ratio_model(problem, p)
    pull = problem.bias_weight * (problem.importance / p) ** 2
    gradient = gradient - pull
    return gradient, direction(gradient, diagonal + 2.0 * pull / p, v, core, p)


def ratio_model(problem: TotalErrorProblem, p: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return the gradient of the ratio in p, and its Hessian ``diag + Vᵀ K V`` as diag, V (2, n) and K (2, 2)."""
    h = 1.0 / (problem.total * problem.availability)
    d = problem.variances / problem.availability
    s = float(h @ p)
    u = d * p
    spread = float(u @ p)
    gradient = u / s + (problem.offset - 0.5 * spread / s**2) * h
    return gradient, d / s, np.stack([u, h]), np.array([[0.0, -1.0 / s**2], [-1.0 / s**2, spread / s**3]])


def direction(
    gradient: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    v: NDArray[np.float64],
    core: NDArray[np.float64],
    p: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute Newton's direction of sum 0 at ``p`` for the Hessian ``diag + Vᵀ K V``, by Woodbury's identity in O(n).

    It is computed relative to p, whose entries may differ by many magnitudes. The ratio is homogeneous, so that its
    Hessian alone vanishes along p; a multiple of 11ᵀ makes it definite, and changes nothing among directions of
    sum 0. Where rounding leaves no direction, zeros are returned.
    """
    diagonal = diagonal * p * p
    v = np.vstack([v * p, p])
    capacitance = (v / diagonal) @ v.T
    capacitance[:-1, :-1] += np.linalg.inv(core)
    capacitance[-1, -1] += 1.0 / float((diagonal / p).sum())
    both = np.stack([gradient * p, p]) / diagonal
    try:
        solved = both - (np.linalg.solve(capacitance, v @ both.T).T @ v) / diagonal
    except np.linalg.LinAlgError:
        return np.zeros_like(p)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = p * ((solved[0] @ p / (solved[1] @ p)) * solved[1] - solved[0])
    return step if np.isfinite(step).all() else np.zeros_like(step)


@method(TotalErrorProblem, "cvxpy", kind="exact")
def total_error_by_cvxpy(problem: TotalErrorProblem, run: Run) -> None:
    """State the problem in CVXPY over the biased importance p, where it is convex, and solve it with CLARABEL.

    p = π⊙y is the linear image of the paper's (y, s), with s = Σₖ pₖ/(Qπₖ) eliminated. The bound comes from
    `TotalErrorProblem.lower_bound`, not from the solver. For the total variation, and for a bias of no weight,
    CLARABEL's point is also sharpened by `polished`. ``raw`` is the biased importance found.
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
    run.duals.update(problem.multipliers(run.x))


@method(TotalErrorProblem, "auto", kind="exact")
def auto_total_error(problem: TotalErrorProblem, run: Run) -> None:
    """``newton`` for χ²; for the total variation (and for a bias of no weight) ``cvxpy``."""
    if problem.bias == "chi2" and problem.bias_weight > 0:
        newton(problem, run)
    else:
        total_error_by_cvxpy(problem, run)
