"""Method ``greedy``: add the best client until the selection is full."""

from __future__ import annotations

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import greedy_decision
from solvers.registry import method
from solvers.run import Run

__all__ = ["greedy"]


@method(DispersionProblem, "greedy", kind="heuristic")
def greedy(problem: DispersionProblem, run: Run) -> None:
    """Add the client of largest marginal gain until the selection is full, in O(n·m)."""
    run.offer(greedy_decision(problem))
