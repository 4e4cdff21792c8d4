"""Dispersion between points: selection among more clients than a matrix of distances has room for."""

from solvers.dispersion.points import proof

__all__ = ["proof"]
