"""One module a method, named by its keyword; importing them registers them."""

from solvers.weighting.exclusion.methods import (
    auto,
    brute_force,
    ca_fed,
    convex,
    cp_sat,
    sorting,
)

__all__ = [
    "auto",
    "brute_force",
    "ca_fed",
    "convex",
    "cp_sat",
    "sorting",
]
