"""Kernel of branch and bound over the slice: first-order bounds, reduced costs, depth first.

The kernel maximises ``constant + linearᵀs + sᵀQs`` over 0/1 vectors with ``1ᵀs = m``. It is handed two matrices:
``exact``, which together with ``linear`` gives the objective of every admissible 0/1 vector, and ``curved ≥ exact``,
which is concave on the slice and so gives bounds. (They differ only where X ≥ 0 cuts take part in the bound.)

A node is bounded by the tangent at a point that first-order steps reach from its parent's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.arrays import copy, select
from solvers.dispersion.kernels.compiler import part
from solvers.dispersion.kernels.tree_data import FREE, ONE, ZERO, Form, Goal, Log, Order, Stack, Workspace

__all__ = ["explore", "signatures"]


@part
def project(node, nf, left):
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
def settle(node, nf, grain):
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
def gradient(curved, node, nf):
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
def _ends(y, g, free, nf):
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
def _partner(curved, y, g, free, nf, up, most):
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
def _exchange(curved, y, g, up, down, t):
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
def _tangent(node, nf, left):
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
def bound_node(form, node, nf, left, constant, goal, incumbent, grain):
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


@part
def _fix(state, client, value, order, todo):
    """Fix a client and all it implies by dominance; False when that contradicts what is fixed already."""
    if state[client] != FREE:
        return state[client] == value
    state[client] = value
    todo[0] = client
    count = 1
    while count > 0:
        count -= 1
        i = todo[count]
        start, stop, others = order.above_start[i], order.above_start[i + 1], order.above
        if value == ZERO:
            start, stop, others = order.below_start[i], order.below_start[i + 1], order.below
        for k in range(start, stop):
            j = others[k]
            if state[j] == FREE:
                state[j] = value
                todo[count] = j
                count += 1
            elif state[j] != value:
                return False
    return True


@part
def _restrict(form, node):
    """Linear term of the free clients, and who they are; how many, how many to choose, what the chosen are worth."""
    n = form.linear.size
    copy(form.linear, node.slope)
    constant = 0.0
    chosen = 0
    for i in range(n):
        if node.state[i] == ONE:
            chosen += 1
            constant += node.slope[i] + form.exact[i, i]
            for j in range(n):
                node.slope[j] += 2.0 * form.exact[i, j]
    nf = 0
    for i in range(n):
        if node.state[i] == FREE:
            node.free[nf] = i
            nf += 1
    return nf, form.size - chosen, constant


@part
def _value(form, node, nf, left, constant):
    """The value of the one selection that is left: none of the free clients, or all."""
    value = constant
    if left == nf:
        for a in range(nf):
            i = node.free[a]
            value += node.slope[i]
            for b in range(nf):
                value += form.exact[i, node.free[b]]
    return value


@part
def _reduce(node, nf, lower_theta, upper_theta, room, order):
    """Fix by reduced costs whom no selection better than the incumbent can do without, or with; False if none is."""
    consistent = True
    for a in range(nf):
        i = node.free[a]
        if node.state[i] == FREE:
            if node.g[i] >= lower_theta:
                if node.g[i] - upper_theta >= room:
                    consistent = consistent and _fix(node.state, i, ONE, order, node.todo)
            elif lower_theta - node.g[i] >= room:
                consistent = consistent and _fix(node.state, i, ZERO, order, node.todo)
    return consistent


@part
def _undecided(importance, node, nf):
    """Whom to branch on: the client of most weight that is furthest from 0 and 1; -1 when all are fixed."""
    pick, most = -1, -1.0
    for a in range(nf):
        i = node.free[a]
        if node.state[i] == FREE:
            score = importance[i] * min(node.y[i], 1.0 - node.y[i])
            if score > most:
                most = score
                pick = i
    return pick


@part
def _push(stack, count, state, y, bound, origin):
    copy(state, stack.states[count])
    copy(y, stack.points[count])
    stack.bounds[count] = bound
    stack.origins[count] = origin
    return count + 1


@part
def _note(log, node, origin):
    """Write a bounded node down, where there is room; its number."""
    place = log.used[0]
    if place < log.origins.size:
        log.origins[place] = origin
        log.clients[place] = -1
        for i in range(node.y.size):
            share = node.y[i] if node.state[i] == FREE else 1.0 if node.state[i] == ONE else 0.0
            log.points[place, i] = int(share / log.grain)
        log.used[0] = place + 1
    return log.first + place


@part
def _branch(stack, count, node, order, pick, bounds, number):
    """Put the node's two children on the stack: excluding first, so that including is looked at first."""
    excluding, including = bounds
    copy(node.state, node.child)
    if _fix(node.child, pick, ZERO, order, node.todo):
        count = _push(stack, count, node.child, node.y, excluding, 2 * number)
    if _fix(node.state, pick, ONE, order, node.todo):
        count = _push(stack, count, node.state, node.y, including, 2 * number + 1)
    return count


