"""Method ``random``: the best of some random selections."""

from __future__ import annotations

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import random_decision
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["random_search"]


@method(DispersionProblem, "random", kind="heuristic")
def random_search(problem: DispersionProblem, run: Run, *, draws: int = 1) -> None:
    """Draw selections uniformly and keep the best: what choosing by chance is worth.

    Raises
    ------
    InvalidOption
        When ``draws`` is not positive.
    """
    if draws < 1:
        raise InvalidOption(f"draws must be at least 1; got {draws}")
    for _ in range(draws):
        run.offer(random_decision(problem, run.rng))
        if run.expired:
            return
