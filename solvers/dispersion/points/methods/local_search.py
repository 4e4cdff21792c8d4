"""Method ``local-search`` between points: swap ascent among the clients nearest to the threshold."""

from __future__ import annotations

from solvers.dispersion.points.ascent import in_time, search
from solvers.dispersion.points.part import Part
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import ascend
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["local_search", "swaps"]


@method(PointDispersionProblem, "local-search", kind="heuristic")
def local_search(problem: PointDispersionProblem, run: Run, *, rounds: int = 50) -> None:
    """Swap ascent from ``start`` or the greedy selection, some 600 clients at a time.

    Those whose marginal gain lies nearest to the threshold between chosen and not chosen are taken out as a small
    problem with a matrix, improved by swaps, and put back, until nothing changes.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    rounds : int
        Small problems to improve, at most.

    Raises
    ------
    InvalidOption
        When ``rounds`` is negative.
    """
    if rounds < 0:
        raise InvalidOption(f"rounds must not be negative; got {rounds}")
    with in_time(problem, run):
        search(problem, run, swaps, rounds)


def swaps(small: DispersionProblem, part: Part) -> None:
    """Make the best swap until none improves."""
    assert part.x is not None
    part.offer(ascend(small, part.x.astype("int64"), part))
