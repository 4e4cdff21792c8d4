"""One module a method, named by its keyword; importing them registers them."""

from solvers.weighting.total_error.methods import (
    auto,
    cvxpy,
    newton,
)

__all__ = [
    "auto",
    "cvxpy",
    "newton",
]
