"""Kernels for counts, how many clients of each kind: branch and bound over them, and its concave relaxation.

Maximises ``nᵀQn + Σ_a T_a(n_a)`` over whole numbers ``0 ≤ n ≤ capacity`` with ``1ᵀn = m``, for a Q that is concave on
the slice. ``T_a`` adds up the steps ``steps[start[a] : start[a + 1]]``. In a node with bounds l ≤ n ≤ u each T_a is
replaced by its concave envelope on [l_a, u_a], whose steps do not increase.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.compiler import part
from solvers.search import NodeOutcome

FATHOMED_BY_BOUND, REDUCED, DOMINATED, INFEASIBLE, SOLVED, BRANCHED = (int(outcome) for outcome in NodeOutcome)

__all__ = ["ascend", "explore", "fill", "signatures"]

_UNIT = 2.0**-30


@part
def envelope(start, steps, lower, upper, hull, mean, length):
    """Steps of the concave envelopes between the bounds: neighbours that increase are averaged."""
    for a in range(lower.size):
        blocks = 0
        for j in range(start[a] + lower[a], start[a] + upper[a]):
            mean[blocks], length[blocks] = steps[j], 1
            blocks += 1
            while blocks > 1 and mean[blocks - 1] > mean[blocks - 2]:
                total = length[blocks - 2] + length[blocks - 1]
                first = mean[blocks - 2] * length[blocks - 2]
                mean[blocks - 2] = (first + mean[blocks - 1] * length[blocks - 1]) / total
                length[blocks - 2] = total
                blocks -= 1
        j = start[a] + lower[a]
        for b in range(blocks):
            for _ in range(length[b]):
                hull[j] = mean[b]
                j += 1


@part
def gradient(q, y, g):
    """Twice Qy, into g."""
    for a in range(y.size):
        total = 0.0
        for b in range(y.size):
            total += q[a, b] * y[b]
        g[a] = 2.0 * total


@part
def repair(start, hull, lower, upper, y, g, m):
    """Bring ``y`` between the bounds, and its sum to m, by the best steps."""
    left = m
    for a in range(y.size):
        y[a] = min(max(y[a], lower[a]), upper[a])
        left -= y[a]
    while left != 0.0:
        pick, best = -1, -np.inf
        for a in range(y.size):
            if left > 0.0 and y[a] < upper[a]:
                slope = g[a] + hull[start[a] + int(np.floor(y[a]))]
            elif left < 0.0 and y[a] > lower[a]:
                slope = -g[a] - hull[start[a] + int(np.ceil(y[a])) - 1]
            else:
                continue
            if slope > best:
                pick, best = a, slope
        if pick < 0:
            return
        if left > 0.0:
            step = min(left, np.floor(y[pick]) + 1.0 - y[pick])
        else:
            step = max(left, np.ceil(y[pick]) - 1.0 - y[pick])
        y[pick] += step
        left -= step


@part
def climb(q, start, hull, lower, upper, y, g, moves, enough):
    """Move weight between pairs of kinds; return the smallest step down and the largest step up that are left."""
    k = y.size
    worst, best = np.inf, -np.inf
    for _ in range(moves):
        low, worst, best = -1, np.inf, -np.inf
        for a in range(k):
            if y[a] > lower[a]:
                down = g[a] + hull[start[a] + int(np.ceil(y[a])) - 1]
                if down < worst:
                    low, worst = a, down
            if y[a] < upper[a]:
                best = max(best, g[a] + hull[start[a] + int(np.floor(y[a]))])
        if low < 0 or best - worst <= enough:
            break
        top, most, size = -1, 0.0, 0.0
        room = y[low] - (np.ceil(y[low]) - 1.0)
        for c in range(k):
            if c == low or y[c] >= upper[c]:
                continue
            rise = g[c] + hull[start[c] + int(np.floor(y[c]))] - worst
            if rise <= enough:
                continue
            step = min(room, np.floor(y[c]) + 1.0 - y[c])
            bend = 2.0 * q[low, c] - q[low, low] - q[c, c]
            if rise < 2.0 * bend * step:
                step = np.floor(rise / (2.0 * bend) / _UNIT) * _UNIT
            gain = step * (rise - bend * step)
            if gain > most:
                top, most, size = c, gain, step
        if top < 0 or size <= 0.0:
            break
        y[low] -= size
        y[top] += size
        for b in range(k):
            g[b] += 2.0 * size * (q[top, b] - q[low, b])
    return worst, best


@part
def tangent(q, start, steps, hull, lower, upper, y, g, m, price, chosen):
    """Bound by the tangent at y and the price of a client: every step that is worth more is taken.

    ``Σ_a max_n T̂_a(n) + (g_a − price) n + price·m − yᵀQy``, valid for any y on the slice and any price.
    """
    value = price * m
    for a in range(y.size):
        value -= 0.5 * y[a] * g[a]
        for j in range(lower[a]):
            value += steps[start[a] + j]
        value += (g[a] - price) * lower[a]
        chosen[a] = lower[a]
        for j in range(lower[a], upper[a]):
            worth = hull[start[a] + j] + g[a] - price
            if worth <= 0.0:
                break
            value += worth
            chosen[a] = j + 1
    return value


@part
def tighten(start, hull, lower, upper, g, price, chosen, spare):
    """Cut off counts that cost more than ``spare``, the bound's distance to the incumbent; how many were cut off."""
    cut = 0
    for a in range(lower.size):
        loss, count = 0.0, chosen[a]
        while count < upper[a]:
            loss += price - g[a] - hull[start[a] + count]
            if loss > spare:
                break
            count += 1
        cut += upper[a] - count
        new_upper = count
        loss, count = 0.0, chosen[a]
        while count > lower[a]:
            loss += hull[start[a] + count - 1] + g[a] - price
            if loss > spare:
                break
            count -= 1
        cut += count - lower[a]
        lower[a], upper[a] = count, new_upper
    return cut


