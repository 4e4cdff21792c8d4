"""Swap heuristics, compiled: iterated tabu search with O(n) updates, and simulated annealing, with rows or without.

Replacing the chosen a by b changes the objective by ``g_b − g_a − pair·h_ab``. Distances are not negative, so no
swap of a gains more than ``max g − g_a``: most of the neighbourhood is skipped without looking at a distance.

Side constraints are ``rows``, a tuple or None (`solvers.constrained_set.ConstrainedSelections.by_client`); each of the
two is compiled for itself. Where quotas are full and budgets tight, no single swap may keep all rows, while two do.
Tabu search therefore passes through selections that miss rows: a swap is worth its gain less a price on the change of
what is missed, and the price rises while rows are missed and falls while they are kept (strategic oscillation; Glover
and Hao, Int. J. Metaheuristics 1, 2010). What is kept as the best keeps all rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.dispersion.kernels.arrays import copy
from solvers.dispersion.kernels.compiler import part

__all__ = ["anneal", "below", "draw", "gains", "signatures", "swap", "tabu", "value_of"]

#: Tabu tenure: a number is a third of the clients on a side, or this where that is less. Who has entered may not move
#: again for moves drawn around it, who has left for moves drawn from it to twice as many. By hand, 2026-11-20, as large
#: as in Palubeckis (Appl. Math. Comput. 189, 2007); not swept.
_TENURE_IN, _TENURE_OUT = 12, 20

#: Fruitless descents after which the next one begins anywhere instead of near the best selection. By hand, not swept.
_FRUITLESS = 8

#: Moves in a row on one side of the rows after which the price changes, by what factor, and its limits, in gains per
#: client: strategic oscillation as commonly set, not swept.
_SIDE, _FACTOR, _LEAST, _MOST = 5, 1.5, 1e-3, 1e9

#: Smaller misses are rounding, in units of a row's largest coefficient. No coefficient exceeds the limit, and limits
#: are drawn in by 4e-10 of the 1e-9 that they may be exceeded by: sums of up to a million updates are off by less.
_ROUNDING = 1e-12


@part
def draw(state):
    """xorshift64*: enough for tie breaking and perturbation."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@part
def below(state, n):
    """A number from 0 to n − 1."""
    return np.int64((draw(state) >> np.uint64(33)) % np.uint64(n))


@part
def value_of(h, pair, linear, order, m):
    """The value of the selection of the first m."""
    value = 0.0
    for a in range(m):
        value += linear[order[a]]
        for b in range(a):
            value += pair * h[order[a], order[b]]
    return value


def _gains(h, pair, linear, order, m, g):
    g[:] = linear
    for i in order[:m]:
        g += pair * h[i]


@part(numpy=_gains)
def gains(h, pair, linear, order, m, g):
    """Compute what each client adds to the selection of the first m."""
    copy(linear, g)
    for a in range(m):
        i = order[a]
        for j in range(linear.size):
            g[j] += pair * h[i, j]


def _swap(h, pair, order, g, a, b):
    i, j = order[a], order[b]
    g += pair * (h[j] - h[i])
    order[a], order[b] = j, i


@part(numpy=_swap)
def swap(h, pair, order, g, a, b):
    """Exchange the clients at the places a (chosen) and b (not)."""
    i, j = order[a], order[b]
    for k in range(g.size):
        g[k] += pair * (h[j, k] - h[i, k])
    order[a], order[b] = j, i


@part
def _exceeds(values, h, i, pair, limit):
    """Whether some ``values_j − pair·h_ij`` exceeds ``limit``; without a branch, so that the loop becomes vectors."""
    found = np.int64(0)
    for j in range(values.size):
        found |= np.int64(values[j] - pair * h[i, j] > limit)
    return found != 0


def _numpy_partner(values, h, i, pair, limit):
    worth = values - pair * h[i]
    partner = worth.argmax()
    return (worth[partner], partner) if worth[partner] > limit else (limit, -1)


@part(numpy=_numpy_partner)
def _partner(values, h, i, pair, limit):
    """The largest ``values_j − pair·h_ij`` and its j, or ``limit`` and -1 when none exceeds that."""
    best, partner = limit, -1
    if _exceeds(values, h, i, pair, limit):
        for j in range(values.size):
            value = values[j] - pair * h[i, j]
            if value > best:
                best, partner = value, j
    return best, partner


