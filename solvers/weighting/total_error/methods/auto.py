"""Method ``auto``: the best choice we know for the total-error problem."""

from __future__ import annotations

from solvers.registry import method
from solvers.run import Run
from solvers.weighting.total_error.methods.cvxpy import total_error_by_cvxpy
from solvers.weighting.total_error.methods.newton import newton
from solvers.weighting.total_error.problem import TotalErrorProblem


@method(TotalErrorProblem, "auto", kind="exact")
def auto(problem: TotalErrorProblem, run: Run) -> None:
    """``newton`` for χ²; for the total variation (and for a bias of no weight) ``cvxpy``."""
    if problem.bias == "chi2" and problem.bias_weight > 0:
        newton(problem, run)
    else:
        total_error_by_cvxpy(problem, run)
