"""Method ``enumerate``: every cutoff that can be best."""

from __future__ import annotations

import math

import numpy as np

from solvers.participation.problem import CutoffProblem
from solvers.registry import method
from solvers.run import Run


@method(CutoffProblem, "enumerate", kind="exact")
def enumerate_cutoffs(problem: CutoffProblem, run: Run) -> None:
    """Evaluate K = 1, 2, … until the variance term alone exceeds the best value: exact, and never beyond T/ln T + 1.

    One pass over the clients per K, by repeated multiplication.
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
    run.tighten(min(best, (k + 1) * problem.price) * (1.0 - problem.rounding))
