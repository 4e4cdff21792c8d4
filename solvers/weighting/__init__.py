"""Weighting: which clients to keep, and with which aggregation weights, the decisions of CA-Fed."""

from solvers.weighting.auto import auto
from solvers.weighting.brute_force import brute_force
from solvers.weighting.ca_fed import ca_fed
from solvers.weighting.convex import convex
from solvers.weighting.cp_sat import cp_sat
from solvers.weighting.cvxpy_ import optimization_error_by_cvxpy, total_error_by_cvxpy
from solvers.weighting.dinkelbach import dinkelbach
from solvers.weighting.exclusion import ExclusionProblem
from solvers.weighting.guideline_b import CorrelationSweep, sweep_correlation
from solvers.weighting.newton import newton
from solvers.weighting.optimization_error import OptimizationErrorProblem
from solvers.weighting.sorting import sorting
from solvers.weighting.theorem2 import ConvergenceConstants, convergence_constants
from solvers.weighting.total_error import TotalErrorProblem

__all__ = [
    "ConvergenceConstants",
    "CorrelationSweep",
    "ExclusionProblem",
    "OptimizationErrorProblem",
    "TotalErrorProblem",
    "auto",
    "brute_force",
    "ca_fed",
    "convergence_constants",
    "convex",
    "cp_sat",
    "dinkelbach",
    "newton",
    "optimization_error_by_cvxpy",
    "sorting",
    "sweep_correlation",
    "total_error_by_cvxpy",
]
