"""Dispersion between kinds: clients that differ in nothing but their costs are counted, not listed."""

from solvers.dispersion.kinds.equal import equal_rows, kinds_of

__all__ = ["equal_rows", "kinds_of"]
