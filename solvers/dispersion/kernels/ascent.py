"""Kernel of pairwise Frank-Wolfe steps over the slice, for bounds: thousands of clients, or many points at once.

The tree has its own (`solvers.dispersion.kernels.tree`), which checks after some steps whether its node is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["climb", "signatures"]


def climb(h, q, shift, points, gradients, steps, least, grain):
    """Move weight between pairs uphill on ``q yᵀHy − shift yᵀy + …``, from each row of ``points``.

    The client that gains most takes weight from the one with which a move gains most by second order. ``gradients`` are
    those at the points; both are updated. The matrix is read where it is, in either precision.

    Parameters
    ----------
    h, q, shift
        The objective, which is concave on the slice.
    points, gradients : (k, n) float64 arrays
        Points of a slice, in [0, 1].
    steps : int
        Moves from each point, at most.
    least : float
        Difference of two gains that is not worth a move.
    grain : float
        Weight moves in multiples of this, so that its sum is kept to the bit; 0 for any weight.

    Returns
    -------
    float
        The largest difference of two gains at the last point.
    """
    difference, diagonal = 0.0, np.empty(h.shape[0])
    for i in range(diagonal.size):  # read once, not with every pair: it lies across the rows
        diagonal[i] = h[i, i]
    for each in range(points.shape[0]):
        y, g = points[each], gradients[each]
        for _ in range(steps):
            up = -1
            most, fewest = -np.inf, np.inf
            for i in range(y.size):
                if y[i] < 1.0 and g[i] > most:
                    most, up = g[i], i
                if y[i] > 0.0 and g[i] < fewest:
                    fewest = g[i]
            difference = most - fewest
            if up < 0 or not difference > least:
                break
            down, best, curvature = -1, 0.0, 1.0
            for j in range(y.size):
                if y[j] > 0.0 and g[j] < most:
                    bend = max(q * (2.0 * h[up, j] - diagonal[up] - diagonal[j]) + 2.0 * shift, 1e-15)
                    gain = (most - g[j]) * (most - g[j]) / bend
                    if gain > best:
                        down, best, curvature = j, gain, bend
            if down < 0:
                break
            room = 1.0 - y[up]
            size = min(0.5 * (most - g[down]) / curvature, room, y[down])
            if grain > 0.0:
                size = np.floor(size / grain) * grain
                if size <= 0.0:
                    break
            y[up] = 1.0 if size == room else y[up] + size
            y[down] -= size
            change = 2.0 * q * size
            for i in range(g.size):
                g[i] += change * (h[up, i] - h[down, i])
            g[up] -= 2.0 * shift * size
            g[down] += 2.0 * shift * size
    return difference


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments for distances (read-only) of this precision."""
    from numba import float32, float64, int64, types

    h = types.Array(float32 if precision == "float32" else float64, 2, "C", readonly=True)
    rows = float64[:, ::1]
    return {climb: (h, float64, float64, rows, rows, int64, float64, float64)}
