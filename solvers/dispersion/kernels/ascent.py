"""First-order steps on the slice for thousands of clients, compiled; the distances are read where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["climb", "signatures"]


def climb(h, q, shift, m, y, g, steps, least):
    """Make ``steps`` swaps of weight uphill on ``q yᵀHy − shift yᵀy + …``, whose gradient at ``y`` is ``g``.

    Both arrays are updated. Returns the last difference between the gains exchanged, at most ``least`` at an optimum.
    """
    n = y.size
    difference = 0.0
    for _ in range(steps):
        up = -1
        gup, gdown = -np.inf, np.inf
        for i in range(n):
            if y[i] < 1.0 and g[i] > gup:
                gup = g[i]
                up = i
            if y[i] > 0.0 and g[i] < gdown:
                gdown = g[i]
        difference = gup - gdown
        if up < 0 or difference <= least:
            break
        down, most, curvature = -1, 0.0, 1.0
        for j in range(n):
            if y[j] > 0.0 and g[j] < gup:
                k = max(2.0 * (q * h[up, j] + shift), 1e-15)
                gain = (gup - g[j]) * (gup - g[j]) / k
                if gain > most:
                    most, down, curvature = gain, j, k
        if down < 0:
            break
        t = min(0.5 * (gup - g[down]) / curvature, 1.0 - y[up], y[down])
        y[up] = 1.0 if t == 1.0 - y[up] else y[up] + t
        y[down] = 0.0 if t == y[down] else y[down] - t
        c = 2.0 * q * t
        for i in range(n):
            g[i] += c * (h[up, i] - h[down, i])
        g[up] -= 2.0 * shift * t
        g[down] += 2.0 * shift * t
    return difference


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments for distances (read-only) of this precision."""
    from numba import float32, float64, int64, types

    h = types.Array(float32 if precision == "float32" else float64, 2, "C", readonly=True)
    reals = float64[::1]
    return {climb: (h, float64, float64, int64, reals, reals, int64, float64)}
