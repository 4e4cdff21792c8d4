"""Method ``auto``: the best choice we know for the optimisation-error problem."""

from __future__ import annotations

from solvers.registry import method
from solvers.run import Run
from solvers.weighting.optimization_error.methods.dinkelbach import dinkelbach
from solvers.weighting.optimization_error.problem import OptimizationErrorProblem


@method(OptimizationErrorProblem, "auto", kind="exact")
def auto(problem: OptimizationErrorProblem, run: Run) -> None:
    """``dinkelbach``."""
    dinkelbach(problem, run)
