"""Client-selection problems of federated learning, and methods that solve them.

>>> import numpy as np
>>> from solvers import solve
>>> from solvers.dispersion import DispersionProblem
>>> points = np.array([0.0, 1.0, 5.0, 6.0])
>>> problem = DispersionProblem(abs(points[:, None] - points), costs=np.zeros(4), size=2)
>>> solution = solve(problem, method="brute-force")
>>> [int(client) for client in solution.selected], solution.objective, solution.status
([0, 3], 12.0, 'optimal')
"""

from solvers.background import SolutionFuture
from solvers.errors import (
    Contradiction,
    InvalidAnswer,
    InvalidOption,
    InvalidProblem,
    MissingBackend,
    SolversError,
    UnknownMethod,
)
from solvers.fronts import Front, frontier
from solvers.infeasibility import Conflict, conflict
from solvers.notices import quiet
from solvers.problem import Problem, load
from solvers.registry import Method, method, methods
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP, Solution, TracePoint, relative_gap
from solvers.solving import solve, submit, with_bound, with_dropped_constraints
from solvers.version import __version__

__all__ = [
    "OPTIMALITY_GAP",
    "Conflict",
    "Contradiction",
    "Front",
    "InvalidAnswer",
    "InvalidOption",
    "InvalidProblem",
    "Method",
    "MissingBackend",
    "Problem",
    "Run",
    "Solution",
    "SolutionFuture",
    "SolversError",
    "TracePoint",
    "UnknownMethod",
    "__version__",
    "conflict",
    "frontier",
    "load",
    "method",
    "methods",
    "quiet",
    "relative_gap",
    "solve",
    "submit",
    "with_bound",
    "with_dropped_constraints",
]
