"""Method ``one-pass``: the common mistake, cutting off at 1 without sharing the excess out again."""

from __future__ import annotations

import numpy as np

from solvers.capping.problem import CappingProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["one_pass"]


@method(CappingProblem, "one-pass", kind="heuristic")
def one_pass(problem: CappingProblem, run: Run) -> None:
    """Allot in proportion and cut off at 1, once: the probabilities then sum to less than k.

    A public implementation of E3CS does this; with a floor of 0 it loses up to half of the k clients. When nothing
    exceeds 1 the answer is right and is offered. Otherwise it is no feasible decision, so ``Solution.x`` is ``None``
    and ``stopped`` is ``"error"``; the vector is in ``raw``, and what it lacks in ``details["shortfall"]``.
    """
    share = np.exp(problem.log_shares) if problem.mass else np.zeros(problem.n)
    raw = np.minimum(problem.floor + share, 1.0)
    shortfall = problem.size - float(raw.sum())
    run.details |= {"raw": raw, "shortfall": shortfall}
    if problem.violation(raw) <= problem.tolerance:
        run.offer(raw)
    else:
        run.stop(
            "error",
            f"one pass allots {raw.sum():.6g} of {problem.size}: what was cut off at 1 is not shared out again "
            "(raw has the vector)",
        )
