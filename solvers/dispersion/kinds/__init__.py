"""Dispersion between kinds: clients that differ in nothing but their costs are counted, not listed."""

from solvers.dispersion.kinds import methods
from solvers.dispersion.kinds.problem import KindDispersionProblem

__all__ = ["KindDispersionProblem", "methods"]
