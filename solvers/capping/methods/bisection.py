"""Method ``bisection``: halve the interval that holds the multiplier of the sum."""

from __future__ import annotations

import math

import numpy as np

from solvers.capping.problem import CappingProblem
from solvers.capping.reporting import report
from solvers.registry import method
from solvers.run import Run

__all__ = ["bisection"]


@method(CappingProblem, "bisection", kind="exact")
def bisection(problem: CappingProblem, run: Run) -> None:
    r"""Bisect on μ in :math:`\sum_i \min(v_i e^\mu, 1 - \sigma) = q`, then finish in closed form.

    The left side grows with μ, from at most q at 0. What is capped at the lower end of the final interval is capped at
    the solution, and the closed form from there is exact; so is it when the time limit cuts the halving short.
    """
    if problem.mass == 0:
        report(problem, run, np.zeros(problem.n, dtype=bool))
        return
    t, top = problem.log_shares, math.log(problem.room)
    low, high = 0.0, max(0.0, top - float(t.min()))
    while low < (middle := (low + high) / 2) < high and not run.expired:
        if float(np.exp(np.minimum(t + middle, top)).sum()) < problem.mass:
            low = middle
        else:
            high = middle
    # Slightly below the lower end, so that rounding cannot cap a client too many.
    report(problem, run, t + low > top + 1e-9)
