"""Which clients are always at least as good a choice as which others, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.arrays import select
from solvers.dispersion.kernels.compiler import part

__all__ = ["preferences", "signatures"]


@part
def _nearest(row, i, most, values, near):
    """Put ``most`` clients besides i whose ``row`` is at most the ``most``-th smallest into ``near``; how many."""
    n = row.size
    count = 0
    for k in range(n):
        if k != i:
            values[count] = -row[k]
            count += 1
    far = select(values, count, most)
    count = 0
    for k in range(n):
        if k != i and -row[k] >= far and count < most:
            near[count] = k
            count += 1
    return count


def preferences(q, linear, m, rank, least):
    """Entry (i, j): beside any m − 1 others, i is worth no less than j, and ``rank`` puts i first.

    1 where that is so up to rounding, 2 where it is worth more by ``least``.
    The worst company for i instead of j are the m − 1 clients with the smallest ``q_ik − q_jk``. To begin with, the
    clients nearest to i are tried: for most pairs they are bad enough.
    """
    n = linear.size
    found = np.zeros((n, n), np.int8)
    differences = np.empty(n)
    near = np.empty(n, np.int64)
    for i in range(n):
        close = _nearest(q[i], i, min(m, n - 1), differences, near)
        for j in range(n):
            if i == j or rank[i] < rank[j] or (rank[i] == rank[j] and i > j):
                continue
            slack = linear[i] - linear[j]
            worst, count = 0.0, 0
            for c in range(close):
                k = near[c]
                if k != j and count < m - 1:
                    worst += q[j, k] - q[i, k]
                    count += 1
            if count == m - 1 and slack < 2.0 * worst:
                continue
            negative = 0.0
            count = 0
            for k in range(n):
                if k != i and k != j:
                    difference = q[j, k] - q[i, k]
                    differences[count] = difference
                    count += 1
                    if difference > negative:
                        negative = difference
            if slack >= 2.0 * (m - 1) * negative + least:
                found[i, j] = 2
                continue
            select(differences, count, m - 1)
            worst = 0.0
            for k in range(m - 1):
                worst += differences[k]
            slack -= 2.0 * worst
            found[i, j] = 2 if slack >= least else 1 if slack >= 0.0 else 0
    return found


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int64

    return {preferences: (float64[:, ::1], float64[::1], int64, float64[::1], float64)}
