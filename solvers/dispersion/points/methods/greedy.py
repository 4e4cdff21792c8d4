"""Method ``greedy`` between points: the clients of largest marginal gain, in batches."""

from __future__ import annotations

from solvers.dispersion.points.ascent import in_time
from solvers.dispersion.points.construction import greedy_decision
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["greedy"]


@method(PointDispersionProblem, "greedy", kind="heuristic")
def greedy(problem: PointDispersionProblem, run: Run) -> None:
    """Add the clients of largest marginal gain, among those far out, in up to 512 batches."""
    with in_time(problem, run):
        run.offer(greedy_decision(problem, run))
