"""Method ``tabu`` between points: tabu search among the clients nearest to the threshold."""

from __future__ import annotations

from solvers.dispersion.methods.tabu import tabu as tabu_with_matrix
from solvers.dispersion.points.ascent import in_time, search
from solvers.dispersion.points.part import Part
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.problem import DispersionProblem
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["tabu"]


@method(PointDispersionProblem, "tabu", kind="heuristic")
def tabu(problem: PointDispersionProblem, run: Run, *, moves: int = 5_000, rounds: int = 20) -> None:
    """Tabu search over swaps among the 600 clients nearest to the threshold, put back and taken out anew.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    moves : int
        Swaps made in each small problem.
    rounds : int
        Small problems, at most; the search ends when one brings nothing.

    Raises
    ------
    InvalidOption
        When ``moves`` or ``rounds`` is negative.
    """
    for name, value in (("moves", moves), ("rounds", rounds)):
        if value < 0:
            raise InvalidOption(f"{name} must not be negative; got {value}")

    def moved(small: DispersionProblem, part: Part) -> None:
        tabu_with_matrix(small, part, moves=moves)

    with in_time(problem, run):
        search(problem, run, moved, rounds)
