"""Method ``auto``: the best choice we know."""

from __future__ import annotations

from solvers.allocation.methods.greedy import greedy
from solvers.allocation.problem import AllocationProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["auto"]


@method(AllocationProblem, "auto", kind="exact")
def auto(problem: AllocationProblem, run: Run) -> None:
    """``greedy``: whole clients, exact and fast at every size."""
    greedy(problem, run)
