"""Kernels for points on a circle or a line: a node of the tree over staircases.

See `solvers.dispersion.tree.circle` for the mathematics. A node knows the least and largest rank at every place, and
an interval for the sum of the positions; its bound is a longest path.

Longest paths through staircases: selections of m clients in order, r of the first j for every j.

``lower`` and ``upper`` (n + 1 entries each) are the least and largest r. A selection gains ``gain[j]`` for each of its
clients, and ``(2 r - m + 1) slope[j]`` for the one of rank r = 0 … m - 1: any function of client and rank would do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.compiler import part

__all__ = ["BRANCH", "DROPPED", "LEAF", "SPLIT", "look", "signatures", "value"]


@part
def consistent(lower, upper):
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
def reach(at, lower, upper, m):
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
def backward(gain, slope, m, lower, upper, start, table):
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
def walk(gain, slope, m, start, table, chosen):
    """The best staircase's places."""
    r = 0
    for j in range(gain.size):
        if r < m:
            take = table[start[j + 1] + r + 1] + (gain[j] + (2 * r - m + 1) * slope[j])
            if take >= table[start[j + 1] + r]:
                chosen[r] = j
                r += 1


@part
def narrow(gain, slope, m, lower, upper, start, table, least, row):
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
def fits(atoms, k, lower, upper, n):
    """Whether a selection keeps to the ranks."""
    r, m = 0, atoms.shape[1]
    for j in range(n + 1):
        if r < lower[j] or r > upper[j]:
            return False
        if r < m and atoms[k, r] == j:
            r += 1
    return True


#: What a node ends with: nothing in it is better, ranks to branch on, a sum to split, nothing to do.
DROPPED, BRANCH, SPLIT, LEAF = 0, 1, 2, 3


@part
def _remainder(at, cosine, sine, scale, curve, x, out):
    """``out = D x``, D the chords less ``|difference| − curve · difference²``; positions are in order."""
    c, s, one, first, second = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        c += cosine[i] * x[i]
        s += sine[i] * x[i]
        one += x[i]
        first += at[i] * x[i]
        second += at[i] * at[i] * x[i]
    # What lies before client i, less what lies behind it.
    dc, ds, d1, dp = -c, -s, -one, -first
    for i in range(x.size):
        dc += cosine[i] * x[i]
        ds += sine[i] * x[i]
        d1 += x[i]
        dp += at[i] * x[i]
        chords = 2.0 * (sine[i] * dc - cosine[i] * ds)
        lengths = at[i] * d1 - dp
        out[i] = scale * (chords - lengths + curve * (at[i] * (at[i] * one - 2.0 * first) + second))
        dc += cosine[i] * x[i]
        ds += sine[i] * x[i]
        d1 += x[i]
        dp += at[i] * x[i]


@part
def _value(at, cosine, sine, linear, scale, chords, chosen):
    """The objective of a selection, given by increasing places: distances are chords, or lengths on a line."""
    c, s, total, gain = 0.0, 0.0, 0.0, 0.0
    for r in range(chosen.size):
        i = chosen[r]
        if chords:
            total += 2.0 * (sine[i] * c - cosine[i] * s)
            c += cosine[i]
            s += sine[i]
        else:
            total += at[i] * r - c
            c += at[i]
        gain += linear[i]
    return 2.0 * scale * total + gain


def value(at, cosine, sine, linear, scale, chords, chosen):
    """The objective of a selection, given by increasing places."""
    return _value(at, cosine, sine, linear, scale, chords, chosen)


@part
def _kept(atoms, weights, lower, upper, n):
    """Give the weight of the selections that do not keep to the ranks to those that do; whether there are any."""
    total = 0.0
    for k in range(weights.size):
        if weights[k] > 0.0 and not fits(atoms, k, lower, upper, n):
            weights[k] = 0.0
        total += weights[k]
    if total > 0.0:
        for k in range(weights.size):
            weights[k] /= total
    return total > 0.0


@part
def _mix(atoms, weights, x):
    """The point that the selections make with their weights."""
    for j in range(x.size):
        x[j] = 0.0
    for k in range(weights.size):
        if weights[k] > 0.0:
            for r in range(atoms.shape[1]):
                x[atoms[k, r]] += weights[k]


