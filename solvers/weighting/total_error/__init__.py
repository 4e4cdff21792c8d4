"""Aggregation weights between fast convergence and small bias (CA-Fed, Eqs. 13-14)."""

from solvers.weighting.total_error import methods
from solvers.weighting.total_error.problem import TotalErrorProblem

__all__ = ["TotalErrorProblem", "methods"]
