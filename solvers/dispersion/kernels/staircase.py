"""Longest paths through staircases: selections of m clients in order, r of the first j for every j.

``lower`` and ``upper`` (n + 1 entries each) are the least and largest r. A selection gains ``gain[j]`` for each of its
clients, and ``(2 r - m + 1) slope[j]`` for the one of rank r = 0 … m - 1: any function of client and rank would do.
"""

from __future__ import annotations

import numpy as np

from solvers.dispersion.kernels.compiler import part

__all__ = ["backward", "consistent", "fits", "narrow", "reach", "walk"]


@part
def consistent(lower, upper):  # type: ignore[no-untyped-def]
    """Narrow the ranks to those with steps of 0 or 1 on both sides; whether any staircase is left."""
    n = lower.size - 1
    for j in range(n):
        lower[j + 1] = max(lower[j + 1], lower[j])
        upper[j + 1] = min(upper[j + 1], upper[j] + 1)
    if lower[n] > upper[n]:
        return False
    for j in range(n - 1, -1, -1):
        lower[j] = max(lower[j], lower[j + 1] - 1)
        upper[j] = min(upper[j], upper[j + 1])
        if lower[j] > upper[j]:
            return False
    return True


@part
def reach(at, lower, upper, m):  # type: ignore[no-untyped-def]
    """The least and largest sum of positions of the staircases: the first and last place of each rank."""
    n = at.size
    low, high = 0.0, 0.0
    j = 0
    for r in range(m):
        while upper[j + 1] <= r:  # rank r can be taken at the first place behind which r + 1 may be reached
            j += 1
        low += at[j]
    j = n - 1
    for r in range(m - 1, -1, -1):
        while lower[j] > r:
            j -= 1
        high += at[j]
    return low, high


@part
def backward(gain, slope, m, lower, upper, start, table):  # type: ignore[no-untyped-def]
    """Fill the table with the best gains from (j, r) to the end; rows have −∞ on both sides."""
    n = gain.size
    place = 0
    for j in range(n + 1):
        start[j] = place - lower[j] + 1
        place += upper[j] - lower[j] + 3
    table[start[n] + m - 1], table[start[n] + m], table[start[n] + m + 1] = -np.inf, 0.0, -np.inf
    for j in range(n - 1, -1, -1):
        here, after = start[j], start[j + 1]
        g, d = gain[j], slope[j]
        table[here + lower[j] - 1] = -np.inf
        for r in range(lower[j], upper[j] + 1):
            skip = table[after + r]
            take = table[after + r + 1] + (g + (2 * r - m + 1) * d)
            table[here + r] = take if take > skip else skip
        table[here + upper[j] + 1] = -np.inf
    return table[start[0]]


@part
def walk(gain, slope, m, start, table, chosen):  # type: ignore[no-untyped-def]
    """The best staircase's places."""
    r = 0
    for j in range(gain.size):
        if r < m:
            take = table[start[j + 1] + r + 1] + (gain[j] + (2 * r - m + 1) * slope[j])
            if take >= table[start[j + 1] + r]:
                chosen[r] = j
                r += 1


@part
def narrow(gain, slope, m, lower, upper, start, table, least, row):  # type: ignore[no-untyped-def]
    """Cut ranks off that no staircase of gain above ``least`` reaches; whether any staircase is left."""
    n = gain.size
    for r in range(row.size):
        row[r] = -np.inf
    row[0] = 0.0
    for j in range(n + 1):
        low, high = lower[j], upper[j]
        for r in range(lower[j], upper[j] + 1):
            if row[r] + table[start[j] + r] > least:
                break
            low += 1
        for r in range(upper[j], low, -1):
            if row[r] + table[start[j] + r] > least:
                break
            high -= 1
        if low > upper[j]:
            return False
        if j < n:
            d = slope[j]
            stop = lower[j + 1]
            for r in range(upper[j + 1], max(stop, 1) - 1, -1):
                take = row[r - 1] + (gain[j] + (2 * r - m - 1) * d)
                if take > row[r]:
                    row[r] = take
            for r in range(lower[j], stop):
                row[r] = -np.inf
        lower[j], upper[j] = low, high
    return consistent(lower, upper)


@part
def fits(atoms, k, lower, upper, n):  # type: ignore[no-untyped-def]
    """Whether a selection keeps to the ranks."""
    r, m = 0, atoms.shape[1]
    for j in range(n + 1):
        if r < lower[j] or r > upper[j]:
            return False
        if r < m and atoms[k, r] == j:
            r += 1
    return True
