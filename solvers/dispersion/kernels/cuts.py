"""Cuts on the products of clients, compiled: their multipliers, and how they are found."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.compiler import part

__all__ = ["descend", "gather", "move", "signatures", "triangles"]


def move(residual, start, place, mirror, value, twice, norm, limits, weights, total, penalty, sweeps):
    """Coordinate descent on ``‖residual + Tᵀt‖²/2 + penalty · limitsᵀt`` over t ≥ 0, up and down.

    Cut r has the entries ``start[r] : start[r + 1]``: where, on the diagonal or above it, where mirrored, T there and
    its slope, twice as much off the diagonal; ``norm`` is ‖T‖². Multipliers that the first sweep leaves at 0 wait for
    the next iteration. ``weights`` (t) and ``total`` (Tᵀt) are brought up to date, the upper triangle of ``residual``
    is overwritten.
    """
    count = limits.size
    left, whole = residual.ravel(), total.ravel()  # views
    for r in range(count):
        if weights[r] != 0.0:
            for e in range(start[r], start[r + 1]):
                left[place[e]] += value[e] * weights[r]
    for sweep in range(sweeps):
        for at in range(count):
            r = at if sweep % 2 == 0 else count - 1 - at
            if sweep > 0 and weights[r] == 0.0:
                continue
            slope = penalty * limits[r]
            for e in range(start[r], start[r + 1]):
                slope += twice[e] * left[place[e]]
            new = max(weights[r] - slope / norm[r], 0.0)
            step = new - weights[r]
            if step != 0.0:
                weights[r] = new
                for e in range(start[r], start[r + 1]):
                    left[place[e]] += value[e] * step
    for e in range(place.size):
        whole[place[e]] = 0.0
    for r in range(count):
        if weights[r] != 0.0:
            for e in range(start[r], start[r + 1]):
                whole[place[e]] += value[e] * weights[r]
    for e in range(place.size):
        whole[mirror[e]] = whole[place[e]]


@part
def _before(excess, order, p, q):
    """Whether the p-th is to be dropped before the q-th: the less violated one, of equals the later one."""
    return excess[p] < excess[q] or (excess[p] == excess[q] and order[p] > order[q])


@part
def _exchange(excess, order, found, p, q):
    excess[p], excess[q] = excess[q], excess[p]
    order[p], order[q] = order[q], order[p]
    for c in range(6):
        found[p, c], found[q, c] = found[q, c], found[p, c]


@part
def _keep(excess, order, found, count, value, i, j, k, middle, sign, level):
    """Put a cut into the heap of the most violated ones; ``count`` is [in the heap, seen]."""
    count[1] += 1
    if count[0] < excess.size:
        p = count[0]
        count[0] += 1
    elif value > excess[0]:
        p = 0
    else:
        return
    excess[p], order[p] = value, count[1]
    found[p, 0], found[p, 1], found[p, 2] = i, j, k
    found[p, 3], found[p, 4], found[p, 5] = middle, sign, level
    while p > 0 and _before(excess, order, p, (p - 1) // 2):
        _exchange(excess, order, found, p, (p - 1) // 2)
        p = (p - 1) // 2
    while 2 * p + 1 < count[0]:
        child = 2 * p + 1
        if child + 1 < count[0] and _before(excess, order, child + 1, child):
            child += 1
        if not _before(excess, order, child, p):
            break
        _exchange(excess, order, found, p, child)
        p = child


def triangles(products, enough, least, most, able):  # noqa: C901
    """The ``most`` violated cuts of at most three clients, in no order: excess, when seen, and the cuts.

    Only products of at least ``enough[c]`` with c are looked at for the triangles of c, ``able`` of them.
    """
    n = len(products)
    excess, order = np.empty(most), np.empty(most, dtype=np.int64)
    found = np.empty((most, 6), dtype=np.int64)
    count = np.zeros(2, dtype=np.int64)
    for i in range(n):
        for k in range(n):
            if products[i, k] > products[k, k] + least:
                _keep(excess, order, found, count, products[i, k] - products[k, k], i, k, k, 0, -1, 0)
    place = np.empty(n, dtype=np.int64)
    for c in range(n):
        slack = products[c, c] + least
        top, above = -np.inf, 0
        for i in range(n):
            if i != c:
                top = max(top, products[c, i])
                above += products[c, i] > enough[c]
        size, equal = 0, able - above
        for i in range(n):
            if i != c and products[c, i] > slack - top and products[c, i] >= enough[c]:
                if products[c, i] == enough[c]:
                    if equal <= 0:
                        continue
                    equal -= 1
                place[size] = i
                size += 1
        for p in range(size):
            i = place[p]
            for q in range(p + 1, size):
                j = place[q]
                value = products[c, i] + products[c, j] - slack - products[i, j]
                if value > 0:
                    _keep(excess, order, found, count, value + least, i, j, c, 1, -1, 0)
    size = 0
    for i in range(n):
        if products[i, i] > 0.25:
            place[size] = i
            size += 1
    for r in range(2, size):
        c = place[r]
        for p in range(r):
            i = place[p]
            for q in range(p + 1, r):
                j = place[q]
                base = products[i, i] + products[j, j] - products[i, j] - 1 - least
                value = base + products[c, c] - products[c, j] - products[c, i]
                if value > 0:
                    _keep(excess, order, found, count, value + least, i, j, c, 1, 1, 1)
    return excess[: count[0]], order[: count[0]], found[: count[0]]


@part
def _lack(variance, mean):
    fraction = mean - np.floor(mean)
    return variance - fraction * (1.0 - fraction)


def descend(b, towards, variance, mean, covariance, x, width):
    """Change single entries of each row of b by one, within -1 ... 1, as long as the variance it lacks grows.

    At most ``3 · width`` changes are made, and at most ``width`` entries are other than 0.
    """
    starts, n = b.shape
    for s in range(starts):
        full = 0
        for c in range(n):
            full += b[s, c] != 0.0
        for _ in range(3 * width):
            current = _lack(variance[s], mean[s])
            best, which, step = -1e-9, -1, 0.0
            for sign in (-1.0, 1.0):
                for c in range(n):
                    if sign * b[s, c] > 0.5 or (full >= width and b[s, c] == 0.0):
                        continue
                    other = variance[s] + 2.0 * sign * towards[s, c] + covariance[c, c]
                    change = _lack(other, mean[s] + sign * x[c]) - current
                    if change < best:
                        best, which, step = change, c, sign
            if which < 0:
                break
            variance[s] += 2.0 * step * towards[s, which] + covariance[which, which]
            mean[s] += step * x[which]
            for c in range(n):
                towards[s, c] += step * covariance[which, c]
            full -= b[s, which] != 0.0
            b[s, which] += step
            full += b[s, which] != 0.0


def gather(apart, covariance, x, nearest, widest):
    """Grow a group from each client and each of its ``nearest`` by the one nearest to those that are there.

    Of each it returns how many clients it has where its number of chosen ones lacks the most variance, what it lacks
    there (0 where none does), and its clients in the order in which they joined.
    """
    n, partners = nearest.shape
    size, lack = np.zeros(n * partners, dtype=np.int64), np.zeros(n * partners)
    groups = np.zeros((n * partners, widest), dtype=np.int64)
    away, towards = np.empty(n), np.empty(n)
    for i in range(n):
        for p in range(partners):
            g = i * partners + p
            for c in range(n):
                away[c], towards[c] = apart[i, c], covariance[i, c]
            away[i] = np.inf
            groups[g, 0] = i
            variance, mean, new = covariance[i, i], x[i], nearest[i, p]
            for count in range(1, widest):
                groups[g, count] = new
                variance += 2.0 * towards[new] + covariance[new, new]
                mean += x[new]
                value = _lack(variance, mean)
                if value < lack[g]:
                    lack[g], size[g] = value, count + 1
                away[new] = np.inf
                new = 0
                for c in range(n):
                    away[c] += apart[groups[g, count], c]
                    towards[c] += covariance[groups[g, count], c]
                    if away[c] < away[new]:
                        new = c
    return size, lack, groups


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int64

    matrix, indices, reals = float64[:, ::1], int64[::1], float64[::1]
    return {
        move: (matrix, indices, indices, indices, reals, reals, reals, reals, reals, matrix, float64, int64),
        triangles: (matrix, reals, float64, int64, int64),
        gather: (matrix, matrix, reals, int64[:, ::1], int64),
        descend: (matrix, matrix, reals, reals, matrix, reals, int64),
    }
