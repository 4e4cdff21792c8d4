"""Weighting: which clients to keep, and with which aggregation weights, the decisions of CA-Fed."""

from solvers.weighting import proof
from solvers.weighting.exclusion import ExclusionProblem
from solvers.weighting.exclusion import proof as exclusion_proof
from solvers.weighting.optimization_error import OptimizationErrorProblem
from solvers.weighting.theory.guideline_b import CorrelationSweep, sweep_correlation
from solvers.weighting.theory.theorem2 import ConvergenceConstants, convergence_constants
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
