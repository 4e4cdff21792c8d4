"""Allocation: how many clients to sample from each group, the stratified sampling of FedSS."""

from solvers.allocation import methods
from solvers.allocation.grouping import Grouping, group_clients, silhouette
from solvers.allocation.problem import AllocationProblem

__all__ = [
    "AllocationProblem",
    "Grouping",
    "group_clients",
    "methods",
    "silhouette",
]