@part
def _slot(atoms, weights, chosen):
    """Where a selection stands among the others, or could; -1 where there is no room."""
    empty = -1
    for k in range(weights.size):
        if weights[k] <= 0.0:
            empty = k
            continue
        same = True
        for r in range(chosen.size):
            if atoms[k, r] != chosen[r]:
                same = False
                break
        if same:
            return k
    if empty >= 0:
        for r in range(chosen.size):
            atoms[empty, r] = chosen[r]
    return empty


@part
def _shift(at, cosine, sine, scale, curve, gain, slope, atoms, weights, chosen, top, enough, x):
    """Move weight from the worst selection to the best one (pairwise Frank-Wolfe); whether there was any gain.

    ``enough`` is the bound above what counts: a point from which less than a tenth of that can be gained will do.
    """
    n, m = at.size, chosen.size
    mean, worst, away = 0.0, np.inf, -1
    for k in range(weights.size):
        if weights[k] > 0.0:
            told = 0.0
            for r in range(m):
                told += gain[atoms[k, r]] + (2 * r - m + 1) * slope[atoms[k, r]]
            mean += weights[k] * told
            if told < worst:
                worst, away = told, k
    rise = top - mean
    if rise <= max(0.1 * (enough - rise), 1e-14 * scale * m * m):
        return False
    place = _slot(atoms, weights, chosen)
    if place < 0 or place == away:
        return False
    direction, moved = np.zeros(n), np.empty(n)
    for r in range(m):
        direction[chosen[r]] += 1.0
        direction[atoms[away, r]] -= 1.0
    _remainder(at, cosine, sine, scale, curve, direction, moved)
    bend = 0.0
    for j in range(n):
        bend += direction[j] * moved[j]
    length = weights[away]
    if bend < 0.0:
        length = min(length, (top - worst) / (-2.0 * bend))
    weights[place] += length
    weights[away] = weights[away] - length if length < weights[away] else 0.0
    for j in range(n):
        x[j] += length * direction[j]
    return True


@part
def _branching(at, cosine, sine, linear, scale, curve, chords, sums, atoms, weights, x, bound, found):
    """Split the sum where it explains more of what the bound is above the point's selections, else branch on ranks."""
    n, m = at.size, atoms.shape[1]
    middle, half = 0.5 * (sums[0] + sums[1]), 0.5 * (sums[1] - sums[0])
    above, spread, mean = bound, 0.0, 0.0
    for k in range(weights.size):
        if weights[k] > 0.0:
            total = 0.0
            for r in range(m):
                total += at[atoms[k, r]]
            above -= weights[k] * _value(at, cosine, sine, linear, scale, chords, atoms[k])
            spread += weights[k] * 2.0 * curve * scale * (half * half - (total - middle) * (total - middle))
            mean += weights[k] * total
    # Between clients at one place it is no use: who of them comes first is a matter of costs.
    place, rank, most, before, apart = -1, 0, 1e-6, 0.0, 1e-9 * (at[n - 1] - at[0])
    for j in range(n - 1):
        before += x[j]
        whole = np.floor(before)
        fraction = min(before - whole, whole + 1.0 - before)
        if at[j + 1] - at[j] <= apart:
            fraction *= 1e-3
        if fraction > most:
            place, rank, most = j + 1, int(whole), fraction
    if place < 0 or spread > above - spread:
        if spread > 0.0 and half > 1e-13 * m * (np.abs(at[0]) + np.abs(at[n - 1])):
            found[1] = min(max(mean, middle - 0.6 * half), middle + 0.6 * half)
            return SPLIT, bound, 0, 0
        if place < 0:
            return LEAF, bound, 0, 0
    return BRANCH, bound, place, rank


