"""One module a method, named by its keyword; importing them registers them."""

from solvers.capping.methods import (
    as_printed,
    auto,
    bisection,
    cvxpy,
    exact_search,
    one_pass,
)

__all__ = [
    "as_printed",
    "auto",
    "bisection",
    "cvxpy",
    "exact_search",
    "one_pass",
]
