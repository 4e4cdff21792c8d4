"""Method ``auto``: the best choice we know for the exclusion problem."""

from __future__ import annotations

from solvers.registry import method
from solvers.run import Run
from solvers.weighting.exclusion.methods.cp_sat import cp_sat
from solvers.weighting.exclusion.methods.sorting import sorting
from solvers.weighting.exclusion.problem import ExclusionProblem


@method(ExclusionProblem, "auto", kind="exact")
def auto(problem: ExclusionProblem, run: Run) -> None:
    """``sorting`` for equal importance, else ``cp-sat``.

    Up to a thousand clients the proof usually takes less than a second; give a time limit where you cannot wait.
    """
    if problem.importance.min() == problem.importance.max():
        sorting(problem, run)
    else:
        cp_sat(problem, run)
