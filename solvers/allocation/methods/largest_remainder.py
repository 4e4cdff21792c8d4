"""Method ``largest-remainder``: round the best real allocation."""

from __future__ import annotations

from solvers.allocation.problem import AllocationProblem
from solvers.allocation.water_filling import round_up_largest
from solvers.allocation.whole import accepts_whole_start
from solvers.registry import method
from solvers.run import Run

__all__ = ["largest_remainder"]


@method(AllocationProblem, "largest-remainder", kind="heuristic")
def largest_remainder(problem: AllocationProblem, run: Run) -> None:
    """Round the water-filling allocation down, then up where most was lost (Hamilton's rule).

    The obvious way to whole clients; not optimal for about one small random problem in fifty, by up to some percent.
    """
    accepts_whole_start(problem, run)
    x, _ = problem.water_fill(problem.first)
    run.offer(round_up_largest(x, problem.total, problem.first, problem.upper))
    run.tighten(problem.relaxed_bound(problem.water_fill(problem.lower)[1]))