def _numpy_candidates(order, g, m, until, now, outside, free):
    outside[:] = g
    outside[order[:m]] = -np.inf
    free[:] = np.where(until <= now, outside, -np.inf)
    return outside.max(), free.max()


@part(numpy=_numpy_candidates)
def _candidates(order, g, m, until, now, outside, free):
    """The gains of those who can enter at all, and of those of them who are not held; the largest of both."""
    copy(g, outside)
    for a in range(m):
        outside[order[a]] = -np.inf
    top, top_free = -np.inf, -np.inf
    for j in range(g.size):
        free[j] = outside[j] if until[j] <= now else -np.inf
        top = max(top, outside[j])
        top_free = max(top_free, free[j])
    return top, top_free


@part
def _place(order, m, client):
    """Place of a client that is not chosen."""
    b = m
    while order[b] != client:
        b += 1
    return b


@part
def _admissible(h, pair, order, g, m, until, now, aspiration, outside, free):
    """The best swap of clients that are not held, or that gains more than ``aspiration``; places of -1 without one.

    Returns its gain and both places. ``outside`` and ``free`` are buffers for the gains of the clients that can enter
    at all, and of those of them that are not held.
    """
    top, top_free = _candidates(order, g, m, until, now, outside, free)
    most, leaves, enters = -np.inf, -1, -1
    for a in range(m):
        i = order[a]
        gi = g[i]
        if until[i] <= now and top_free - gi > most:
            value, j = _partner(free, h, i, pair, most + gi)
            if j >= 0:
                most, leaves, enters = value - gi, a, j
        least = max(most, aspiration)
        if top - gi > least:
            value, j = _partner(outside, h, i, pair, least + gi)
            if j >= 0:
                most, leaves, enters = value - gi, a, j
    return most, leaves, enters if leaves < 0 else _place(order, m, enters)


@part
def _is_movable(rows, i):
    """Whether a client may change sides."""
    if rows is None:
        return True
    return rows[5][i] != 0


@part
def _miss(value, low, high):
    """By how much a sum misses its limits."""
    return max(value - high, 0.0) + max(low - value, 0.0)


@part
def _sum_rows(order, m, rows, sums):
    """Sums of the rows over the selection of the first m."""
    start, ids, coefficients, _, _, _ = rows
    for r in range(sums.size):
        sums[r] = 0.0
    for a in range(m):
        i = order[a]
        for e in range(start[i], start[i + 1]):
            sums[ids[e]] += coefficients[e]


@part
def _missed(rows, sums):
    """Sum of what all rows are missed by; 0 where that is rounding."""
    _, _, _, low, high, _ = rows
    total = 0.0
    for r in range(sums.size):
        total += _miss(sums[r], low[r], high[r])
    return total if total > _ROUNDING else 0.0


@part
def _without(i, rows, sums, left):
    """Change of what is missed where client i leaves; ``left`` has the sums without it."""
    start, ids, coefficients, low, high, _ = rows
    change = 0.0
    for e in range(start[i], start[i + 1]):
        r = ids[e]
        left[r] = sums[r] - coefficients[e]
        change += _miss(left[r], low[r], high[r]) - _miss(sums[r], low[r], high[r])
    return change


@part
def _with(j, rows, left):
    """Change of what is missed where client j comes."""
    start, ids, coefficients, low, high, _ = rows
    change = 0.0
    for e in range(start[j], start[j + 1]):
        r = ids[e]
        change += _miss(left[r] + coefficients[e], low[r], high[r]) - _miss(left[r], low[r], high[r])
    return change


@part
def _restore(i, rows, sums, left):
    """Undo what `_without` wrote."""
    start, ids = rows[0], rows[1]
    for e in range(start[i], start[i + 1]):
        left[ids[e]] = sums[ids[e]]


@part
def _exchange(i, j, rows, sums):
    """Sums of the rows after client j has taken the place of i."""
    if rows is not None:
        start, ids, coefficients, _, _, _ = rows
        for e in range(start[i], start[i + 1]):
            sums[ids[e]] -= coefficients[e]
        for e in range(start[j], start[j + 1]):
            sums[ids[e]] += coefficients[e]


@part
def _keeps_rows(i, j, rows, sums, left):
    """Whether a selection that keeps all rows does so after a swap."""
    if rows is None:
        return True
    then = _without(i, rows, sums, left) + _with(j, rows, left)
    _restore(i, rows, sums, left)
    return then <= _ROUNDING


