"""Method ``cvxpy``: the generalised KL projection as a convex program."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.capping.problem import CappingProblem
from solvers.capping.reporting import describe, report
from solvers.clarabel import clarabel_point
from solvers.registry import method
from solvers.run import Run

__all__ = ["convex"]


@method(CappingProblem, "cvxpy", kind="exact")
def convex(problem: CappingProblem, run: Run) -> None:
    """State the projection in CVXPY and solve it with Clarabel's exponential cone.

    Nothing of the solver's is taken on trust: its point is moved back into the box and onto the sum, and the bound
    is the problem's own dual function at the solver's multiplier, valid however inaccurate that is. It can tell a tie
    at the ceiling from an overflow only to 1e-7.
    """
    import cvxpy as cp

    if problem.mass == 0 or problem.size == problem.n:
        report(problem, run, np.zeros(problem.n, dtype=bool))
        return
    with run.building():
        r = cp.Variable(problem.n)
        total = cp.sum(r) == problem.mass
        # Σ r log(r/v) with log v as data: shares that underflow need no special case.
        objective = cp.Minimize(-cp.sum(cp.entr(r)) - problem.log_shares @ r)
        model = cp.Problem(objective, [total, r <= problem.room])
    answer = clarabel_point(model, r, run, accuracy=1e-11)
    if answer is None:
        return
    # The solver's multiplier is that of Σ r log(r/v) without the −r: log(r/v) + 1 + y = 0 for clients not capped.
    y = float(np.asarray(total.dual_value))
    multiplier = -1.0 - y if math.isfinite(y) else 0.0
    run.tighten(problem.dual_bound(multiplier))
    # The point that the multiplier implies is more accurate than the solver's own, unless the multiplier is bad.
    level = problem.log_shares + multiplier
    implied, found = (
        into_box(point, problem.mass, problem.room)
        for point in (np.exp(np.minimum(level, math.log(problem.room))), answer)
    )
    x, own = (np.where(inside >= problem.room, 1.0, problem.floor + inside) for inside in (implied, found))
    run.offer(own if problem.objective(own) < problem.objective(x) - 1e-12 * problem.scale else x)
    capped = level > math.log(problem.room) + 1e-7
    describe(problem, run, multiplier, capped)


def into_box(r: NDArray[np.float64], mass: float, room: float) -> NDArray[np.float64]:
    """Clip ``r`` to ``0 ≤ r ≤ room`` and move it onto the sum ``mass``, clients at the ceiling last."""
    r = np.clip(r, 0.0, room)
    free = r < room
    if (missing := mass - float(r.sum())) < 0:
        if float(r[free].sum()) < -missing:
            free[:] = True
        total = float(r[free].sum())
        r[free] *= (total + missing) / total
        return r
    slack = room - r
    return np.minimum(r + slack * (missing / max(float(slack.sum()), 1e-300)), room)
