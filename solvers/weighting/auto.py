"""Method ``auto`` of each problem of this family: the best we know for it."""

from __future__ import annotations

import importlib.util

from solvers.registry import find, method
from solvers.run import Run
from solvers.weighting.brute_force import LARGEST, brute_force
from solvers.weighting.cp_sat import cp_sat, seed_incumbent
from solvers.weighting.dinkelbach import dinkelbach
from solvers.weighting.exclusion import ExclusionProblem
from solvers.weighting.newton import newton
from solvers.weighting.optimization_error import OptimizationErrorProblem
from solvers.weighting.sorting import sorting
from solvers.weighting.total_error import TotalErrorProblem

__all__ = ["auto"]


@method(ExclusionProblem, "auto", kind="exact")
def auto(problem: ExclusionProblem, run: Run) -> None:
    """``sorting`` for equal importance, else ``cp-sat`` (``brute-force`` up to 28 clients where it is missing).

    Up to a thousand clients the proof usually takes less than a second; give a time limit where you cannot wait.
    """
    if problem.importance.min() == problem.importance.max():
        sorting(problem, run)
    elif importlib.util.find_spec("ortools") is not None:
        cp_sat(problem, run)
    elif problem.n <= LARGEST:
        brute_force(problem, run)
    else:
        seed_incumbent(problem, run)


@method(OptimizationErrorProblem, "auto", kind="exact")
def auto_optimization_error(problem: OptimizationErrorProblem, run: Run) -> None:
    """``dinkelbach``."""
    dinkelbach(problem, run)


@method(TotalErrorProblem, "auto", kind="exact")
def auto_total_error(problem: TotalErrorProblem, run: Run) -> None:
    """``newton`` for χ²; for the total variation (and for a bias of no weight) ``cvxpy``."""
    if problem.bias == "chi2" and problem.bias_weight > 0:
        newton(problem, run)
    else:
        find(problem, "cvxpy").function(problem, run)
