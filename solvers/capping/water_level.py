"""From an overflow set to the probabilities, and what every convex method here reports."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.capping.problem import CappingProblem, log_sum
from solvers.run import Run

__all__ = ["report", "share_out"]

#: A share above the ceiling by less than this is rounding of an exact tie.
TIE = 1e-12


def share_out(
    problem: CappingProblem, capped: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float, NDArray[np.bool_]]:
    """Cap ``capped``, share the rest out in proportion, and cap whoever that lifts above 1, until nobody is.

    Starting from any subset of the overflow set (the empty one included) this ends at the overflow set: a client
    above 1 stays above it when more clients are capped.

    Parameters
    ----------
    problem : CappingProblem
        The problem.
    capped : (K,) ndarray of bool
        Clients known to overflow.

    Returns
    -------
    x : (K,) ndarray
        The probabilities.
    multiplier : float
        μ, the logarithm of probability above the floor over proportional share, for clients not capped.
    capped : (K,) ndarray of bool
        The overflow set.
    """
    n, k, floor, room = problem.n, problem.size, problem.floor, problem.room
    if problem.mass == 0:
        return np.full(n, k / n), 0.0, np.zeros(n, dtype=bool)
    t = problem.log_shares
    if k == n:  # everybody has 1, and the level is not unique: the highest is the smallest share's
        return np.ones(n), math.log(room) - float(t.min()), t > t.min()
    while True:
        m = int(capped.sum())
        free = t if m == 0 else t[~capped]
        top = float(free.max())
        parts = np.exp(free - top)
        # (k - m) - (K - m)σ rather than q - m(1 - σ): the integers are exact.
        left, total = (k - m) - (n - m) * floor, float(parts.sum())
        parts *= left / total
        over = parts > room * (1 + TIE)
        if not over.any() or over.all():
            break
        capped = capped.copy()
        capped[~capped] = over
    x = np.ones(n)
    x[~capped] = np.minimum(parts + floor, 1.0)
    multiplier = 0.0 if m == 0 else math.log(left) - top - math.log(total)
    return x, multiplier, capped


def report(problem: CappingProblem, run: Run, capped: NDArray[np.bool_]) -> None:
    """Offer the probabilities that follow from (a subset of) the overflow set, with bound, duals and details."""
    x, multiplier, capped = share_out(problem, capped)
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


def tail_sums(descending: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of R_m: the sum over ``rest`` and ``descending[m:]``, for each m."""
    base = [log_sum(rest)] if rest.size else [-math.inf]
    return np.logaddexp.accumulate(np.concatenate([base, descending[::-1]]))[:0:-1]
