"""Simulated annealing over swaps, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.dispersion.kernels.arrays import copy
from solvers.dispersion.kernels.swaps import below, draw, gains, swap, value_of

__all__ = ["anneal", "signatures"]


def anneal(h, pair, linear, m, order, best_value, best, moves, hot, cold, state):
    """Metropolis swaps from ``order`` with a temperature that falls geometrically from ``hot`` to ``cold``."""
    n = linear.size
    g = np.empty(n)
    value = value_of(h, pair, linear, order, m)
    gains(h, pair, linear, order, m, g)
    if value > best_value:
        best_value = value
        copy(order, best)
    temperature = hot
    factor = (cold / hot) ** (1.0 / max(moves, 1))
    for _ in range(moves):
        a, b = below(state, m), m + below(state, n - m)
        change = g[order[b]] - g[order[a]] - pair * h[order[a], order[b]]
        uniform = (draw(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        if change >= 0 or uniform < math.exp(change / temperature):
            swap(h, pair, order, g, a, b)
            value += change
            if value > best_value:
                best_value = value
                copy(order, best)
        temperature *= factor
    return best_value


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments for distances (read-only) of this precision."""
    from numba import float32, float64, int64, types, uint64

    h = types.Array(float32 if precision == "float32" else float64, 2, "C", readonly=True)
    reals, indices, state = float64[::1], int64[::1], uint64[::1]
    return {anneal: (h, float64, reals, int64, indices, float64, indices, int64, float64, float64, state)}
