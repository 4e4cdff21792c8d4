"""Aggregation weights of the fastest convergence (CA-Fed, Eqs. 27-29)."""

from solvers.weighting.optimization_error import methods
from solvers.weighting.optimization_error.problem import OptimizationErrorProblem

__all__ = ["OptimizationErrorProblem", "methods"]
