"""Methods for cutoff problems: FedAU's rule, and every cutoff that can be best."""

from __future__ import annotations

import math

import numpy as np

from solvers.certificate_writers import certificate_writer
from solvers.certificates import Certificate, problem_digest
from solvers.participation.problem import CutoffProblem
from solvers.registry import method
from solvers.run import Run
from solvers.solution import Solution


@method(CutoffProblem, "corollary", kind="heuristic")
def corollary(problem: CutoffProblem, run: Run) -> None:
    r"""Corollary 4's rule, :math:`K = \lceil \ln T / (-2 \ln(1 - p_{\min})) \rceil`, at least 1.

    The smallest K for which every client's squared bias :math:`(1 - p)^{2K}` is at most 1/T.
    """
    run.offer(corollary_cutoff(problem))


def corollary_cutoff(problem: CutoffProblem) -> int:
    """Return the cutoff of Corollary 4, up to 2^61; a quotient within rounding of an integer counts as that integer."""
    slowest = float(problem.rates.min())
    if slowest == 1.0:
        return 1
    quotient = math.log(problem.horizon) / (-2.0 * math.log1p(-slowest))
    return max(1, math.ceil(min(quotient * (1.0 - 1e-12), 2.0**61)))  # a decision is below 2^62


@method(CutoffProblem, "enumerate", kind="exact")
def enumerate_cutoffs(problem: CutoffProblem, run: Run) -> None:
    """Evaluate K = 1, 2, … until the variance term alone exceeds the best value: exact, and never beyond T/ln T + 1.

    One pass over the distinct rates per K, by repeated multiplication.
    """
    rates, counts = np.unique(problem.rates, return_counts=True)
    factor = (1.0 - rates) ** 2
    power = counts / problem.rates.shape[0]
    best, k = math.inf, 0
    while (k + 1) * problem.price < best and not (k > 0 and run.expired):
        k += 1
        power *= factor
        value = k * problem.price + float(power.sum())
        if value < best:
            best = value
            run.offer(k)
    # Larger cutoffs cost more than this; with time to spare that is beyond the best.
    least = min(best, (k + 1) * problem.price)
    run.tighten(least, problem.rounding * least)


@method(CutoffProblem, "auto", kind="exact")
def auto(problem: CutoffProblem, run: Run) -> None:
    """``enumerate``, after Corollary 4's cutoff was offered."""
    run.offer(corollary_cutoff(problem))
    enumerate_cutoffs(problem, run)


@certificate_writer(CutoffProblem)
def write_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The solution itself: the objective is convex in the cutoff."""
    if solution.x is None or solution.bound is None:
        return None
    arrays = {"cutoff": np.array([int(solution.x)])}
    return Certificate("cutoff", problem_digest(solution.problem), float(solution.bound), 0, arrays)
