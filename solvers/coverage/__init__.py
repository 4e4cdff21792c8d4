"""Coverage: the clients that represent all others best, DivFL's facility location."""

from solvers.coverage import methods
from solvers.coverage.problem import CoverageProblem

__all__ = ["CoverageProblem", "methods"]
