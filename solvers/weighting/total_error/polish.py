"""Sharpen an interior-point answer of the total-variation problem: Newton on the face where it lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.weighting.total_error.methods.newton import direction, ratio_model
from solvers.weighting.total_error.problem import TotalErrorProblem

__all__ = ["polished"]


def polished(
    problem: TotalErrorProblem, p: NDArray[np.float64], snap: float = 1e-5, steps: int = 8
) -> NDArray[np.float64]:
    r"""Newton steps over the clients that lie strictly between 0, α and 1.

    An interior-point solver leaves p near, but not on, the kinks at 0 and at α. Put there what is within ``snap`` of
    them, and the objective is smooth over the rest: the ratio plus :math:`w (\sum_U (p_k - \alpha_k) + t_0)^2`, where
    U are the clients above α. A step that would cross a kink is cut short; a wrong guess of the face costs accuracy,
    not validity, for the bound is computed afresh.

    Parameters
    ----------
    problem : TotalErrorProblem
        With ``bias="tv"``.
    p : (n,) ndarray
        A distribution close to the optimum.
    snap : float
        Distance from a kink that counts as on it, relative to α (or 1/n where that is larger).
    steps : int
        Most steps to take.

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
