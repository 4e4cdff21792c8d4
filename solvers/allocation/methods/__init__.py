"""One module a method, named by its keyword; importing them registers them."""

from solvers.allocation.methods import (
    auto,
    brute_force,
    cp_sat,
    cvxpy,
    greedy,
    kkt,
    largest_remainder,
    proportional,
)

__all__ = [
    "auto",
    "brute_force",
    "cp_sat",
    "cvxpy",
    "greedy",
    "kkt",
    "largest_remainder",
    "proportional",
]
