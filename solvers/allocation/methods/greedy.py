"""Method ``greedy``: one client at a time to the group where it gains most; exact."""

from __future__ import annotations

from solvers.allocation.problem import AllocationProblem
from solvers.allocation.whole import accepts_whole_start, best_whole, next_gain
from solvers.registry import method
from solvers.run import Run

__all__ = ["greedy"]


@method(AllocationProblem, "greedy", kind="exact")
def greedy(problem: AllocationProblem, run: Run) -> None:
    """Hand out clients by largest gain: exact in whole clients, in O(K log K) whatever the budget.

    The certificate is a price: no client that was left out gains more, none that was handed out gains less.
    """
    accepts_whole_start(problem, run)
    s = best_whole(problem, problem.costs)
    price = float(next_gain(problem.costs, s, problem.upper).max())
    run.offer(s)
    run.tighten(problem.integer_bound(price))
    run.duals = {"price": price}