@part
def _value(q, start, steps, n):
    value = 0.0
    for a in range(n.size):
        for b in range(n.size):
            value += q[a, b] * n[a] * n[b]
        for j in range(n[a]):
            value += steps[start[a] + j]
    return value


def fill(q, start, steps, n, left):
    """Add ``left`` clients to the counts, each where it gains most."""
    k = n.size
    g = np.empty(k)
    gradient(q, n.astype(np.float64), g)
    for _ in range(left):
        pick, best = -1, -np.inf
        for a in range(k):
            if n[a] < start[a + 1] - start[a]:
                gain = g[a] + q[a, a] + steps[start[a] + n[a]]
                if gain > best:
                    pick, best = a, gain
        n[pick] += 1
        for a in range(k):
            g[a] += 2.0 * q[pick, a]


@part
def _exchange(q, start, steps, n, moves, least):
    """Exchange a client of one kind for one of another, the best exchange first, while that gains over ``least``."""
    k = n.size
    g = np.empty(k)
    gradient(q, n.astype(np.float64), g)
    for _ in range(moves):
        out, into, most = -1, -1, least
        for a in range(k):
            if n[a] == 0:
                continue
            loss = g[a] - q[a, a] + steps[start[a] + n[a] - 1]
            for c in range(k):
                if c != a and n[c] < start[c + 1] - start[c]:
                    gain = g[c] + q[c, c] + steps[start[c] + n[c]] - loss - 2.0 * q[a, c]
                    if gain > most:
                        out, into, most = a, c, gain
        if out < 0:
            return
        n[out] -= 1
        n[into] += 1
        for b in range(k):
            g[b] += 2.0 * (q[into, b] - q[out, b])


def ascend(q, start, steps, n, moves, least):
    """Exchange clients of two kinds, the best exchange first, while that gains more than ``least``."""
    _exchange(q, start, steps, n, moves, least)


@part
def _round(y, lower, upper, m, n):
    """The counts nearest to y: rounded down, then up where the fraction is largest."""
    left = m
    for a in range(y.size):
        n[a] = int(np.floor(y[a]))
        left -= n[a]
    while left > 0:
        pick, most = -1, -1.0
        for a in range(y.size):
            if n[a] < upper[a] and y[a] - n[a] > most:
                pick, most = a, y[a] - n[a]
        n[pick] += 1
        left -= 1


@part
def _branch(q, start, steps, hull, lower, upper, y):
    """The kind whose count is least settled, and its largest count in the child with fewer; -1 where all are fixed."""
    pick, most, at = -1, -1.0, 0
    for a in range(y.size):
        if upper[a] == lower[a]:
            continue
        whole = int(np.floor(y[a]))
        part = y[a] - whole
        open_ = -q[a, a] * part * (1.0 - part)
        if whole < upper[a]:
            open_ += part * (hull[start[a] + whole] - steps[start[a] + whole])
        for j in range(lower[a], whole):
            open_ += hull[start[a] + j] - steps[start[a] + j]
        open_ = max(open_, 1e-300 * (upper[a] - lower[a]))
        if open_ > most:
            pick, most, at = a, open_, min(whole, upper[a] - 1)
    return pick, at