@part
def _are_kept(rows, sums):
    """Whether no row is missed, by its sum and not by the changes of what was missed."""
    return True if rows is None else _missed(rows, sums) == 0.0


@part
def _best_beside_rows(h, pair, order, g, m, until, now, aspiration, price, rows, sums, left, missed):
    """The swap of most worth, its gain less the price of what is missed; places of -1 without one.

    Returns its gain, both places, and what is missed after it.
    """
    n = g.size
    copy(sums, left)
    most, gain, leaves, enters, after = -np.inf, 0.0, -1, -1, missed
    for a in range(m):
        i = order[a]
        if not _is_movable(rows, i):
            continue
        rest = missed + _without(i, rows, sums, left)
        for b in range(m, n):
            j = order[b]
            change = g[j] - g[i] - pair * h[i, j]
            held = until[i] > now or until[j] > now
            if not _is_movable(rows, j) or change + price * missed <= most or (held and change <= aspiration):
                continue
            then = rest + _with(j, rows, left)
            if then <= _ROUNDING:
                then = 0.0
            worth = change - price * (then - missed)
            if worth > most and not (held and then > 0.0):
                most, gain, leaves, enters, after = worth, change, a, b, then
        _restore(i, rows, sums, left)
    return gain, leaves, enters, after


@part
def _oscillate(price, missed):
    """Raise the price after some moves in a row that missed rows, lower it after some that kept them."""
    price[1] = max(price[1], 0.0) + 1.0 if missed > 0.0 else min(price[1], 0.0) - 1.0
    if abs(price[1]) >= _SIDE:
        price[0] = min(max(price[0] * (_FACTOR if price[1] > 0 else 1.0 / _FACTOR), _LEAST), _MOST)
        price[1] = 0.0


@part
def _shuffle(order, m, rows, swaps, state):
    """Exchange clients that may move, at random."""
    n = order.size
    for _ in range(swaps):
        a, b = below(state, m), m + below(state, n - m)
        if _is_movable(rows, order[a]) and _is_movable(rows, order[b]):
            order[a], order[b] = order[b], order[a]


@part
def _keep(local, best, values, least):
    """Make the best selection of this descent the best of all if it is; True then."""
    if values[0] > values[1] + least:
        values[1] = values[0]
        copy(local, best)
        return True
    return False


