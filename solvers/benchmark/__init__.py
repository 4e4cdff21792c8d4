"""Comparisons: methods × instances × seeds × time limits, every answer checked from outside, into one tidy table.

`compare` runs one; `performance_profile`, `win_matrix`, `gap_over_time` and `cost_against_size` sum its table up, and
`solvers.benchmark.figures` draws them.
"""

from solvers.benchmark.compare import Comparison, compare
from solvers.benchmark.measures import distance, primal_gap, primal_integral
from solvers.benchmark.profiles import cost_against_size, gap_over_time, performance_profile, win_matrix
from solvers.errors import ComparisonError

__all__ = [
    "Comparison",
    "ComparisonError",
    "compare",
    "cost_against_size",
    "distance",
    "gap_over_time",
    "performance_profile",
    "primal_gap",
    "primal_integral",
    "win_matrix",
]
