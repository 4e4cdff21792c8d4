"""Weighting: which clients to keep, and with which aggregation weights, the decisions of CA-Fed."""

from solvers.weighting import proof
from solvers.weighting.exclusion import ExclusionProblem
from solvers.weighting.exclusion import proof as exclusion_proof
from solvers.weighting.optimization_error import OptimizationErrorProblem
from solvers.weighting.theory import ConvergenceConstants, CorrelationSweep, convergence_constants, sweep_correlation
from solvers.weighting.total_error import TotalErrorProblem

__all__ = [
    "ConvergenceConstants",
    "CorrelationSweep",
    "ExclusionProblem",
    "OptimizationErrorProblem",
    "TotalErrorProblem",
    "convergence_constants",
    "exclusion_proof",
    "proof",
    "sweep_correlation",
]
