"""Method ``exact-search``: sort, and find the number of capped clients from prefix sums."""

from __future__ import annotations

import numpy as np

from solvers.capping.problem import CappingProblem
from solvers.capping.reporting import report
from solvers.capping.water_level import TIE, tail_sums
from solvers.registry import method
from solvers.run import Run

__all__ = ["exact_search"]


@method(CappingProblem, "exact-search", kind="exact")
def exact_search(problem: CappingProblem, run: Run) -> None:
    r"""Cap the m largest weights, m from sorted prefix sums in log space; O(K + k log k).

    m is the smallest number with :math:`(q - m(1 - \sigma))\, w_{(m+1)} \le (1 - \sigma) R_m`, where
    :math:`R_m = \sum_{j > m} w_{(j)}` over the weights in descending order; then :math:`\alpha = R_m / (q - m(1 -
    \sigma))`. Both are Eqs. 21-23 of the paper with the partition of Eqs. 22-23 corrected: the sums split where
    :math:`\Psi_j \le \Psi_{i_v}`, not where :math:`w_j \le \Psi_{i_v}` (the reading kept in ``as-printed``).
    """
    nobody = np.zeros(problem.n, dtype=bool)
    if problem.mass == 0 or problem.size == problem.n:
        report(problem, run, nobody)
        return
    # No more than q / (1 - σ) clients fit under the ceiling, so only that many need to be sorted.
    n, floor, room = problem.n, problem.floor, problem.room
    most = min(n, int(problem.mass / room) + 2)
    parted = np.partition(problem.log_shares, n - most)
    descending = np.sort(parted[n - most :])[::-1]
    tails = tail_sums(descending, parted[: n - most])
    m = np.arange(most)
    left = (problem.size - m) - (n - m) * floor
    holds = left * np.exp(descending - tails) <= room * (1 + TIE)
    first = int(holds.argmax()) if holds.any() else most - 1
    report(problem, run, problem.log_shares > descending[first])
