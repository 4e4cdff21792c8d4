"""Participation: aggregation weights for clients whose participation rate is unknown, as in FedAU."""

from solvers.participation.cutoff import CutoffProblem, auto, corollary, enumerate_cutoffs
from solvers.participation.history import second_moment, weight_error
from solvers.participation.weights import ParticipationWeights, expected_weight

__all__ = [
    "CutoffProblem",
    "ParticipationWeights",
    "auto",
    "corollary",
    "enumerate_cutoffs",
    "expected_weight",
    "second_moment",
    "weight_error",
]
