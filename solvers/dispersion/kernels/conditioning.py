r"""Kernel of a search whose nodes are bounded by the unconstrained maximum of one concave form, in closed form.

Let :math:`f(s) = l^\top s + s^\top C s` be concave on :math:`1^\top s = m`, P the inverse of -C on that slice, y the
maximiser of f there, and v its value. Under :math:`s_j = a` the maximum is :math:`v - (a - y_j)^2 / P_{jj}`, at
:math:`y + P_j (a - y_j) / P_{jj}`, and the inverse is :math:`P - P_j P_j^\top / P_{jj}`. So one rank-one update takes a
node to its child, and before it both sides of every client have a bound.

P, y and v are as rounding leaves them, and prove nothing by themselves: a side is dropped where the tangent of f at the
side's centre is at most the target. That is a product of C and a vector, which costs as much as the update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.compiler import part
from solvers.dispersion.kernels.tree_data import Order

__all__ = ["BUDGET", "DONE", "ROUNDING", "explore", "signatures"]

#: How a search ends: everything was dropped or visited; work or room is used up; a pivot has no digits left.
DONE, BUDGET, ROUNDING = 0, 1, 2

_DROP, _FIX, _BRANCH, _GIVE_UP = 0, 1, 2, 3

#: A pivot of the inverse that is no larger has no digits left.
_LEAST = 1e-300

#: Weight of the stronger side where a node branches, beside the weaker one's.
_BOTH = 0.1


@part
def _move(inverse, k, j, value, y, moved):
    """Set ``moved`` to the centre under ``s_j = value``; return by how much the maximum falls."""
    step = (value - y[j]) / inverse[j, j]
    for i in range(k):
        moved[i] = y[i] + inverse[j, i] * step
    moved[j] = value
    return (value - y[j]) * step


@part
def _tangent(curved, k, left, y, slope, constant, j, value, towards, unit):
    """Bound the selections of ``left`` free clients by the tangent at y; those with ``s_j = value``, unless j is -1.

    With ``unit`` times the square of the weights' sum it covers the rounding of what is summed here.
    """
    reach = 2.0 * left
    for i in range(k):
        towards[i] = 0.0
        reach += abs(y[i])
    for b in range(k):
        w = y[b]
        for i in range(k):
            towards[i] += w * curved[b, i]
    base, level = constant, 0.0
    for i in range(k):
        base -= y[i] * towards[i]
        if i != j:
            level += slope[i] + 2.0 * towards[i]
    count = k if j < 0 else k - 1
    rest = left if j < 0 else left - value
    level /= count
    bound = base + rest * level
    for i in range(k):
        e = slope[i] + 2.0 * towards[i]
        if i == j:
            bound += value * e
        elif e > level:
            bound += e - level
    return bound + unit * reach * reach


@part
def _condition(inverse, curved, y, slope, who, row, k, j, value):
    """Fix client j of k: the centre, the inverse and the linear term of the others; the last client takes its place."""
    pivot = inverse[j, j]
    step = (value - y[j]) / pivot
    for i in range(k):
        row[i] = inverse[j, i]
        y[i] += row[i] * step
        if value == 1:
            slope[i] += 2.0 * curved[j, i]
    for i in range(k):
        c = row[i] / pivot
        if i != j:
            for b in range(k):
                inverse[i, b] -= c * row[b]
    last = k - 1
    if j != last:
        y[j], slope[j], who[j] = y[last], slope[last], who[last]
        for b in range(k):
            inverse[j, b] = inverse[last, b]
            curved[j, b] = curved[last, b]
        for b in range(k):
            inverse[b, j] = inverse[b, last]
            curved[b, j] = curved[b, last]


@part
def _chosen(constant, left, slope, curved, j, value):
    """Return the constant and the clients left to choose once client j is fixed."""
    if value == 1:
        return constant + (slope[j] + curved[j, j]), left - 1
    return constant, left


@part
def _settled(kept, depth, fixed):
    """Return how many clients were fixed before the first node of which a side is left."""
    return kept[0, 2] if depth > 0 else fixed


@part
def _visit(exact, linear, trail, fixed, who, k, all_of_them, chosen, best, highest):
    """Compare the one selection that is left with the best so far, and return the higher value."""
    count = 0
    for a in range(fixed):
        if trail[a] % 2 == 1:
            chosen[count] = trail[a] // 2
            count += 1
    if all_of_them:
        for i in range(k):
            chosen[count] = who[i]
            count += 1
    value = 0.0
    for a in range(count):
        value += linear[chosen[a]]
        for b in range(count):
            value += exact[chosen[a], chosen[b]]
    if value <= highest:
        return highest
    for i in range(best.size):
        best[i] = 0
    for a in range(count):
        best[chosen[a]] = 1
    return value


@part
def _choose(inverse, y, k, value, aim):
    """Return a client, its side and what is to be done: drop the node, fix the client, branch on it, or give up."""
    pick, side, most_sure, most_gained = -1, 0, -1.0, -1.0
    for j in range(k):
        p = inverse[j, j]
        if not p > _LEAST:
            return j, 0, _GIVE_UP
        without, beside = y[j] * y[j] / p, (1.0 - y[j]) * (1.0 - y[j]) / p
        weaker, stronger = min(without, beside), max(without, beside)
        if value - weaker <= aim:  # neither side is left
            return j, 0, _DROP
        if value - stronger <= aim:
            if stronger > most_sure:
                most_sure, pick = stronger, j
                side = 1 if without > beside else 0
        elif most_sure < 0.0:
            gained = weaker * (1.0 + _BOTH * stronger / (value - aim))
            if gained > most_gained:
                most_gained, pick = gained, j
    if most_sure >= 0.0:
        return pick, side, _FIX
    return pick, 0 if y[pick] > 0.5 else 1, _BRANCH


@part
def _is_shown(inverse, curved, k, left, y, slope, constant, pick, side, task, moved, towards, unit, most):
    """Whether tangents drop the other side of a client, or both."""
    for a in range(2):
        if task == _DROP or a != side:
            _move(inverse, k, pick, a, y, moved)
            bound = _tangent(curved, k, left, moved, slope, constant, pick, a, towards, unit)
            if not bound <= most:
                return False
    return True


@part
def _implied(client, side, order, at, queue, is_queued, waiting):
    """Put the clients that are fixed as soon as this one is into the queue; return how many wait.

    Those above a client that is chosen are chosen, those below one that is left out are left out.
    """
    start, other = (order.above_start, order.above) if side == 1 else (order.below_start, order.below)
    for a in range(start[client], start[client + 1]):
        c = other[a]
        if at[c] >= 0 and not is_queued[c]:
            queue[waiting], is_queued[c] = 2 * c + side, True
            waiting += 1
    return waiting


@part
def _keep(depth, y, slope, who, inverse, k, room, points, slopes, clients, store):
    """Store a node."""
    for i in range(k):
        points[depth, i], slopes[depth, i], clients[depth, i] = y[i], slope[i], who[i]
    for i in range(k):
        for b in range(k):
            store[room + i * k + b] = inverse[i, b]


@part
def _restore(depth, y, slope, who, inverse, k, room, points, slopes, clients, store, curved, original):
    """Restore a node."""
    for i in range(k):
        y[i], slope[i], who[i] = points[depth, i], slopes[depth, i], clients[depth, i]
    for i in range(k):
        for b in range(k):
            inverse[i, b] = store[room + i * k + b]
            curved[i, b] = original[who[i], who[b]]


def explore(original, exact, linear, size, margin, unit, order, inverse, centre, target, most, best, trail, store):
    """Search depth first until every selection is visited or shown to be worth at most ``target``, or it gives up.

    Only selections that contain the clients above those that they contain are of interest.

    The less likely side of a client comes first. Once that is done, the other one is left: where no node above is open,
    the client is settled, however the search ends.

    Parameters
    ----------
    original, exact : (n, n) ndarray
        Quadratic terms: one that is concave on the slice, and one no larger that gives the value of a selection.
    linear : (n,) ndarray
        The linear term of both.
    size : int
        m, of 0 < m < n.
    margin, unit : float
        Cover the rounding of a tangent: of linear term and constant, and, beside the weights' square, of its sums.
    order : Order
        Of each client those above, which are chosen where it is, and those below, which are left out where it is.
    inverse, centre : ndarray
        P and y; both are used up.
    target : float
        What a selection has to exceed.
    most : int
        Entries of the inverse to update, at most.
    best : (n,) ndarray of int8
        Set to the best selection visited; left as it is where none was.
    trail : (n + 1,) ndarray of int
        Set to twice the client, and one more where it is chosen, of each that is settled.
    store : ndarray
        Room for the inverses of the nodes on the way down.

    Returns
    -------
    tuple of int
        How it ended, nodes, entries updated, and how many clients are settled.
    """
    n = linear.size
    curved, y, slope, who = original.copy(), centre, linear.copy(), np.arange(n)
    moved, towards, row = np.empty(n), np.empty(n), np.empty(n)
    # Where a client stands, -1 once it is fixed; those that are to be fixed next, and their sides.
    at, queue, is_queued, waiting = np.arange(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), 0
    chosen = np.zeros(n + 1, dtype=np.int64)
    # Of each node above: clients free, left to choose and fixed, where its inverse lies, whom it branches on, the side
    # that is left; its maximum, and what the chosen are worth.
    kept, values = np.zeros((n + 1, 6), dtype=np.int64), np.zeros((n + 1, 2))
    points, slopes, clients = np.empty((n + 1, n)), np.empty((n + 1, n)), np.empty((n + 1, n), dtype=np.int64)
    k, left, fixed, constant, depth, room, nodes, work, highest = n, size, 0, 0.0, 0, 0, 1, 0, -np.inf
    aim = target - 4.0 * (margin + 16.0 * unit * size * size)  # so that what is dropped can be shown
    value = _tangent(curved, k, left, y, slope, constant, -1, 0, towards, 0.0)
    while True:
        pick, side, task = -1, 0, _DROP
        if left == 0 or left == k:
            highest = _visit(exact, linear, trail, fixed, who, k, left > 0, chosen, best, highest)
            work += size * size
        elif waiting > 0:
            waiting -= 1
            pick, side, task = at[queue[waiting] // 2], queue[waiting] % 2, _FIX
            is_queued[who[pick]] = False
            if not inverse[pick, pick] > _LEAST:
                return ROUNDING, nodes, work, _settled(kept, depth, fixed)
            work += 2 * k * k
        else:
            pick, side, task = _choose(inverse, y, k, value, aim)
            if task == _GIVE_UP:
                return ROUNDING, nodes, work, _settled(kept, depth, fixed)
            work += 3 * k * k + 64
            if task != _BRANCH and not _is_shown(
                inverse, curved, k, left, y, slope, constant, pick, side, task, moved, towards, unit, target - margin
            ):
                task = _BRANCH  # rounding has the last word: both sides are looked at
        if task == _DROP:
            if depth == 0:
                return DONE, nodes, work, 0
            for i in range(waiting):
                is_queued[queue[i] // 2] = False
            depth, waiting = depth - 1, 0
            k, left, fixed = kept[depth, 0], kept[depth, 1], kept[depth, 2]
            room, pick, side = kept[depth, 3], kept[depth, 4], kept[depth, 5]
            value, constant = values[depth, 0], values[depth, 1]
            _restore(depth, y, slope, who, inverse, k, room, points, slopes, clients, store, curved, original)
            for i in range(k):
                at[who[i]] = i
            nodes += 1
        elif task == _BRANCH:
            if work > most or room + k * k > store.size:
                return BUDGET, nodes, work, _settled(kept, depth, fixed)
            kept[depth, 0], kept[depth, 1], kept[depth, 2] = k, left, fixed
            kept[depth, 3], kept[depth, 4], kept[depth, 5] = room, pick, 1 - side
            values[depth, 0], values[depth, 1] = value, constant
            _keep(depth, y, slope, who, inverse, k, room, points, slopes, clients, store)
            room += k * k
            depth += 1
            nodes += 1
        value -= _move(inverse, k, pick, side, y, moved)
        constant, left = _chosen(constant, left, slope, curved, pick, side)
        trail[fixed] = 2 * who[pick] + side
        fixed += 1
        at[who[k - 1]], at[who[pick]] = pick, -1
        waiting = _implied(who[pick], side, order, at, queue, is_queued, waiting)
        _condition(inverse, curved, y, slope, who, row, k, pick, side)
        k -= 1


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int8, int64, types

    matrix, reals = float64[:, ::1], float64[::1]
    return {
        explore: (
            *(matrix, matrix, reals, int64, float64, float64),
            types.NamedUniTuple(int64[::1], 4, Order),
            *(matrix, reals, float64, int64),
            *(int8[::1], int64[::1], reals),
        )
    }
