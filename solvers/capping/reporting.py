"""What every convex method of the capping problem reports: probabilities, bound, duals and details."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.capping.problem import CappingProblem
from solvers.run import Run

__all__ = ["describe", "report"]


def report(problem: CappingProblem, run: Run, capped: NDArray[np.bool_]) -> None:
    """Offer the probabilities that follow from (a subset of) the overflow set, with bound, duals and details."""
    x, multiplier, capped = problem.share_out(capped)
    run.offer(x)
    run.tighten(problem.dual_bound(multiplier))
    describe(problem, run, multiplier, capped)


def describe(problem: CappingProblem, run: Run, multiplier: float, capped: NDArray[np.bool_]) -> None:
    """Fill ``run.duals`` and ``run.details`` from the level and the overflow set.

    ``alpha`` is the paper's α_t (probability above the floor is w/α), ``cap`` the weight (1 − σ)α at which clients
    are capped; both are infinite when nobody is. Their logarithms are there too, for weights beyond 1e308.
    """
    if problem.mass == 0:
        upper = np.zeros(problem.n)
    else:
        upper = np.where(capped, problem.log_shares + multiplier - math.log(problem.room), 0.0)
        np.maximum(upper, 0.0, out=upper)
    log_alpha = math.inf
    if capped.any():
        log_alpha = problem.log_total - math.log(problem.mass) - multiplier
    log_cap = log_alpha + math.log(problem.room) if math.isfinite(log_alpha) else math.inf
    with np.errstate(over="ignore"):
        alpha, cap = float(np.exp(log_alpha)), float(np.exp(log_cap))
    run.duals = {"multiplier": multiplier, "upper": upper}
    run.details |= {
        "alpha": alpha,
        "log_alpha": log_alpha,
        "cap": cap,
        "log_cap": log_cap,
        "overflow": np.flatnonzero(capped),
    }
