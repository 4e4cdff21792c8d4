"""Dispersion between points: selection among more clients than a matrix of distances has room for."""

from solvers.dispersion.points import methods, proof
from solvers.dispersion.points.problem import PointDispersionProblem

__all__ = ["PointDispersionProblem", "methods", "proof"]
