"""The bound of one node of the compiled tree: first-order steps from its parent's point, and the tangent there."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.kernels.arrays import select
from solvers.dispersion.kernels.compiler import part

__all__ = ["bound_node", "gradient", "project", "settle"]


@part
def project(node, nf, left):  # type: ignore[no-untyped-def]
    """Move the parent's point onto this node's slice."""
    y, free = node.y, node.free
    total = 0.0
    for a in range(nf):
        total += y[free[a]]
    if total > left:
        for a in range(nf):
            y[free[a]] *= left / total
    elif total < left:
        room = nf - total
        for a in range(nf):
            i = free[a]
            y[i] += (1.0 - y[i]) * (left - total) / room


@part
def settle(node, nf, grain):  # type: ignore[no-untyped-def]
    """Round the point to multiples of ``grain`` that have the same sum; who has no weight, or all, keeps it."""
    y, free = node.y, node.free
    carried = 0.0
    for a in range(nf):
        i = free[a]
        if 0.0 < y[i] < 1.0:
            wanted = y[i] / grain + carried
            units = min(max(np.floor(wanted + 0.5), 0.0), 1.0 / grain)
            carried = wanted - units
            y[i] = units * grain


@part
def gradient(curved, node, nf):  # type: ignore[no-untyped-def]
    """The gradient of every client that is free, at the node's point."""
    y, g, free = node.y, node.g, node.free
    for a in range(nf):
        g[free[a]] = node.slope[free[a]]
    for b in range(nf):
        j = free[b]
        if y[j] > 0.0:
            w = 2.0 * y[j]
            for i in range(g.size):
                g[i] += w * curved[j, i]


@part
def _ends(y, g, free, nf):  # type: ignore[no-untyped-def]
    """Who gains most by more weight, by how much, and the least that giving weight up costs."""
    up, most, least = -1, -np.inf, np.inf
    for a in range(nf):
        i = free[a]
        if y[i] < 1.0 and g[i] > most:
            most = g[i]
            up = i
        if y[i] > 0.0 and g[i] < least:
            least = g[i]
    return up, most, least


@part
def _partner(curved, y, g, free, nf, up, most):  # type: ignore[no-untyped-def]
    """Who gives weight to ``up`` with the largest gain (second order), and the curvature; -1 when nobody gains."""
    best, down, curvature = 0.0, -1, 0.0
    for a in range(nf):
        j = free[a]
        if y[j] > 0.0 and g[j] < most:
            difference = most - g[j]
            k = 2.0 * curved[up, j] - curved[up, up] - curved[j, j]
            if k < 1e-15:
                k = 1e-15
            gain = difference * difference / k
            if gain > best:
                best, down, curvature = gain, j, k
    return down, curvature


@part
def _exchange(curved, y, g, up, down, t):  # type: ignore[no-untyped-def]
    """Move at most the weight ``t`` from ``down`` to ``up``."""
    if t >= 1.0 - y[up]:
        t = 1.0 - y[up]
    if t >= y[down]:
        t = y[down]
        y[down] = 0.0
    else:
        y[down] -= t
    y[up] += t
    if y[up] > 1.0 - 1e-15:
        y[up] = 1.0
    for i in range(g.size):
        g[i] += 2.0 * t * (curved[up, i] - curved[down, i])


@part
def _tangent(node, nf, left):  # type: ignore[no-untyped-def]
    """Parts of the tangent's bound: the constant, the ``left`` largest gradients, the gradients at the point itself.

    Then the smallest of those largest gradients and the largest of the others, which reduced costs compare.
    """
    y, g, free, scratch = node.y, node.g, node.free, node.scratch
    inner = 0.0
    at_point = 0.0
    for a in range(nf):
        i = free[a]
        inner += (node.slope[i] - g[i]) * y[i]
        at_point += g[i] * y[i]
        scratch[a] = g[i]
    select(scratch, nf, left)
    tops, lower, upper = 0.0, scratch[0], -np.inf
    for a in range(left):
        tops += scratch[a]
        if scratch[a] < lower:
            lower = scratch[a]
    for a in range(left, nf):
        if scratch[a] > upper:
            upper = scratch[a]
    return inner, tops, at_point, lower, upper


@part
def bound_node(form, node, nf, left, constant, goal, incumbent, grain):  # type: ignore[no-untyped-def]
    """First-order steps until the node can be dropped, or is solved well enough.

    Where there is a ``grain``, weight moves in multiples of it. Returns the bound, the two gradients that reduced costs
    compare, and the steps made.
    """
    curved, y, g, free = form.curved, node.y, node.g, node.free
    enough = incumbent + goal.tolerance
    limit = 20 * nf + 100
    steps, check = 0, 4
    stuck = False
    while True:
        up, most, least = _ends(y, g, free, nf)
        last = stuck or up < 0 or most - least <= 1e-12 or steps >= limit
        if last or steps >= check:
            check = steps + 4 + steps // 4
            inner, tops, at_point, lower_theta, upper_theta = _tangent(node, nf, left)
            bound = constant + 0.5 * inner + tops + form.margin
            value = bound - tops + at_point
            close = value > enough and bound - value <= goal.accuracy * (value - incumbent)
            if last or close or bound <= enough:
                return bound, lower_theta, upper_theta, steps
        down, curvature = _partner(curved, y, g, free, nf, up, most)
        if down < 0:
            stuck = True
            continue
        t = 0.5 * (most - g[down]) / curvature
        if grain > 0.0:
            t = np.floor(t / grain + 0.4) * grain  # a longer step than half of one would gain nothing
            if t <= 0.0:
                stuck = True
                continue
        _exchange(curved, y, g, up, down, t)
        steps += 1
