"""Method ``brute-force``: look at every allocation in whole clients."""

from __future__ import annotations

import numpy as np

from solvers.allocation.problem import AllocationProblem
from solvers.allocation.whole import accepts_whole_start
from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["LARGEST", "brute_force"]

#: Numbers brute force is willing to hold: allocations times groups.
LARGEST = 20_000_000


@method(AllocationProblem, "brute-force", kind="exact")
def brute_force(problem: AllocationProblem, run: Run) -> None:
    """Evaluate every allocation in whole clients; the reference that other methods are tested against.

    Raises
    ------
    InvalidProblem
        When allocations times groups exceed 20 million.
    """
    accepts_whole_start(problem, run)
    first, upper, n = problem.first, problem.upper, problem.n
    if (count := _allocations(problem)) * n > LARGEST:
        raise InvalidProblem(
            f"brute-force would look at {count:.3g} allocations over {n} groups; it accepts at most "
            f"{LARGEST // n} (use 'greedy' or 'cp-sat')"
        )
    # Groups one by one: every prefix that the remaining groups can still complete to the total.
    prefixes = np.zeros((1, 0), dtype=np.int64)
    for group in range(n):
        choices = np.arange(first[group], upper[group] + 1)
        prefixes = np.hstack([np.repeat(prefixes, choices.size, axis=0), np.tile(choices, len(prefixes))[:, None]])
        left = problem.total - prefixes.sum(axis=1)
        prefixes = prefixes[(left >= first[group + 1 :].sum()) & (left <= upper[group + 1 :].sum())]
        if run.expired:
            return
    values = np.zeros(len(prefixes))
    for k in np.flatnonzero(problem.costs > 0).tolist():
        values += problem.costs[k] * ((problem.sizes[k] - prefixes[:, k]) / problem.sizes[k] / prefixes[:, k])
    best = run.offer(prefixes[int(values.argmin())])
    # All terms are non-negative, so each sum is right to K + 4 roundings.
    run.tighten(best * (1.0 - 2.0 * np.finfo(np.float64).eps * (n + 4)))
    run.nodes = len(prefixes)


def _allocations(problem: AllocationProblem) -> int:
    """How many allocations there are, by dynamic programming over the sum (exact; stops early when too many)."""
    spare = problem.total - int(problem.first.sum())
    ways = [1] + [0] * spare
    for width in (problem.upper - problem.first).tolist():
        running, sums = 0, []
        for used in range(spare + 1):
            running += ways[used] - (ways[used - width - 1] if used > width else 0)
            sums.append(running)
        ways = sums
        if ways[0] * max(ways) > 10**30:
            break
    return ways[spare]
