"""Method ``newton``: the total error with χ² bias by Newton's method, in O(n) a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.total_error.problem import TotalErrorProblem

__all__ = ["newton"]


@method(TotalErrorProblem, "newton", kind="exact")
def newton(problem: TotalErrorProblem, run: Run, *, steps: int = 200) -> None:
    r"""Damped Newton steps on the biased importance p, from the unbiased weights.

    χ² keeps every p away from 0, so that the only constraint that matters is Σp = 1. The Hessian is diagonal plus a
    matrix of rank two: with :math:`D_k = v_k / \pi_k`, :math:`h_k = 1/(Q\pi_k)`, s = h·p it is
    :math:`\mathrm{diag}(D/s + 2 w \alpha^2/p^3) - (u h^\top + h u^\top)/s^2 + (u^\top p) h h^\top / s^3`, u = D⊙p.

    Parameters
    ----------
    problem : TotalErrorProblem
        With ``bias="chi2"`` and a positive weight.
    run : Run
        Clock, incumbent and bound.
    steps : int
        Most steps to take; five are usual, twenty rare.

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
    """Gradient of the ratio in p, and its Hessian ``diag + Vᵀ K V`` as diag, V (2, n) and K (2, 2)."""
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
    """The Newton direction of sum 0 at ``p`` for the Hessian ``diag + Vᵀ K V``, by the Woodbury identity in O(n).

    It is computed relative to p, whose entries may differ by many magnitudes. The ratio is homogeneous, so that its
    Hessian alone vanishes along p; a multiple of 11ᵀ makes it definite, and changes nothing among directions of
    sum 0. Where rounding leaves no direction, there is none: zeros.
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
