"""Method ``circle`` between points: exact where they lie on a circle or a line."""

from __future__ import annotations

from solvers.dispersion.circle.search import check_table, search
from solvers.dispersion.circle.shape import Shape, from_points
from solvers.dispersion.points.ascent import in_time
from solvers.dispersion.points.construction import greedy_decision
from solvers.dispersion.points.marginal import marginal
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["circle", "on_circle"]


@method(PointDispersionProblem, "circle", kind="exact")
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
    if marginal(problem, run):
        return
    check_table(problem)
    shape = from_points(problem.coordinates.T, problem.farthest)
    if shape is None:
        raise InvalidProblem(
            "circle needs points on a circle or a line, to 1e-7 of their extent; these are not (use 'auto')"
        )
    on_circle(problem, shape, run)


def on_circle(problem: PointDispersionProblem, shape: Shape, run: Run) -> None:
    """Prove optimality on the shape, in time."""
    with in_time(problem, run):
        if run.x is None:
            run.offer(greedy_decision(problem, run))
        search(problem, shape, run)
