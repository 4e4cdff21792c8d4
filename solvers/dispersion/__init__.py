"""Dispersion: choose m clients far apart and cheap, the selection step of FedGS."""

from solvers.dispersion.brute_force import brute_force
from solvers.dispersion.greedy import greedy
from solvers.dispersion.local_search import local_search
from solvers.dispersion.problem import DispersionProblem

__all__ = ["DispersionProblem", "brute_force", "greedy", "local_search"]
