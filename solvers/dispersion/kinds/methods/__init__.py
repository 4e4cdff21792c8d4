"""The methods for kinds, one a file, under the keywords they have for a matrix."""

from solvers.dispersion.kinds.methods.auto import auto
from solvers.dispersion.kinds.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.kinds.methods.greedy import greedy
from solvers.dispersion.kinds.methods.local_search import local_search
from solvers.dispersion.kinds.methods.tangent import tangent

__all__ = ["auto", "branch_and_bound", "greedy", "local_search", "tangent"]
