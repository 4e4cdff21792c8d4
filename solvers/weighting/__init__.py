"""Weighting: which clients to keep, and with which aggregation weights, the decisions of CA-Fed."""

from solvers.weighting import aggregation, certificates, exclusion
from solvers.weighting.problem import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem
from solvers.weighting.theory import ConvergenceConstants, convergence_constants

__all__ = [
    "ConvergenceConstants",
    "ExclusionProblem",
    "OptimizationErrorProblem",
    "TotalErrorProblem",
    "aggregation",
    "certificates",
    "convergence_constants",
    "exclusion",
]
