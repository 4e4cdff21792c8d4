"""The concave relaxation over counts, compiled: envelopes, climbing, tangent bound, reduced costs.

Maximises ``nᵀQn + Σ_a T_a(n_a)`` over whole numbers ``0 ≤ n ≤ capacity`` with ``1ᵀn = m``, for a Q that is concave on
the slice. ``T_a`` adds up the steps ``steps[start[a] : start[a + 1]]``. In a node with bounds l ≤ n ≤ u each T_a is
replaced by its concave envelope on [l_a, u_a], whose steps do not increase.
"""

from __future__ import annotations

import numpy as np

from solvers.dispersion.kernels.compiler import part

__all__ = ["climb", "envelope", "gradient", "repair", "tangent", "tighten"]

_UNIT = 2.0**-30


@part
def envelope(start, steps, lower, upper, hull, mean, length):  # type: ignore[no-untyped-def]
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
def gradient(q, y, g):  # type: ignore[no-untyped-def]
    """Twice Qy, into g."""
    for a in range(y.size):
        total = 0.0
        for b in range(y.size):
            total += q[a, b] * y[b]
        g[a] = 2.0 * total


@part
def repair(start, hull, lower, upper, y, g, m):  # type: ignore[no-untyped-def]
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
def climb(q, start, hull, lower, upper, y, g, moves, enough):  # type: ignore[no-untyped-def]
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
def tangent(q, start, steps, hull, lower, upper, y, g, m, price, chosen):  # type: ignore[no-untyped-def]
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
def tighten(start, hull, lower, upper, g, price, chosen, spare):  # type: ignore[no-untyped-def]
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
