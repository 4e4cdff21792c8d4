"""Weighting: which clients to keep, and with which aggregation weights, the decisions of CA-Fed."""

from solvers.weighting import aggregation, exclusion, proof
from solvers.weighting.problem import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem
from solvers.weighting.theory import ConvergenceConstants, CorrelationSweep, convergence_constants, sweep_correlation

__all__ = [
    "ConvergenceConstants",
    "CorrelationSweep",
    "ExclusionProblem",
    "OptimizationErrorProblem",
    "TotalErrorProblem",
    "aggregation",
    "convergence_constants",
    "exclusion",
    "proof",
    "sweep_correlation",
]
