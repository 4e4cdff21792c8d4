"""Participation: aggregation weights for clients whose participation rate is unknown, as in FedAU."""

from solvers.participation import methods
from solvers.participation.problem import CutoffProblem
from solvers.participation.weights import ParticipationWeights, expected_weight, second_moment, weight_error

__all__ = [
    "CutoffProblem",
    "ParticipationWeights",
    "expected_weight",
    "methods",
    "second_moment",
    "weight_error",
]
