"""One module a method, named by its keyword; importing them registers them."""

from solvers.weighting.optimization_error.methods import (
    auto,
    cvxpy,
    dinkelbach,
)

__all__ = [
    "auto",
    "cvxpy",
    "dinkelbach",
]
