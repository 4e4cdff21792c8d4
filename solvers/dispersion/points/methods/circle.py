"""Method ``circle`` between points: exact where they lie on a circle or a line."""

from __future__ import annotations

from solvers.dispersion.circle.search import search, too_large
from solvers.dispersion.circle.shape import Shape, from_points
from solvers.dispersion.points.ascent import in_time
from solvers.dispersion.points.construction import greedy_decision
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.trivial import is_trivial, solve_trivial
from solvers.registry import method
from solvers.run import Run

__all__ = ["circle", "on_circle"]


def _accepts(problem: PointDispersionProblem) -> str | None:
    if is_trivial(problem):
        return None
    if (reason := too_large(problem)) is not None:
        return reason
    if from_points(problem.coordinates.T, problem.diameter) is not None:
        return None
    return "circle needs points on a circle or a line, to 1e-7 of their extent; these are not (use 'auto')"


@method(PointDispersionProblem, "circle", kind="exact", accepts=_accepts)
def circle(problem: PointDispersionProblem, run: Run) -> None:
    """Prove optimality for points on a circle or a line, by longest paths through the clients in order.

    As for a matrix of distances, without one: the points may lie in any plane of any space.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Clock and incumbent.

    Raises
    ------
    InvalidProblem
        When the points do not lie on a circle or a line, to 1e-7 of their extent, or there are more than 20 million
        pairs of a client and a rank (among those chosen or those left out, whichever are fewer).
    """
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    shape = from_points(problem.coordinates.T, problem.diameter)
    assert shape is not None  # as it was when the problem was accepted
    on_circle(problem, shape, run)


def on_circle(problem: PointDispersionProblem, shape: Shape, run: Run) -> None:
    """Prove optimality on the shape, in time."""
    with in_time(problem, run):
        if run.x is None:
            run.offer(greedy_decision(problem, run))
        search(problem, shape, run)
