"""Method ``circle``: exact where the distances are those of points on a circle or a line."""

from __future__ import annotations

from solvers.dispersion.circle.search import fits, search, too_large
from solvers.dispersion.circle.shape import Shape, from_distances
from solvers.dispersion.prelude import is_trivial, solve_trivial
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import have_decision
from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["begin", "circle", "on_circle", "recognised"]


_NOT_ONE = (
    "circle needs distances between points on a circle or a line, to 1e-7 of the largest distance; these are not "
    "(use 'auto')"
)


def _accepts(problem: DispersionProblem) -> str | None:
    if is_trivial(problem):
        return None
    return too_large(problem) or (None if from_distances(problem) is not None else _NOT_ONE)


@method(DispersionProblem, "circle", kind="exact", accepts=_accepts)
def circle(problem: DispersionProblem, run: Run) -> None:
    """Prove optimality for points on a circle or a line, by longest paths through the clients in order.

    Whether the distances are those of such points is seen from the matrix, to 1e-7 of the largest; what they differ by
    is added to the bound. Nearly all of the objective depends on each client and its rank alone, and on the sum of the
    positions (`solvers.dispersion.circle`): a longest path and a tangent bound a node. Costs may be any. On a line a
    single path is the proof.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock and incumbent.

    Raises
    ------
    InvalidProblem
        When the distances are not those of points on a circle or a line, or there are more than 20 million pairs of a
        client and a rank (among those chosen or those left out, whichever are fewer).
    """
    if solve_trivial(problem, run):
        return
    begin(problem, run)
    shape = from_distances(problem, run)
    if shape is not None:
        on_circle(problem, shape, run)
    elif not run.expired:
        raise InvalidProblem(_NOT_ONE)  # a difference among the distances that had not been looked at before


def recognised(problem: DispersionProblem, run: Run) -> Shape | None:
    """The circle or line of a problem that this method takes; ``None`` for any other."""
    return from_distances(problem, run) if not is_trivial(problem) and fits(problem) else None


def begin(problem: DispersionProblem, run: Run) -> None:
    """A bound and a decision, for a run that has none."""
    run.tighten(problem.trivial_bound())
    have_decision(problem, run)


def on_circle(problem: DispersionProblem, shape: Shape, run: Run) -> None:
    """Prove optimality on the shape, in time."""
    search(problem, shape, run)
