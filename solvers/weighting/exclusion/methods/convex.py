"""Method ``convex``: allow any importance on the simplex, which is convex and solved by sorting."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.clarabel import clarabel_point
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.exclusion.problem import ExclusionProblem
from solvers.weighting.transport import cheapest, lower_bound

__all__ = ["Relaxation", "convex", "relax"]


class Relaxation(NamedTuple):
    """The relaxation's minimiser ``p`` (a distribution over clients) and a valid lower bound."""

    p: NDArray[np.float64]
    bound: float


@method(ExclusionProblem, "convex", kind="relaxation")
def convex(problem: ExclusionProblem, run: Run, *, solver: Literal["closed-form", "cvxpy"] = "closed-form") -> None:
    r"""Relax p = α/α(S) on S to any p on the simplex: a lower bound, and a rounded decision.

    :math:`\min_p \langle e, p \rangle + \Gamma' d_{TV}^2(\alpha, p)` moves importance from the clients of largest
    loss gap to the one of smallest. The clients it does not empty are offered as the decision; ``raw`` is
    the minimiser.

    Parameters
    ----------
    problem : ExclusionProblem
        The problem.
    run : Run
        Incumbent and bound.
    solver : {"closed-form", "cvxpy"}
        Sorting, or the same problem stated in CVXPY. CVXPY's value is never reported: its p only chooses where the
        bound's dual function is evaluated, which is valid anywhere.

    Raises
    ------
    InvalidOption
        When ``solver`` is neither.
    """
    if solver not in ("closed-form", "cvxpy"):
        raise InvalidOption(f"solver must be 'closed-form' or 'cvxpy'; got {solver!r}")
    p, bound = relax(problem, _by_cvxpy(problem, run) if solver == "cvxpy" else None)
    run.details["raw"] = p
    run.tighten(bound)
    for share in (1e-6, 0.5):  # a client emptied in part may stay or go
        kept = p > share * problem.importance
        kept[p.argmax()] = True
        run.offer(kept)


def relax(problem: ExclusionProblem, p: NDArray[np.float64] | None = None) -> Relaxation:
    """The relaxation's minimiser (or the given one) and the bound at its total variation."""
    if p is None:
        p = cheapest(problem.loss_gaps, problem.importance, problem.gamma)
    variation = 0.5 * float(np.abs(problem.importance - p).sum())
    return Relaxation(p, lower_bound(problem.loss_gaps, problem.importance, problem.gamma, variation))


def _by_cvxpy(problem: ExclusionProblem, run: Run) -> NDArray[np.float64]:
    with run.loading():
        import cvxpy as cp

    with run.building():
        p = cp.Variable(problem.n, nonneg=True)
        variation = cp.norm1(problem.importance - p) / 2
        unit = problem.scale or 1.0
        cost = (problem.loss_gaps / unit) @ p + (problem.gamma / unit) * cp.square(variation)
        model = cp.Problem(cp.Minimize(cost), [cp.sum(p) == 1])
    point = clarabel_point(model, p, run)
    if point is None:
        return problem.importance
    value = np.maximum(point, 0.0)
    return value / value.sum()