def explore(form, order, stack, count, goal, best, node, log):
    """Look at nodes until none is left, the budget or the log is used up, or a better selection was found.

    Parameters
    ----------
    form : Form
        The objective.
    order : Order
        Dominance.
    stack : Stack
        The open nodes; changed in place.
    count : int
        How many there are.
    goal : Goal
        What to beat.
    best : (n,) int8 array
        Receives a better selection.
    node : Workspace
        Room to work in.
    log : Log
        Receives what was bounded, if it has room for anything; points are rounded to its grain then.

    Returns
    -------
    tuple
        Nodes looked at, work done, nodes left on the stack, and the incumbent's value.
    """
    n = form.linear.size
    state = node.state
    incumbent = goal.incumbent
    nodes = 0
    work = 0
    keeping = log.origins.size > 0
    while count > 0 and work < goal.budget and not (keeping and log.used[0] == log.origins.size):
        count -= 1
        inherited, origin = stack.bounds[count], stack.origins[count]
        if inherited <= incumbent + goal.tolerance:
            continue
        nodes += 1
        copy(stack.states[count], state)
        copy(stack.points[count], node.y)
        nf, left, constant = _restrict(form, node)
        if left < 0 or left > nf:
            continue
        if left == 0 or left == nf:
            value = _value(form, node, nf, left, constant)
            if value > incumbent + 1e-12:
                incumbent = value
                for i in range(n):
                    best[i] = 1 if state[i] == ONE or (state[i] == FREE and left > 0) else 0
                break  # the caller may know a better tolerance for the new incumbent
            continue
        project(node, nf, left)
        if keeping:
            settle(node, nf, log.grain)
        gradient(form.curved, node, nf)
        bound, lower_theta, upper_theta, steps = bound_node(form, node, nf, left, constant, goal, incumbent, log.grain)
        work += (steps + 4) * n
        number = _note(log, node, origin)
        if bound <= incumbent + goal.tolerance:
            continue
        room = bound - incumbent - goal.tolerance
        if not _reduce(node, nf, lower_theta, upper_theta, room, order):
            continue
        pick = _undecided(form.importance, node, nf)
        if pick < 0:
            count = _push(stack, count, state, node.y, min(inherited, bound), origin)
            continue
        slack = node.g[pick] - (upper_theta if node.g[pick] >= lower_theta else lower_theta)
        excluding, including = bound - max(0.0, slack), bound - max(0.0, -slack)
        if keeping:
            log.clients[number - log.first] = pick
        bounds = min(inherited, excluding), min(inherited, including)
        count = _branch(stack, count, node, order, pick, bounds, number)
    return nodes, work, count, incumbent


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int8, int16, int64, types

    matrix, reals, indices = float64[:, ::1], float64[::1], int64[::1]
    form = types.NamedTuple([matrix, matrix, reals, int64, float64, reals], Form)
    order = types.NamedUniTuple(indices, 4, Order)
    stack = types.NamedTuple([int8[:, ::1], matrix, reals, indices], Stack)
    goal = types.NamedTuple([float64, float64, float64, int64], Goal)
    node = types.NamedTuple([int8[::1]] * 2 + [reals] * 4 + [indices] * 2, Workspace)
    log = types.NamedTuple([indices, indices, int16[:, ::1], indices, int64, float64], Log)
    return {explore: (form, order, stack, int64, goal, int8[::1], node, log)}