def look(  # noqa: C901
    at, cosine, sine, linear, scale, curve, chords, lower, upper, sums, atoms, weights, x, least, steps, table, best,
    found,
):  # fmt: skip
    """Bound a node, narrow it, and say how to go on.

    Parameters
    ----------
    at, cosine, sine, linear, scale, curve, chords
        Positions in order, cosines and sines of half of them, the linear term, the distances' scale, the curvature of
        the separable part, whether distances are chords.
    lower, upper : (n + 1,) int64 arrays
        Ranks; narrowed.
    sums : (2,) array
        The interval of the sum of positions; narrowed.
    atoms, weights : (K, m) int64 and (K,) arrays
        Selections and their weights, which make the point where the tangent is taken; moved.
    x : (n,) array
        Where the first tangent is taken if none of the selections is in the node; receives the point.
    least : float
        Selections of no larger value do not count.
    steps : int
        Longest paths, at most.
    table : array
        Room for the longest paths.
    best : (m,) int64 array
        Receives the best selection met.
    found : (2,) array
        Receives its value and, where the node is to be split, the sum to split at.

    Returns
    -------
    tuple
        What the node ends with, its bound, and the place and rank to branch on: ``rank`` or fewer before the place,
        or more.
    """
    n, m = at.size, best.size
    gain, slope, dx = np.empty(n), np.empty(n), np.zeros(n)
    start, row, chosen = np.empty(n + 1, np.int64), np.empty(m + 2), np.empty(m, np.int64)
    for j in range(n):
        slope[j] = 2.0 * scale * at[j]
    found[0], bound = -np.inf, np.inf
    if not consistent(lower, upper):
        return DROPPED, -np.inf, 0, 0
    if _kept(atoms, weights, lower, upper, n):
        _mix(atoms, weights, x)
    for _ in range(steps):
        low, high = reach(at, lower, upper, m)
        sums[0], sums[1] = max(sums[0], low), min(sums[1], high)
        if sums[0] > sums[1]:
            if sums[0] > sums[1] + 1e-12 * m * (np.abs(at[0]) + np.abs(at[n - 1])):
                return DROPPED, -np.inf, 0, 0
            sums[0], sums[1] = sums[1], sums[0]  # one sum, added up in two orders
        middle, half = 0.5 * (sums[0] + sums[1]), 0.5 * (sums[1] - sums[0])
        if chords:
            _remainder(at, cosine, sine, scale, curve, x, dx)
        constant = -2.0 * curve * scale * (middle - half) * (middle + half)
        for j in range(n):
            constant -= x[j] * dx[j]
            gain[j] = linear[j] + 2.0 * dx[j] + 2.0 * curve * scale * at[j] * (2.0 * middle - m * at[j])
        top = backward(gain, slope, m, lower, upper, start, table)
        bound = min(bound, top + constant)
        if bound <= least:
            return DROPPED, bound, 0, 0
        walk(gain, slope, m, start, table, chosen)
        worth = _value(at, cosine, sine, linear, scale, chords, chosen)
        if worth > found[0]:
            found[0] = worth
            for r in range(m):
                best[r] = chosen[r]
        if not narrow(gain, slope, m, lower, upper, start, table, least - constant, row):
            return DROPPED, least, 0, 0
        weight = 0.0
        for k in range(weights.size):
            if weights[k] > 0.0 and fits(atoms, k, lower, upper, n):
                weight += weights[k]
        if weight < 1.0 - 1e-9:
            if not _kept(atoms, weights, lower, upper, n):
                weights[_slot(atoms, weights, chosen)] = 1.0
            _mix(atoms, weights, x)
        elif not _shift(at, cosine, sine, scale, curve, gain, slope, atoms, weights, chosen, top, bound - least, x):
            break
    return _branching(at, cosine, sine, linear, scale, curve, chords, sums, atoms, weights, x, bound, found)


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int64, types

    read = types.Array(float64, 1, "C", readonly=True)
    line = (read, read, read, read, float64)
    node = (int64[::1], int64[::1], float64[::1], int64[:, ::1], float64[::1], float64[::1])
    rest = (float64, int64, float64[::1], int64[::1], float64[::1])
    return {
        value: (*line, types.boolean, types.Array(int64, 1, "C", readonly=True)),
        look: (*line, float64, types.boolean, *node, *rest),
    }
