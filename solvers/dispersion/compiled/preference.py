"""Which clients are always at least as good a choice as which others, compiled."""

from __future__ import annotations

import numpy as np
from numba import float64, int64

from solvers.dispersion.compiled.arrays import select
from solvers.dispersion.compiled.declare import build, kernel

__all__ = ["preferences", "prepare"]


@kernel
def preferences(q, linear, m, rank, least):  # type: ignore[no-untyped-def]
    """Entry (i, j): beside any m − 1 others, i is worth no less than j, and ``rank`` puts i first.

    1 where that is so up to rounding, 2 where it is worth more by ``least``.
    The worst company for i instead of j are the m − 1 clients with the smallest ``q_ik − q_jk``.
    """
    n = linear.size
    found = np.zeros((n, n), np.int8)
    differences = np.empty(n)
    for i in range(n):
        for j in range(n):
            if i == j or rank[i] < rank[j] or (rank[i] == rank[j] and i > j):
                continue
            slack = linear[i] - linear[j]
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


def prepare(precision: str) -> None:
    """Build the kernel; it works in double precision."""
    build(preferences, (float64[:, ::1], float64[::1], int64, float64[::1], float64))
