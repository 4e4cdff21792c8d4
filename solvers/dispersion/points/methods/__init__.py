"""One module a method, named by its keyword as for a matrix; importing them registers them."""

from solvers.dispersion.points.methods import (
    auto,
    branch_and_bound,
    circle,
    greedy,
    local_search,
    tabu,
    tangent,
)

__all__ = [
    "auto",
    "branch_and_bound",
    "circle",
    "greedy",
    "local_search",
    "tabu",
    "tangent",
]
