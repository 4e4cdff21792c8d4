"""Benchmarks: methods × instances × seeds × time limits, every answer checked from outside, into one tidy table.

`run_benchmark` runs one; `performance_profile`, `win_matrix`, `gap_over_time` and `cost_against_size` sum its table
up, and `solvers.benchmark.figures` draws them.
"""

from solvers.benchmark.profiles import cost_against_size, gap_over_time, performance_profile, win_matrix
from solvers.benchmark.running import run_benchmark
from solvers.benchmark.table import Benchmark, distance, primal_gap, primal_integral
from solvers.errors import BenchmarkError

__all__ = [
    "Benchmark",
    "BenchmarkError",
    "cost_against_size",
    "distance",
    "gap_over_time",
    "performance_profile",
    "primal_gap",
    "primal_integral",
    "run_benchmark",
    "win_matrix",
]
