"""Method ``circle``: exact where the distances are those of points on a circle or a line."""

from __future__ import annotations

from solvers.dispersion.prelude import begin, dispersion_method, is_trivial
from solvers.dispersion.problem import DispersionProblem, PointDispersionProblem, SelectionProblem
from solvers.dispersion.search.circle import fits, search, too_large
from solvers.dispersion.shape import shape_of
from solvers.errors import InvalidProblem
from solvers.run import Run

__all__ = ["circle", "solve_if_circular"]

_NOT_ONE = (
    "circle needs distances between points on a circle or a line, to 1e-7 of the largest distance; these are not "
    "(use 'auto')"
)


def _accepts(problem: SelectionProblem) -> str | None:
    if is_trivial(problem):
        return None
    return too_large(problem) or (None if shape_of(problem) is not None else _NOT_ONE)


@dispersion_method((DispersionProblem, PointDispersionProblem), "circle", kind="exact", accepts=_accepts)
def circle(problem: SelectionProblem, run: Run) -> None:
    """Prove optimality for points on a circle or a line, by longest paths through the clients in order.

    Whether a matrix holds the distances of such points is seen from it, to 1e-7 of the largest; what they differ by is
    added to the bound. Points may lie in any plane of any space. Nearly all of the objective depends on each client
    and its rank alone, and on the sum of the positions (`solvers.dispersion.search.circle`): a longest path and a
    tangent bound a node. Costs may be any. On a line a single path is the proof.

    Raises
    ------
    InvalidProblem
        When the distances are not those of points on a circle or a line, or there are more than 20 million pairs of a
        client and a rank (among those chosen or those left out, whichever are fewer).
    """
    if not solve_if_circular(problem, run) and not run.expired:
        raise InvalidProblem(_NOT_ONE)  # a difference among the distances that had not been looked at before


def solve_if_circular(problem: SelectionProblem, run: Run) -> bool:
    """Prove optimality where the clients lie on a circle or a line and the method takes so many; False elsewhere."""
    shape = shape_of(problem, run) if fits(problem) else None
    if shape is None:
        return False
    begin(problem, run)
    search(problem, shape, run)
    return True
