"""The papers' experiments, run again: one module per study, and the runner that they share."""

from typing import Final

__all__ = ["STUDIES"]

#: Names of the studies; a module of this package defines each, with hyphens as underscores.
STUDIES: Final = (
    "fedgs",
    "ca-fed",
    "fedau",
    "e3cs",
    "fedss",
    "exact-vs-heuristic",
    "exact-selectors",
    "e3cs-regret",
    "graph-worth",
    "optimisers-curse",
    "price-of-myopia",
    "bias-and-variance",
    "bounds",
    "frontier",
)
