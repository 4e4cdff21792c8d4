"""Method ``cvxpy``: the real allocation as a convex program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.allocation.methods.kkt import kkt, offer
from solvers.allocation.problem import AllocationProblem
from solvers.clarabel import clarabel_point
from solvers.registry import method
from solvers.run import Run

__all__ = ["convex"]


@method(AllocationProblem, "cvxpy", kind="relaxation")
def convex(problem: AllocationProblem, run: Run, *, rounded: bool = False) -> None:
    """State Eq. 20 with its bounds in CVXPY and solve it with Clarabel's second-order cones.

    The solver's point is moved back into the box and onto the sum, and the bound is the problem's own dual function at
    the solver's price: valid however inaccurate that is.

    Parameters
    ----------
    problem : AllocationProblem
        The problem.
    run : Run
        Clock and incumbent.
    rounded : bool
        Return whole clients, rounded by largest remainder, with the same bound; ``raw`` then has the
        real allocation.
    """
    import cvxpy as cp

    counts = problem.costs > 0
    if not counts.any():  # nothing to minimise: the convention for a tie of everything
        kkt(problem, run, rounded=rounded)
        return
    unit = float(problem.costs.max())
    with run.building():
        x = cp.Variable(problem.n)
        total = cp.sum(x) == problem.total
        cost = (problem.costs[counts] / unit) @ cp.inv_pos(x[counts])
        model = cp.Problem(cp.Minimize(cost), [total, x >= problem.lower, x <= problem.upper])
    point = clarabel_point(model, x, run, accuracy=1e-11)
    if point is None:
        return
    price = abs(float(np.asarray(total.dual_value))) * unit
    run.tighten(problem.relaxed_bound(price))
    # The point that the price implies is more accurate than the solver's own, unless the price is bad.
    found = into_box(point, problem)
    implied = into_box(np.where(counts, np.sqrt(problem.costs / max(price, 1e-300)), found), problem)
    better = problem.objective(found) < problem.objective(implied) - 1e-12 * problem.scale
    offer(problem, run, found if better else implied, price, rounded)


def into_box(x: NDArray[np.float64], problem: AllocationProblem) -> NDArray[np.float64]:
    """Clip to the bounds, then move by a share of the slack until the sum is right; groups at a bound move last."""
    x = np.clip(x, problem.lower, problem.upper)
    missing = problem.total - float(x.sum())
    slack = problem.upper - x if missing > 0 else x - problem.lower
    inside = np.where((x > problem.lower) & (x < problem.upper), slack, 0.0)
    slack = inside if float(inside.sum()) >= abs(missing) else slack
    if (room := float(slack.sum())) > 0:
        x = np.clip(x + slack * (missing / room), problem.lower, problem.upper)
    return x