@part
def _keep_better(q, start, steps, n, incumbent, best):
    """Copy counts that are worth more than the incumbent into ``best``; return the larger value."""
    value = _value(q, start, steps, n)
    if value <= incumbent:
        return incumbent
    for a in range(n.size):
        best[a] = n[a]
    return value


@part
def _push_children(lowers, uppers, points, bounds, count, lower, upper, y, bound, pick, at):
    """Put both children on the stack, the more promising one last: it is looked at first."""
    for side in range(2):
        first = (side == 0) == (y[pick] - at > 0.5)
        for a in range(y.size):
            lowers[count + side, a], uppers[count + side, a], points[count + side, a] = lower[a], upper[a], y[a]
        if first:
            uppers[count + side, pick] = at
        else:
            lowers[count + side, pick] = at + 1
        bounds[count + side] = bound


def explore(
    q,
    start,
    steps,
    m,
    lowers,
    uppers,
    points,
    bounds,
    count,
    incumbent,
    tolerance,
    margin,
    enough,
    best,
    budget,
    outcomes,
):
    """Look at nodes, the last of the stack first, until none is left, ``budget`` are looked at, or the stack is full.

    Parameters
    ----------
    q, start, steps, m
        The problem.
    lowers, uppers, points, bounds, count
        The stack: bounds on the counts, a point near the slice, an upper bound; ``count`` nodes.
    incumbent, tolerance, margin
        Nodes whose bound plus ``margin`` is at most ``incumbent + tolerance`` are dropped.
    enough : float
        Slopes that small need no climbing.
    best : (k,) int64 array
        Receives better counts.
    budget : int
        Nodes.
    outcomes : (6,) int64 array
        Nodes by `solvers.search.NodeOutcome`, which are counted here.

    Returns
    -------
    tuple
        Nodes looked at, nodes left on the stack, and the incumbent's value.
    """
    k = q.shape[0]
    hull, mean, length = np.zeros(steps.size), np.empty(m + 1), np.empty(m + 1, np.int64)
    g, chosen, n = np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64)
    nodes = 0
    while count > 0 and nodes < budget and count + 2 < bounds.size:
        count -= 1
        bound = bounds[count]
        if bound + margin <= incumbent + tolerance:
            continue
        nodes += 1
        lower, upper, y = lowers[count].copy(), uppers[count].copy(), points[count].copy()
        outcome = BRANCHED
        for again in range(8):
            if lower.sum() > m or upper.sum() < m:
                outcome = REDUCED if again > 0 else INFEASIBLE
                break
            envelope(start, steps, lower, upper, hull, mean, length)
            gradient(q, y, g)
            repair(start, hull, lower, upper, y, g, float(m))
            gradient(q, y, g)
            worst, top = climb(q, start, hull, lower, upper, y, g, 20 * k + 200, enough)
            gradient(q, y, g)
            price = 0.5 * (worst + top) if np.isfinite(worst) and np.isfinite(top) else 0.0
            fresh = tangent(q, start, steps, hull, lower, upper, y, g, float(m), price, chosen)
            bound = min(bound, fresh)
            if again == 0:
                _round(y, lower, upper, m, n)
                _exchange(q, start, steps, n, 4 * k, 0.0)
                incumbent = _keep_better(q, start, steps, n, incumbent, best)
            if bound + margin <= incumbent + tolerance:
                outcome = FATHOMED_BY_BOUND
                break
            width = (upper - lower).sum()
            cut = tighten(start, hull, lower, upper, g, price, chosen, fresh + margin - incumbent)
            if top - worst <= enough and 5 * cut < width:
                break
        if outcome == BRANCHED:
            pick, at = _branch(q, start, steps, hull, lower, upper, y)
            if pick < 0:  # one selection is left
                outcome, incumbent = SOLVED, _keep_better(q, start, steps, lower, incumbent, best)
            else:
                _push_children(lowers, uppers, points, bounds, count, lower, upper, y, bound, pick, at)
                count += 2
        outcomes[outcome] += 1
    return nodes, count, incumbent


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int64

    q, reals, indices = float64[:, ::1], float64[::1], int64[::1]
    stack = (int64[:, ::1], int64[:, ::1], q, reals, int64)
    limits = (float64, float64, float64, float64, indices, int64, indices)
    return {
        fill: (q, indices, reals, indices, int64),
        ascend: (q, indices, reals, indices, int64, float64),
        explore: (q, indices, reals, int64, *stack, *limits),
    }
