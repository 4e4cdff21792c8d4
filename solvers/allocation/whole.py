"""The exact allocation in whole clients: a threshold search that lands close, and a heap that finishes."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from solvers.allocation.problem import AllocationProblem
from solvers.allocation.water_filling import fill
from solvers.errors import InvalidOption
from solvers.run import Run

__all__ = ["accepts_whole_start", "allocate", "best_whole", "next_gain"]

#: Clients handed out one by one at the end; more than this many are first narrowed down by the threshold.
BY_HEAP = 256


def allocate(
    costs: NDArray[np.float64], total: int, first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    r"""Minimise :math:`\sum_k c_k / s_k` over whole :math:`\text{first} \le s \le \text{upper}` that sum to ``total``.

    Adding the next client to group k gains :math:`c_k / (s(s + 1))`, less each time, so the ``total − Σ first``
    largest gains of all groups together are a feasible choice and the best one (Fox 1966; Wright 2017). Those above a
    threshold t are counted in closed form, :math:`s(s + 1) \le c_k / t`; a bisection on t comes close to the wanted
    number from below in O(K) a step, and a heap hands out the rest. Ties go to the lowest index.

    Parameters
    ----------
    costs : (K,) ndarray
        c > 0.
    total : int
        Wanted sum, between those of the bounds.
    first, upper : (K,) ndarray of int
        Bounds, 1 ≤ first ≤ upper.

    Returns
    -------
    (K,) ndarray of int
        An optimal allocation.
    """
    a = np.sqrt(costs)
    s = first.copy()
    if total - int(s.sum()) > BY_HEAP:
        _, level = fill(a, float(total), first.astype(np.float64), upper.astype(np.float64))
        low, high = 0.0, level
        while int(_above(high, a, first, upper).sum()) < total:
            low, high = high, 2.0 * high
        for _ in range(100):
            middle = (low + high) / 2
            missing = total - int(_above(middle, a, first, upper).sum())
            low, high = (middle, high) if missing >= 0 else (low, middle)
            if 0 <= missing <= BY_HEAP or not low < (low + high) / 2 < high:
                break
        s = _above(low, a, first, upper)
    heap = [(-gain, k) for k, gain in enumerate(next_gain(costs, s, upper).tolist()) if gain > 0]
    heapq.heapify(heap)
    for _ in range(total - int(s.sum())):
        k = heap[0][1]
        s[k] += 1
        if s[k] < upper[k]:
            held = float(s[k])
            heapq.heapreplace(heap, (-float(costs[k]) / (held * (held + 1.0)), k))
        else:
            heapq.heappop(heap)
    return s


def _above(
    level: float, a: NDArray[np.float64], first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The allocation that takes every gain above the threshold 1/level²; a trifle short, never one too many."""
    with np.errstate(over="ignore"):
        count = np.floor((np.sqrt(1.0 + 4.0 * (level * a) ** 2) - 1.0) / 2.0 * (1.0 - 1e-12)) + 1.0
    return np.clip(count, first, upper).astype(np.int64)


def next_gain(costs: NDArray[np.float64], s: NDArray[np.int64], upper: NDArray[np.int64]) -> NDArray[np.float64]:
    """What one more client of each group gains, c / (s (s + 1)); 0 where there is none."""
    held = np.maximum(s, 1).astype(np.float64)
    return np.where(s < upper, costs / (held * (held + 1.0)), 0.0)


def best_whole(problem: AllocationProblem, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """The allocation that is best for ``costs``; groups where they are 0 share the rest in proportion to their sizes.

    Those groups stay at their lower bound while others have room.
    """
    s = problem.first.copy()
    counts = costs > 0
    idle = ~counts & (problem.upper > 0)
    wanted = min(problem.total - int(s[idle].sum()), int(problem.upper[counts].sum()))
    for group, weights, budget in (
        (counts, costs, wanted),
        (idle, (problem.sizes / problem.sizes.max()) ** 2, problem.total - wanted),
    ):
        if group.any():
            s[group] = _spread(weights[group], budget, s[group], problem.upper[group])
    return s


def _spread(
    costs: NDArray[np.float64], total: int, first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`allocate` where ``first`` may be 0: a first client gains infinitely, so it comes before any second one."""
    start = np.maximum(first, 1)
    if total >= int(start.sum()):
        return allocate(costs, total, start, upper)
    order = np.argsort(np.where(first == 0, -costs, np.inf), kind="stable")
    s = first.copy()
    s[order[: total - int(first.sum())]] += 1
    return s


def accepts_whole_start(problem: AllocationProblem, run: Run) -> None:
    """Refuse a start in real numbers: a bound over whole clients would not hold for it."""
    if run.x is not None and not problem.integral(run.x):
        raise InvalidOption(f"start must be in whole clients for {run.method!r}, whose bound holds for these only")
