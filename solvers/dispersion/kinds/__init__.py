"""Dispersion between kinds: clients that differ in nothing but their costs are counted, not listed."""

from solvers.dispersion.kinds import methods
from solvers.dispersion.kinds.equal import equal_rows, kinds_of
from solvers.dispersion.kinds.problem import KindDispersionProblem

__all__ = ["KindDispersionProblem", "equal_rows", "kinds_of", "methods"]
