"""Participation: aggregation weights for clients whose participation rate is unknown, as in FedAU."""

from solvers.participation import methods
from solvers.participation.problem import CutoffProblem
from solvers.participation.theory import Convergence, Smoothness, convergence_bound, step_sizes
from solvers.participation.weights import ParticipationWeights, expected_weight, second_moment, weight_error

__all__ = [
    "Convergence",
    "CutoffProblem",
    "ParticipationWeights",
    "Smoothness",
    "convergence_bound",
    "expected_weight",
    "methods",
    "second_moment",
    "step_sizes",
    "weight_error",
]
