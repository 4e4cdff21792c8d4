"""The methods for points, one a file, under the keywords they have for a matrix."""

from solvers.dispersion.points.methods.auto import auto
from solvers.dispersion.points.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.points.methods.greedy import greedy
from solvers.dispersion.points.methods.local_search import local_search
from solvers.dispersion.points.methods.tabu import tabu
from solvers.dispersion.points.methods.tangent import tangent

__all__ = ["auto", "branch_and_bound", "greedy", "local_search", "tabu", "tangent"]
