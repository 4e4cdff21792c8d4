"""Swap heuristics, compiled: iterated tabu search with O(n) updates.

Replacing the chosen a by b changes the objective by ``g_b − g_a − pair·h_ab``. Distances are not negative, so no
swap of a gains more than ``max g − g_a``: most of the neighbourhood is skipped without looking at a distance.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, njit, types, uint64, void

__all__ = ["anneal", "tabu"]

# Distances are read-only, and of either precision.
_SINGLE = types.Array(float32, 2, "C", readonly=True)
_DOUBLE = types.Array(float64, 2, "C", readonly=True)
_REALS, _INDICES, _STATE = float64[::1], int64[::1], uint64[::1]


@njit("uint64(uint64[::1])", cache=True, nogil=True)
def _next(state):  # type: ignore[no-untyped-def]
    """xorshift64*: enough for tie breaking and perturbation."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@njit("int64(uint64[::1], int64)", cache=True, nogil=True)
def _below(state, n):  # type: ignore[no-untyped-def]
    return np.int64((_next(state) >> np.uint64(33)) % np.uint64(n))


@njit(
    [float64(h, float64, _REALS, _INDICES, int64, _INDICES) for h in (_SINGLE, _DOUBLE)],
    cache=True,
    nogil=True,
)
def _reset(h, pair, linear, order, m, place):  # type: ignore[no-untyped-def]
    """Inverse of ``order`` (chosen first); the value of the selection."""
    value = 0.0
    for a in range(order.size):
        place[order[a]] = a
    for a in range(m):
        value += linear[order[a]]
        for b in range(a):
            value += pair * h[order[a], order[b]]
    return value


@njit(
    [void(h, float64, _REALS, _INDICES, int64, _REALS) for h in (_SINGLE, _DOUBLE)],
    cache=True,
    nogil=True,
)
def _gains(h, pair, linear, order, m, g):  # type: ignore[no-untyped-def]
    g[:] = linear
    for a in range(m):
        i = order[a]
        for j in range(linear.size):
            g[j] += pair * h[i, j]


@njit(
    [void(h, float64, _INDICES, _REALS, int64, int64) for h in (_SINGLE, _DOUBLE)],
    cache=True,
    nogil=True,
)
def _swap(h, pair, order, g, a, b):  # type: ignore[no-untyped-def]
    """Exchange the clients at the places a (chosen) and b (not)."""
    i, j = order[a], order[b]
    for k in range(g.size):
        g[k] += pair * (h[j, k] - h[i, k])
    order[a], order[b] = j, i


@njit(
    [
        void(
            *(h, float64, _REALS, int64, _INDICES, _INDICES, _INDICES, _REALS, _INDICES, _INDICES),
            *(int64, int64, float64, _STATE),
        )
        for h in (_SINGLE, _DOUBLE)
    ],
    cache=True,
    nogil=True,
)
def tabu(  # type: ignore[no-untyped-def]
    h, pair, linear, m, order, local, best, values, until, clock, moves, patience, least, state
):
    """Search for ``moves`` swaps; everything that changes is in the arrays, so that a call continues the last one.

    Parameters
    ----------
    h, pair, linear, m
        Maximise ``pair · Σ_{i<j} h_ij s_i s_j + linearᵀs``, ``1ᵀs = m``.
    order, local, best : int64 array
        Permutations whose first m entries are chosen: now, best of this descent, best of all.
    values : (2,) float64 array
        Objective of ``local`` and of ``best``.
    until : int64 array
        The move up to which each client may not be moved again.
    clock : (3,) int64 array
        Moves made, moves since ``local`` improved, descents since ``best`` improved.
    moves, patience : int
        Swaps to make now; swaps without improvement that end a descent.
    least : float
        Smaller differences are rounding.
    state : (1,) uint64 array
        State of the random numbers.
    """
    n = linear.size
    place = np.empty(n, np.int64)
    g = np.empty(n)
    value = _reset(h, pair, linear, order, m, place)
    _gains(h, pair, linear, order, m, g)
    if value > values[0]:
        values[0] = value
        local[:] = order
    stay = max(1, min(m // 3, 12))
    away = max(1, min((n - m) // 3, 20))
    for _ in range(moves):
        now = clock[0]
        top = -np.inf
        for b in range(m, n):
            if g[order[b]] > top:
                top = g[order[b]]
        most, pick_a, pick_b = -np.inf, -1, -1
        aspiration = values[0] + least - value
        for a in range(m):
            i = order[a]
            gi = g[i]
            if top - gi <= most:
                continue
            held = until[i] > now
            for b in range(m, n):
                j = order[b]
                change = g[j] - gi
                if change <= most:
                    continue
                change -= pair * h[i, j]
                if change > most and (change > aspiration or not (held or until[j] > now)):
                    most, pick_a, pick_b = change, a, b
        clock[0] += 1
        if pick_a < 0:
            pick_a, pick_b = _below(state, m), m + _below(state, n - m)
            most = g[order[pick_b]] - g[order[pick_a]] - pair * h[order[pick_a], order[pick_b]]
        i, j = order[pick_a], order[pick_b]
        _swap(h, pair, order, g, pick_a, pick_b)
        value += most
        until[i] = clock[0] + away + _below(state, away + 1)
        until[j] = clock[0] + stay // 2 + _below(state, stay + 1)
        if value > values[0] + least:
            values[0] = value
            local[:] = order
            clock[1] = 0
        else:
            clock[1] += 1
        if clock[1] >= patience:
            clock[1] = 0
            clock[2] += 1
            if values[0] > values[1] + least:
                values[1] = values[0]
                best[:] = local
                clock[2] = 0
            # The next descent starts near the best selection, and now and then anywhere.
            order[:] = best
            swaps = 2 * n if clock[2] % 8 == 7 else 2 + _below(state, max(1, min(m, n - m) // 5))
            for _ in range(swaps):
                a, b = _below(state, m), m + _below(state, n - m)
                order[a], order[b] = order[b], order[a]
            until[:] = 0
            value = _reset(h, pair, linear, order, m, place)
            _gains(h, pair, linear, order, m, g)
            values[0] = value
            local[:] = order
    if values[0] > values[1]:
        values[1] = values[0]
        best[:] = local


@njit(
    [
        float64(h, float64, _REALS, int64, _INDICES, float64, _INDICES, int64, float64, float64, _STATE)
        for h in (_SINGLE, _DOUBLE)
    ],
    cache=True,
    nogil=True,
)
def anneal(h, pair, linear, m, order, best_value, best, moves, hot, cold, state):  # type: ignore[no-untyped-def]
    """Metropolis swaps from ``order`` with a temperature that falls geometrically from ``hot`` to ``cold``."""
    n = linear.size
    place = np.empty(n, np.int64)
    g = np.empty(n)
    value = _reset(h, pair, linear, order, m, place)
    _gains(h, pair, linear, order, m, g)
    if value > best_value:
        best_value = value
        best[:] = order
    temperature = hot
    factor = (cold / hot) ** (1.0 / max(moves, 1))
    for _ in range(moves):
        a, b = _below(state, m), m + _below(state, n - m)
        change = g[order[b]] - g[order[a]] - pair * h[order[a], order[b]]
        uniform = (_next(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        if change >= 0 or uniform < np.exp(change / temperature):
            _swap(h, pair, order, g, a, b)
            value += change
            if value > best_value:
                best_value = value
                best[:] = order
        temperature *= factor
    return best_value
