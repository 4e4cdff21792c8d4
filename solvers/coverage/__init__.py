"""Coverage: the clients that represent all others best, DivFL's facility location."""

from solvers.coverage import certificates, methods  # noqa: F401  (they register themselves)
from solvers.coverage.problem import CoverageProblem

__all__ = ["CoverageProblem", "methods"]
