"""Method ``local-search``: steepest swap ascent from the greedy selection and from random ones."""

from __future__ import annotations

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision, random_decision
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["local_search"]


@method(DispersionProblem, "local-search", kind="heuristic")
def local_search(problem: DispersionProblem, run: Run, *, restarts: int = 20) -> None:
    """Swap ascent from the start, the greedy selection and random selections; the best local optimum wins.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    restarts : int
        Random selections to ascend from, beside ``start`` (if given) and the greedy selection.

    Raises
    ------
    InvalidOption
        When ``restarts`` is negative.
    """
    if restarts < 0:
        raise InvalidOption(f"restarts must not be negative; got {restarts}")
    if run.x is not None:
        run.offer(ascend(problem, run.x, run))
    run.offer(ascend(problem, greedy_decision(problem), run))
    for _ in range(restarts):
        if run.expired:
            break
        run.offer(ascend(problem, random_decision(problem, run.rng), run))
