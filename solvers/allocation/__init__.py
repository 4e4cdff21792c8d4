"""Allocation: how many clients to sample from each group, the stratified sampling of FedSS."""

from solvers.allocation.auto import auto
from solvers.allocation.brute_force import brute_force
from solvers.allocation.convex import convex
from solvers.allocation.cp_sat import cp_sat
from solvers.allocation.greedy import greedy
from solvers.allocation.grouping import Grouping, group_clients, silhouette
from solvers.allocation.kkt import kkt
from solvers.allocation.largest_remainder import largest_remainder
from solvers.allocation.problem import AllocationProblem
from solvers.allocation.proportional import proportional
from solvers.allocation.theory import (
    availability_bias,
    availability_variation,
    estimator_error,
    fedavg_term,
    neyman,
    precision_bound,
    proportional_advantage,
    stratified_term,
    training_term,
)

__all__ = [
    "AllocationProblem",
    "Grouping",
    "auto",
    "availability_bias",
    "availability_variation",
    "brute_force",
    "convex",
    "cp_sat",
    "estimator_error",
    "fedavg_term",
    "greedy",
    "group_clients",
    "kkt",
    "largest_remainder",
    "neyman",
    "precision_bound",
    "proportional",
    "proportional_advantage",
    "silhouette",
    "stratified_term",
    "training_term",
]