@part
def _restart(order, best, values, m, until, fruitless, rows, state):
    """The next descent starts near the best selection, every eighth one since that was found anywhere."""
    n = order.size
    if values[1] > -np.inf:
        copy(best, order)
    swaps = 2 * n if fruitless % _FRUITLESS == _FRUITLESS - 1 else 2 + below(state, max(1, min(m, n - m) // 5))
    _shuffle(order, m, rows, swaps, state)
    for i in range(n):
        until[i] = 0
    values[0] = -np.inf


@part
def _evaluate(h, pair, linear, order, m, g, rows, sums, local, values):
    """Value of a selection that no swap has led to, and what it misses; it is the descent's best if it is better."""
    value, missed = value_of(h, pair, linear, order, m), 0.0
    gains(h, pair, linear, order, m, g)
    if rows is not None:
        _sum_rows(order, m, rows, sums)
        missed = _missed(rows, sums)
    if missed == 0.0 and value > values[0]:
        values[0] = value
        copy(order, local)
    return value, missed


def tabu(
    h, pair, linear, m, order, local, best, values, until, clock, moves, patience, least, state, rows, price
):  # fmt: skip
    """Search for ``moves`` swaps; a call with the same arrays continues the last one.

    Parameters
    ----------
    h, pair, linear, m
        Maximise ``pair · Σ_{i<j} h_ij s_i s_j + linearᵀs``, ``1ᵀs = m``.
    order, local, best : int64 array
        Permutations whose first m entries are chosen: now, best of this descent, best of all. ``local`` and ``best``
        keep all rows once their entry of ``values`` is finite; ``order`` need not.
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
    rows : tuple, optional
        Side constraints: the entries of client i are those from ``start[i]`` to ``start[i + 1]`` of the rows' numbers
        and of the coefficients there; lower and upper limits of the rows; 0 for a client that must stay where it is.
    price : (2,) float64 array
        Price of a miss, and the moves in a row with (positive) or without (negative) one.
    """
    n = linear.size
    g, outside, free = np.empty(n), np.empty(n), np.empty(n)
    size = 0 if rows is None else rows[3].size
    sums, left = np.empty(size), np.empty(size)
    tenure_in, tenure_out = max(1, min(m // 3, _TENURE_IN)), max(1, min((n - m) // 3, _TENURE_OUT))
    is_fresh, value, missed = True, 0.0, 0.0
    for _ in range(moves):
        if is_fresh:
            is_fresh = False
            value, missed = _evaluate(h, pair, linear, order, m, g, rows, sums, local, values)
        aspiration = values[0] + least - value
        if rows is None:
            change, a, b = _admissible(h, pair, order, g, m, until, clock[0], aspiration, outside, free)
        else:
            change, a, b, missed = _best_beside_rows(
                h, pair, order, g, m, until, clock[0], aspiration, price[0], rows, sums, left, missed
            )
        clock[0] += 1
        clock[1] += 1
        if a < 0:
            _shuffle(order, m, rows, 1, state)
            is_fresh = True
        else:
            i, j = order[a], order[b]
            value += change
            swap(h, pair, order, g, a, b)
            _exchange(i, j, rows, sums)
            until[i] = clock[0] + tenure_out + below(state, tenure_out + 1)
            until[j] = clock[0] + tenure_in // 2 + below(state, tenure_in + 1)
            if missed == 0.0 and value > values[0] + least and _are_kept(rows, sums):
                values[0] = value
                copy(order, local)
                clock[1] = 0
            if rows is not None:
                _oscillate(price, missed)
        if clock[1] >= patience:
            clock[1] = 0
            clock[2] = 0 if _keep(local, best, values, least) else clock[2] + 1
            _restart(order, best, values, m, until, clock[2], rows, state)
            is_fresh = True
    if is_fresh:
        _evaluate(h, pair, linear, order, m, g, rows, sums, local, values)
    _keep(local, best, values, 0.0)


def anneal(h, pair, linear, m, order, best_value, best, moves, hot, cold, state, rows):
    """Metropolis swaps from ``order`` with a temperature that falls geometrically from ``hot`` to ``cold``.

    Arguments of the same names are those of `tabu`. A swap that misses a row of ``rows`` is not made; ``order`` keeps
    all of them.
    """
    n = linear.size
    g = np.empty(n)
    size = 0 if rows is None else rows[3].size
    sums, left = np.empty(size), np.empty(size)
    value = value_of(h, pair, linear, order, m)
    gains(h, pair, linear, order, m, g)
    if rows is not None:
        _sum_rows(order, m, rows, sums)
        copy(sums, left)
    if value > best_value:
        best_value = value
        copy(order, best)
    temperature = hot
    factor = (cold / hot) ** (1.0 / max(moves, 1))
    for _ in range(moves):
        a, b = below(state, m), m + below(state, n - m)
        i, j = order[a], order[b]
        change = g[j] - g[i] - pair * h[i, j]
        uniform = (draw(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        is_tried = _is_movable(rows, i) and _is_movable(rows, j)
        is_tried = is_tried and (change >= 0 or uniform < math.exp(change / temperature))
        if is_tried and _keeps_rows(i, j, rows, sums, left):
            _exchange(i, j, rows, sums)
            if rows is not None:
                copy(sums, left)
            swap(h, pair, order, g, a, b)
            value += change
            if value > best_value and _are_kept(rows, sums):
                best_value = value
                copy(order, best)
        temperature *= factor
    return best_value


def signatures(precision: str, *, has_rows: bool = False) -> dict[Any, Any]:
    """Return the numba types of the arguments for distances (read-only) of this precision, with rows or without."""
    from numba import float32, float64, int64, types, uint64

    h = types.Array(float32 if precision == "float32" else float64, 2, "C", readonly=True)
    reals, indices, state = float64[::1], int64[::1], uint64[::1]
    rows = types.Tuple((indices, indices, reals, reals, reals, indices)) if has_rows else types.none
    search = (h, float64, reals, int64, indices, indices, indices, reals, indices, indices)
    walk = (h, float64, reals, int64, indices, float64, indices, int64, float64, float64, state)
    return {tabu: (*search, int64, int64, float64, state, rows, reals), anneal: (*walk, rows)}
