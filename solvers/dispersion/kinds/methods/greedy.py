"""Method ``greedy`` between kinds."""

from __future__ import annotations

from solvers.dispersion.kinds.counts import Counts
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.kinds.tree import filled
from solvers.registry import method
from solvers.run import Run

__all__ = ["greedy"]


@method(KindDispersionProblem, "greedy", kind="heuristic")
def greedy(problem: KindDispersionProblem, run: Run) -> None:
    """Add the cheapest client of the kind that gains most until ``size`` are chosen; ties go to the first kind."""
    start, run.x, run.objective = run.x, None, None
    filled(Counts(problem), run)
    if start is not None:
        run.offer(start)
