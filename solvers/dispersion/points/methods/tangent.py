"""Method ``tangent`` between points: the bound of the concave relaxation, and the decision it rounds to."""

from __future__ import annotations

from solvers.dispersion.points.ascent import improve, in_time, started
from solvers.dispersion.points.methods.local_search import swaps
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.relaxation import Relaxation
from solvers.dispersion.trivial import solve_trivial
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["relaxed", "tangent"]


@method(PointDispersionProblem, "tangent", kind="relaxation")
def tangent(problem: PointDispersionProblem, run: Run, *, accuracy: float = 1e-8) -> None:
    """Climb the concave relaxation by moving weight between pairs, and bound by the tangent there.

    Pairwise Frank-Wolfe from the selection that ``start`` or the greedy construction gives. No shift is needed: the
    objective between points is concave on the slice as it stands (see `PointDispersionProblem`).

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    accuracy : float
        Stop when the tangent is this close to the best one, relative to the problem's scale.

    Raises
    ------
    InvalidOption
        When ``accuracy`` is negative.
    """
    if not accuracy >= 0:
        raise InvalidOption(f"accuracy must not be negative; got {accuracy}")
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    with in_time(problem, run):
        relaxed(problem, run, accuracy)


def relaxed(problem: PointDispersionProblem, run: Run, accuracy: float = 1e-8, rounds: int = 100) -> Relaxation:
    """Solve the relaxation to an accuracy, tightening the run's bound, and round it."""
    relaxation = started(problem, run)
    least = accuracy * problem.scale
    for _ in range(rounds):
        gap = relaxation.climb()
        run.tighten(relaxation.bound())
        if run.proved or run.expired or gap <= least:
            break
    if relaxation.error * problem.size > 1e-9 * problem.scale:
        relaxation.refresh()
        run.tighten(relaxation.bound())
    improve(relaxation, run, swaps)  # also where the bound is close enough: it costs little
    return relaxation
