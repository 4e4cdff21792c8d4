"""Allocation: how many clients to sample from each group, the stratified sampling of FedSS."""

from solvers.allocation import methods
from solvers.allocation.grouping import Grouping, group_clients, silhouette
from solvers.allocation.problem import AllocationProblem
from solvers.allocation.theory import (
    Dissimilarity,
    availability_bias,
    availability_variation,
    dissimilarity,
    estimator_error,
    fedavg_term,
    neyman,
    precision_bound,
    proportional_advantage,
    separation_threshold,
    stratified_term,
    training_term,
)

__all__ = [
    "AllocationProblem",
    "Dissimilarity",
    "Grouping",
    "availability_bias",
    "availability_variation",
    "dissimilarity",
    "estimator_error",
    "fedavg_term",
    "group_clients",
    "methods",
    "neyman",
    "precision_bound",
    "proportional_advantage",
    "separation_threshold",
    "silhouette",
    "stratified_term",
    "training_term",
]
