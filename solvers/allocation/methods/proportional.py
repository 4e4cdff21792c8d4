"""Method ``proportional``: FedSS-P, whole clients in proportion to the group sizes."""

from __future__ import annotations

import numpy as np

from solvers.allocation.problem import AllocationProblem
from solvers.allocation.whole import accepts_whole_start, best_whole
from solvers.registry import method
from solvers.run import Run

__all__ = ["proportional"]


@method(AllocationProblem, "proportional", kind="heuristic")
def proportional(problem: AllocationProblem, run: Run) -> None:
    """Allot as if all deviations were equal (FedSS-P, S_k = S·N_k/N within the bounds), in whole clients.

    What ``greedy`` gives for equal deviations, so that no group present is left without a client (largest remainders
    of S·N_k/N can do that). The bound beside it is that of the real deviations.
    """
    accepts_whole_start(problem, run)
    present = problem.upper > 0
    share = np.where(present, problem.sizes / problem.sizes[present].sum(), 0.0)
    run.offer(best_whole(problem, share**2))
    run.tighten(problem.relaxed_bound(problem.water_fill(problem.lower)[1]))
