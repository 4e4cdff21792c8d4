"""One module a method, named by its keyword; importing them registers them."""

from solvers.participation.methods import (
    auto,
    corollary,
    enumerate,
)

__all__ = [
    "auto",
    "corollary",
    "enumerate",
]
