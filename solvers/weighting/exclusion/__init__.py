"""Exclusion: the clients to keep in the aggregation (CA-Fed, Eqs. 15-19)."""

from solvers.weighting.exclusion import methods
from solvers.weighting.exclusion.problem import ExclusionProblem

__all__ = ["ExclusionProblem", "methods"]
