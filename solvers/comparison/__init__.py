"""Comparisons: methods × instances × seeds × time limits, every answer checked from outside, into one tidy table."""

from solvers.comparison.compare import Comparison, compare
from solvers.comparison.measures import distance, primal_gap, primal_integral

__all__ = ["Comparison", "compare", "distance", "primal_gap", "primal_integral"]
