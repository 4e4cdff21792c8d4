r"""Kernel of branch and bound over the slice: first-order bounds, reduced costs, depth first.

The kernel maximises ``constant + linearᵀs + sᵀQs`` over 0/1 vectors with ``1ᵀs = m``. It is handed two matrices:
``exact``, which together with ``linear`` gives the objective of every admissible 0/1 vector (or more, where products
of rows take part), and ``curved ≥ exact``, which is concave on the slice and so gives bounds.

A node is bounded by the tangent at a point that pairwise Frank–Wolfe steps reach from its parent's.

**Side constraints** (``sides``; None is compiled away, in the kernels ``tree`` and ``tree_node`` of this source, and
not in ``constrained_tree``): between ``low`` and ``high`` clients of each of some disjoint groups,
``rows s <= limits``, no two clients in conflict. The groups' hull is that of a matroid's bases, over which a linear
function is maximised greedily, and in which pairs of clients exchange weight. Rows enter with multipliers λ ≥ 0:
whatever they are, :math:`f(y) + \nabla f(y)^\top (x - y) + \lambda^\top (b - A x)` bounds every feasible x. They are
those of an augmented Lagrangian, :math:`\lambda = \max(0, \mu + \rho (A y - b))`. A point of the stack has the
multipliers behind the shares.

What follows from the constraints alone comes first: full and needy groups, conflicts, and the cheapest completion of
each row, which also fixes the clients that no selection within the limit contains, or leaves out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.arrays import copy, select
from solvers.dispersion.kernels.compiler import part
from solvers.dispersion.kernels.tree_data import (
    FREE,
    ONE,
    ZERO,
    Form,
    Goal,
    Log,
    Order,
    Sides,
    SideScratch,
    Stack,
    Workspace,
)
from solvers.search import NodeOutcome

FATHOMED_BY_BOUND, REDUCED, DOMINATED, INFEASIBLE, SOLVED, BRANCHED = (int(outcome) for outcome in NodeOutcome)

#: No function of this module makes an array.
ALLOCATES = False

__all__ = ["consistent", "evaluate", "explore", "signatures"]


# -- what is fixed ----------------------------------------------------------------------------------------------------


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
def _set(sides, state, client, value, order, todo):
    """Fix a client; False in contradiction. Beside constraints, what dominance implies is left to `_consequences`."""
    if sides is None:
        return _fix(state, client, value, order, todo)
    state[client] = value
    return True


@part
def _implied(order, state, todo):
    """Fix what dominance implies; 1 where that is something, 0 where nothing, -1 where it contradicts what is fixed."""
    fixed = 0
    if order.above.size == 0:
        return fixed
    for i in range(state.size):
        value = state[i]
        if value == FREE:
            continue
        start, stop, others = order.above_start[i], order.above_start[i + 1], order.above
        if value == ZERO:
            start, stop, others = order.below_start[i], order.below_start[i + 1], order.below
        for k in range(start, stop):
            if state[others[k]] == FREE:
                fixed = 1
            if not _fix(state, others[k], value, order, todo):
                return -1
    return fixed


@part
def _count_free(size, node):
    """List the free clients: how many they are, and how many are left to choose."""
    nf, chosen = 0, 0
    for i in range(node.state.size):
        if node.state[i] == ONE:
            chosen += 1
        elif node.state[i] == FREE:
            node.free[nf] = i
            nf += 1
    return nf, size - chosen


@part
def _count(size, sides, node, scratch):
    """Count free clients and those left to choose; by group as well, and what the chosen leave of each row."""
    nf, left = _count_free(size, node)
    groups = sides.low.size
    for g in range(groups):
        scratch.chosen[g] = 0
        scratch.open[g] = 0
    for k in range(sides.limits.size):
        scratch.rest[k] = sides.limits[k]
    for i in range(node.state.size):
        if node.state[i] == ONE:
            scratch.chosen[sides.group[i]] += 1
            for k in range(sides.limits.size):
                scratch.rest[k] -= sides.rows[k, i]
        elif node.state[i] == FREE:
            scratch.open[sides.group[i]] += 1
    for g in range(groups):
        scratch.need[g] = max(sides.low[g] - scratch.chosen[g], 0)
        scratch.capacity[g] = min(sides.high[g] - scratch.chosen[g], scratch.open[g])
    return nf, left


@part
def _exclude_conflicts(sides, state):
    """Leave out the clients in conflict with those chosen; 0 where none is free, 1 where one was, -1 in conflict."""
    changed = 0
    if sides.conflict.size == 0:
        return changed
    for i in range(state.size):
        if state[i] == ONE:
            for k in range(sides.conflict_start[i], sides.conflict_start[i + 1]):
                j = sides.conflict[k]
                if state[j] == ONE:
                    return -1
                if state[j] == FREE:
                    state[j] = ZERO
                    changed = 1
    return changed


@part
def _quotas(sides, node, scratch, nf, left):
    """Fix what the groups' counts alone decide; 1 where something was, 0 where nothing was, -1 in contradiction."""
    least, most = 0, 0
    for g in range(sides.low.size):
        if scratch.need[g] > scratch.capacity[g] or scratch.capacity[g] < 0:
            return -1
        least += scratch.need[g]
        most += scratch.capacity[g]
    if least > left or most < left:
        return -1
    changed = 0
    for a in range(nf):
        i = node.free[a]
        g = sides.group[i]
        if scratch.capacity[g] == 0 or (least == left and scratch.need[g] == 0):
            node.state[i] = ZERO
            changed = 1
        elif scratch.open[g] == scratch.capacity[g] and (most == left or scratch.need[g] == scratch.capacity[g]):
            node.state[i] = ONE
            changed = 1
    return changed


@part
def _greedy(sides, scratch, key, order, free, left):
    """Mark the clients of a best basis, given clients in falling order of their keys, and return its value.

    First what each group needs, then the best of the rest within its group's capacity. Clients that are not free are
    passed over. Then, for reduced costs: ``best_out`` and ``worst_in`` of each group, and of all the groups that can
    take one more, or spare one.
    """
    groups = sides.low.size
    needed = 0
    for g in range(groups):
        scratch.taken[g] = 0
        needed += scratch.need[g]
        scratch.best_out[g] = -np.inf
        scratch.worst_in[g] = np.inf
    extra = left - needed
    value = 0.0
    for a in range(order.size):
        i = order[a]
        if free[i] != FREE:
            continue
        g = sides.group[i]
        scratch.mark[i] = 0
        if scratch.taken[g] < scratch.need[g]:
            scratch.mark[i] = 1
        elif extra > 0 and scratch.taken[g] < scratch.capacity[g]:
            scratch.mark[i] = 1
            extra -= 1
        if scratch.mark[i] == 1:
            scratch.taken[g] += 1
            value += key[i]
            scratch.worst_in[g] = key[i]
        elif key[i] > scratch.best_out[g]:
            scratch.best_out[g] = key[i]
    upper, lower = -np.inf, np.inf
    for g in range(groups):
        if scratch.taken[g] < scratch.capacity[g] and scratch.best_out[g] > upper:
            upper = scratch.best_out[g]
        if scratch.taken[g] > scratch.need[g] and scratch.worst_in[g] < lower:
            lower = scratch.worst_in[g]
    return value, upper, lower


@part
def _loss(sides, scratch, key, i, upper, lower):
    """Say whether client i is in the best selection, and what its other side loses: what the best exchange costs."""
    if sides is None:
        if key[i] >= lower:
            return True, key[i] - upper
        return False, lower - key[i]
    g = sides.group[i]
    if scratch.mark[i] == 1:
        other = scratch.best_out[g]
        if scratch.taken[g] > scratch.need[g] and upper > other:
            other = upper
        return True, key[i] - other
    other = scratch.worst_in[g]
    if scratch.taken[g] < scratch.capacity[g] and lower < other:
        other = lower
    return False, other - key[i]


@part
def _reduce(sides, order, node, scratch, key, nf, slack, upper, lower):
    """Fix the clients whose other side loses at least ``slack``: how many; -1 where that contradicts dominance."""
    changed = 0
    for a in range(nf):
        i = node.free[a]
        if node.state[i] == FREE:
            is_in, loss = _loss(sides, scratch, key, i, upper, lower)
            if loss >= slack:
                if not _set(sides, node.state, i, ONE if is_in else ZERO, order, node.todo):
                    return -1
                changed += 1
    return changed


@part
def _propagate(size, sides, order, node, scratch):
    """Fix what the constraints alone decide: free clients, how many are left to choose; -1 for no selection."""
    while True:
        if _exclude_conflicts(sides, node.state) < 0:
            return -1, 0
        nf, left = _count(size, sides, node, scratch)
        if left < 0 or left > nf:
            return -1, 0
        fixed = _quotas(sides, node, scratch, nf, left)
        if fixed < 0:
            return -1, 0
        if fixed > 0:
            continue
        changed = False
        for k in range(sides.limits.size):
            for a in range(nf):
                scratch.key[node.free[a]] = -sides.rows[k, node.free[a]]
            value, upper, lower = _greedy(sides, scratch, scratch.key, sides.order[k], node.state, left)
            spare = scratch.rest[k] + value
            if spare < 0.0:
                return -1, 0
            beyond = np.nextafter(spare, np.inf)  # what just fits is left free
            if _reduce(sides, order, node, scratch, scratch.key, nf, beyond, upper, lower) > 0:
                changed = True
                break
        if not changed:
            return nf, left


@part
def _consequences(size, order, sides, node, scratch):
    """Fix what constraints and dominance decide: free clients, how many are left to choose.

    Where no selection is left, -1, or -2 where dominance contradicts what is fixed.
    """
    while True:
        nf, left = _propagate(size, sides, order, node, scratch)
        if nf < 0:
            return nf, 0
        implied = _implied(order, node.state, node.todo)
        if implied < 0:
            return -2, 0
        if implied == 0:
            return nf, left


# -- the point --------------------------------------------------------------------------------------------------------


@part
def _enter_slice(node, nf, left):
    """Move the parent's point onto this node's slice."""
    y, free = node.y, node.free
    total = 0.0
    for a in range(nf):
        total += y[free[a]]
    if total > left:
        for a in range(nf):
            y[free[a]] *= left / total
    elif total < left:
        span = nf - total
        for a in range(nf):
            i = free[a]
            y[i] += (1.0 - y[i]) * (left - total) / span


@part
def _enter_groups(sides, node, scratch, nf, left):
    """Move the parent's point into the groups' hull: counts within need and room first, then their sum."""
    y, free = node.y, node.free
    groups = sides.low.size
    for g in range(groups):
        scratch.total[g] = 0.0
    for a in range(nf):
        scratch.total[sides.group[free[a]]] += y[free[a]]
    total = 0.0
    for g in range(groups):
        scratch.goal[g] = min(max(scratch.total[g], 1.0 * scratch.need[g]), 1.0 * scratch.capacity[g])
        total += scratch.goal[g]
    missing = left - total
    slack = 0.0
    for g in range(groups):
        slack += scratch.capacity[g] - scratch.goal[g] if missing > 0 else scratch.goal[g] - scratch.need[g]
    if slack > 0.0:
        share = missing / slack
        for g in range(groups):
            span = scratch.capacity[g] - scratch.goal[g] if missing > 0 else scratch.goal[g] - scratch.need[g]
            scratch.goal[g] += share * span
    for a in range(nf):
        i = free[a]
        g = sides.group[i]
        have, want = scratch.total[g], scratch.goal[g]
        if have > want:
            y[i] *= want / have
        elif have < want:
            y[i] += (1.0 - y[i]) * (want - have) / (scratch.open[g] - have)
        y[i] = min(max(y[i], 0.0), 1.0)
    for g in range(groups):
        scratch.total[g] = scratch.goal[g]


@part
def round_to_grain(node, nf, grain):
    """Round the point to multiples of ``grain`` with the same sum; clients without weight, or with all, keep theirs."""
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


# -- pairwise Frank-Wolfe ---------------------------------------------------------------------------------------------


@part
def _ends(sides, scratch, y, key, free, nf):
    """The client that gains most by more weight, the gain of the best pair, and whether that is in one group."""
    if sides is not None:
        return _ends_in_groups(sides, scratch, y, key, free, nf)
    up, most, least = -1, -np.inf, np.inf
    for a in range(nf):
        i = free[a]
        if y[i] < 1.0 and key[i] > most:
            most = key[i]
            up = i
        if y[i] > 0.0 and key[i] < least:
            least = key[i]
    return up, most - least, True


@part
def _ends_in_groups(sides, scratch, y, key, free, nf):
    """As `_ends`: within a group, or between two of which one can give a client and the other take one."""
    groups = sides.low.size
    for g in range(groups):
        scratch.top[g] = -1
        scratch.bottom[g] = -1
    for a in range(nf):
        i = free[a]
        g = sides.group[i]
        if y[i] < 1.0 and (scratch.top[g] < 0 or key[i] > key[scratch.top[g]]):
            scratch.top[g] = i
        if y[i] > 0.0 and (scratch.bottom[g] < 0 or key[i] < key[scratch.bottom[g]]):
            scratch.bottom[g] = i
    up, down = -1, -1
    best, single, inner = 0.0, -1, 0.0
    for g in range(groups):
        top, bottom = scratch.top[g], scratch.bottom[g]
        if top >= 0 and bottom >= 0 and key[top] - key[bottom] > inner:
            inner, single = key[top] - key[bottom], top
        if top >= 0 and scratch.total[g] < scratch.capacity[g] - 1e-12 and (up < 0 or key[top] > key[up]):
            up = top
        if bottom >= 0 and scratch.total[g] > scratch.need[g] + 1e-12 and (down < 0 or key[bottom] < key[down]):
            down = bottom
    if up >= 0 and down >= 0:
        best = key[up] - key[down]
    if best >= inner:
        return up, best, False
    return single, inner, True


@part
def _partner(curved, sides, scratch, y, key, free, nf, up, inside):
    """The client that gives weight to ``up`` with the largest gain (second order), and the curvature; -1 for none."""
    most = key[up]
    best, down, curvature = 0.0, -1, 0.0
    for a in range(nf):
        j = free[a]
        if y[j] > 0.0 and key[j] < most:
            if sides is not None:
                g = sides.group[j]
                if g != sides.group[up] and (inside or scratch.total[g] <= scratch.need[g] + 1e-12):
                    continue
            difference = most - key[j]
            k = 2.0 * curved[up, j] - curved[up, up] - curved[j, j]
            if sides is not None:
                for r in range(sides.limits.size):
                    if scratch.price[r] > 0.0:
                        k += 0.5 * sides.penalty[r] * (sides.rows[r, up] - sides.rows[r, j]) ** 2
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
def _exchange_in_groups(form, sides, node, scratch, up, down, t):
    """As `_exchange`, at most what both groups allow; the groups' weights and the rows' use change with it."""
    y, first, second = node.y, sides.group[up], sides.group[down]
    if first != second:
        t = min(t, scratch.capacity[first] - scratch.total[first], scratch.total[second] - scratch.need[second])
    t = min(t, 1.0 - y[up], y[down])
    _exchange(form.curved, y, node.g, up, down, t)
    scratch.total[first] += t
    scratch.total[second] -= t
    for k in range(sides.limits.size):
        scratch.use[k] += t * (sides.rows[k, up] - sides.rows[k, down])


@part
def _begin_rows(sides, node, scratch, nf):
    """Compute the rows' use by the point; clients are sorted later, from this order on."""
    for a in range(nf):
        scratch.sorted[a] = node.free[a]
    for k in range(sides.limits.size):
        scratch.use[k] = 0.0
        for a in range(nf):
            scratch.use[k] += sides.rows[k, node.free[a]] * node.y[node.free[a]]


@part
def _price(sides, node, scratch, nf):
    """Multipliers of the augmented Lagrangian at the point, and the gradient less what they charge."""
    for k in range(sides.limits.size):
        scratch.price[k] = max(scratch.mu[k] + sides.penalty[k] * (scratch.use[k] - scratch.rest[k]), 0.0)
    for a in range(nf):
        i = node.free[a]
        e = node.g[i]
        for k in range(sides.limits.size):
            e -= scratch.price[k] * sides.rows[k, i]
        scratch.key[i] = e


@part
def _charges(form, sides, scratch):
    """What the rows' prices charge for, their part of the distance to the value, and the rounding of both."""
    if sides is None:
        return 0.0, 0.0, 0.0
    charged, off, size, count = 0.0, 0.0, 0.0, sides.limits.size
    for k in range(count):
        charged += scratch.price[k] * scratch.rest[k]
        off += scratch.price[k] * abs(scratch.use[k] - scratch.rest[k])
        size += scratch.price[k] * (sides.largest[k] * form.size + abs(scratch.rest[k]))
    return charged, off, 8.0 * (form.linear.size + count + 8) * 2.3e-16 * size


@part
def _arrange(key, order, nf):
    """Sort clients by falling keys, ties by number; fast where they are nearly in order (Shell, gaps of Ciura)."""
    for gap in (701, 301, 132, 57, 23, 10, 4, 1):
        for a in range(gap, nf):
            i = order[a]
            b = a
            while b >= gap:
                j = order[b - gap]
                if key[j] > key[i] or (key[j] == key[i] and j < i):
                    break
                order[b] = j
                b -= gap
            order[b] = i


@part
def _best_sum(sides, node, scratch, nf, left):
    """Largest sum of the keys of a selection, and the two keys that reduced costs compare.

    They are the largest key of the clients left out, and the smallest of those taken; beside constraints, of the
    groups that can take one more client, or spare one.
    """
    if sides is None:
        g, free, values = node.g, node.free, node.scratch
        for a in range(nf):
            values[a] = g[free[a]]
        select(values, nf, left)
        tops, lower, upper = 0.0, values[0], -np.inf
        for a in range(left):
            tops += values[a]
            if values[a] < lower:
                lower = values[a]
        for a in range(left, nf):
            if values[a] > upper:
                upper = values[a]
        return tops, upper, lower
    _arrange(scratch.key, scratch.sorted, nf)
    return _greedy(sides, scratch, scratch.key, scratch.sorted[:nf], node.state, left)


@part
def bound_node(form, sides, node, scratch, nf, left, constant, goal, incumbent, grain):
    """Pairwise Frank-Wolfe steps until the node can be dropped, or is solved well enough.

    Where there is a ``grain``, weight moves in multiples of it. Returns the lowest bound on the way (without rows the
    last one, which the point that goes to the search log proves), the last one, the two keys that reduced costs
    compare, and the steps made.
    """
    y, g, free = node.y, node.g, node.free
    key = g if sides is None else scratch.key
    enough = incumbent + goal.tolerance
    limit = 20 * nf + 100
    steps, check = 0, 4
    stuck = False
    lowest = np.inf
    if sides is not None:
        _begin_rows(sides, node, scratch, nf)
    while True:
        if sides is not None:
            _price(sides, node, scratch, nf)
        up, difference, inside = _ends(sides, scratch, y, key, free, nf)
        last = stuck or up < 0 or difference <= 1e-12 or steps >= limit
        if last or steps >= check:
            check = steps + 4 + steps // 4
            tops, upper, lower = _best_sum(sides, node, scratch, nf, left)
            inner, at_point = 0.0, 0.0
            for a in range(nf):
                i = free[a]
                inner += (node.slope[i] - g[i]) * y[i]
                at_point += key[i] * y[i]
            charged, off, rounding = _charges(form, sides, scratch)
            bound = constant + 0.5 * inner + tops + charged + form.margin + rounding
            value = bound - tops + at_point
            lowest = bound if sides is None else min(lowest, bound)
            spare = goal.accuracy * (value - incumbent)
            close = value > enough and bound - value <= spare and off <= spare
            if last or close or lowest <= enough:
                return lowest, bound, upper, lower, steps
            if sides is not None and sides.limits.size > 0:
                for k in range(sides.limits.size):
                    scratch.mu[k] = scratch.price[k]
                _price(sides, node, scratch, nf)
                up, difference, inside = _ends(sides, scratch, y, key, free, nf)
                if up < 0:
                    stuck = True
                    continue
        down, curvature = _partner(form.curved, sides, scratch, y, key, free, nf, up, inside)
        if down < 0:
            stuck = True
            continue
        t = 0.5 * (key[up] - key[down]) / curvature
        if grain > 0.0:
            t = np.floor(t / grain + 0.4) * grain  # a longer step than half of one would gain nothing
            if t <= 0.0:
                stuck = True
                continue
        if sides is None:
            _exchange(form.curved, y, g, up, down, t)
        else:
            _exchange_in_groups(form, sides, node, scratch, up, down, t)
        steps += 1


# -- the search -------------------------------------------------------------------------------------------------------


@part
def _linear(form, node):
    """Linear term of the free clients beside those chosen, and what these are worth."""
    n = form.linear.size
    copy(form.linear, node.slope)
    constant = 0.0
    for i in range(n):
        if node.state[i] == ONE:
            constant += node.slope[i] + form.exact[i, i]
            for j in range(n):
                node.slope[j] += 2.0 * form.exact[i, j]
    return constant


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
def _undecided(importance, node, nf):
    """The client to branch on: of most weight, and furthest from 0 and 1; -1 when all are fixed."""
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
def _push(stack, count, state, y, sides, scratch, bound, origin):
    n = state.size
    copy(state, stack.states[count])
    copy(y, stack.points[count, :n])
    if sides is not None:
        copy(scratch.mu, stack.points[count, n:])
    stack.bounds[count] = bound
    stack.origins[count] = origin
    return count + 1


@part
def _branch(stack, count, node, sides, scratch, order, pick, excluding, including, number):
    """Put the node's two children on the stack: excluding first, so that including is searched first."""
    copy(node.state, node.child)
    if _set(sides, node.child, pick, ZERO, order, node.todo):
        count = _push(stack, count, node.child, node.y, sides, scratch, excluding, 2 * number)
    if _set(sides, node.state, pick, ONE, order, node.todo):
        count = _push(stack, count, node.state, node.y, sides, scratch, including, 2 * number + 1)
    return count


@part
def _note(log, node, origin):
    """Add a bounded node to the search log, as far as it reaches; the node's number."""
    place = log.used[0]
    if place < log.origins.size:
        log.origins[place] = origin
        log.clients[place] = -1
        for i in range(node.y.size):
            share = node.y[i] if node.state[i] == FREE else 1.0 if node.state[i] == ONE else 0.0
            log.points[place, i] = int(share / log.grain)
        log.used[0] = place + 1
    return log.first + place


def explore(form, order, sides, stack, count, goal, best, node, scratch, log, outcomes):
    """Search nodes until none is left, the budget or the log is used up, or a better selection was found.

    Parameters
    ----------
    form : Form
        The objective.
    order : Order
        Dominance; beside constraints, among clients of which one may take the other's place.
    sides : Sides or None
        Constraints beside the size.
    stack : Stack
        The open nodes; changed in place. A point has n shares and the rows' multipliers.
    count : int
        How many there are.
    goal : Goal
        What to beat.
    best : (n,) int8 array
        Receives a better selection, after which the caller goes on: it may know a better tolerance then.
    node : Workspace
        Scratch arrays.
    scratch : SideScratch or None
        Those for constraints.
    log : Log
        Receives what was bounded, if it has room for anything; points are rounded to its grain then.
    outcomes : (6,) int64 array
        Nodes by `solvers.search.NodeOutcome`, which are counted here.

    Returns
    -------
    tuple
        Nodes processed, work done, nodes left on the stack, and the incumbent's value.
    """
    n, state = form.linear.size, node.state
    key = node.g if sides is None else scratch.key
    incumbent = goal.incumbent
    nodes, work = 0, 0
    keeping = log.origins.size > 0
    while count > 0 and work < goal.budget and not (keeping and log.used[0] == log.origins.size):
        count -= 1
        inherited, origin = stack.bounds[count], stack.origins[count]
        if inherited <= incumbent + goal.tolerance:
            continue
        nodes += 1
        copy(stack.states[count], state)
        copy(stack.points[count, :n], node.y)
        if sides is None:  # dominance has been followed where clients were fixed
            nf, left = _count_free(form.size, node)
        else:
            copy(stack.points[count, n:], scratch.mu)
            nf, left = _consequences(form.size, order, sides, node, scratch)
            work += 4 * n
        if left < 0 or left > nf:
            outcomes[DOMINATED if nf == -2 else INFEASIBLE] += 1
            continue
        constant = _linear(form, node)
        if left == 0 or left == nf:
            outcomes[SOLVED] += 1
            value = _value(form, node, nf, left, constant)
            if value > incumbent + 1e-12:
                incumbent = value
                for i in range(n):
                    best[i] = 1 if state[i] == ONE or (state[i] == FREE and left > 0) else 0
                break
            continue
        if sides is None:
            _enter_slice(node, nf, left)
        else:
            _enter_groups(sides, node, scratch, nf, left)
        if keeping:
            round_to_grain(node, nf, log.grain)
        gradient(form.curved, node, nf)
        lowest, bound, upper, lower, steps = bound_node(
            form, sides, node, scratch, nf, left, constant, goal, incumbent, log.grain
        )
        work += (steps + 4) * n
        number = _note(log, node, origin)
        if lowest <= incumbent + goal.tolerance:
            outcomes[FATHOMED_BY_BOUND] += 1
            continue
        slack = bound - incumbent - goal.tolerance
        if _reduce(sides, order, node, scratch, key, nf, slack, upper, lower) < 0:
            outcomes[DOMINATED] += 1
            continue
        pick = _undecided(form.importance, node, nf)
        outcomes[REDUCED if pick < 0 else BRANCHED] += 1
        if pick < 0:
            count = _push(stack, count, state, node.y, sides, scratch, min(inherited, lowest), origin)
            continue
        if keeping:
            log.clients[number - log.first] = pick
        is_in, loss = _loss(sides, scratch, key, pick, upper, lower)
        same, other = min(inherited, lowest), min(inherited, lowest, bound - max(loss, 0.0))
        excluding, including = (other, same) if is_in else (same, other)
        count = _branch(stack, count, node, sides, scratch, order, pick, excluding, including, number)
    return nodes, work, count, incumbent


def consistent(sides, order, size, node, scratch):
    """Whether the constraints alone leave a selection open, as far as counts and single rows show it."""
    return _propagate(size, sides, order, node, scratch)[0] >= 0


def evaluate(form, order, sides, point, goal, node, scratch, fixing):
    """Bound the node that ``node.state`` says, from a point: its state, point and multipliers are left in the arrays.

    With ``fixing`` 0 nothing is fixed. Returns the bound, or -inf where the constraints leave no selection, and how
    many clients are free.
    """
    n = form.linear.size
    copy(point[:n], node.y)
    if sides is None:
        nf, left = _count_free(form.size, node)
    else:
        copy(point[n:], scratch.mu)
        copy(point[n:], scratch.price)
        nf, left = _count(form.size, sides, node, scratch)
        if fixing:
            nf, left = _consequences(form.size, order, sides, node, scratch)
    if nf < 0:
        return -np.inf, 0
    constant = _linear(form, node)
    if left == 0 or left == nf:
        return _value(form, node, nf, left, constant) + form.margin, 0
    if sides is None:
        _enter_slice(node, nf, left)
    else:
        _enter_groups(sides, node, scratch, nf, left)
    gradient(form.curved, node, nf)
    found = bound_node(form, sides, node, scratch, nf, left, constant, goal, goal.incumbent, 0.0)
    return found[0], nf


def signatures(precision: str, has_rows: bool = False, single_node: bool = False) -> dict[Any, Any]:
    """Return the numba types of the arguments, under constraints; without, of a search or of a single node."""
    from numba import float64, int8, int16, int64, none, types

    matrix, reals, indices, best = float64[:, ::1], float64[::1], int64[::1], int8[::1]
    form = types.NamedTuple([matrix, matrix, reals, int64, float64, reals], Form)
    order = types.NamedUniTuple(indices, 4, Order)
    stack = types.NamedTuple([int8[:, ::1], matrix, reals, indices], Stack)
    goal = types.NamedTuple([float64, float64, float64, int64], Goal)
    node = types.NamedTuple([int8[::1]] * 2 + [reals] * 4 + [indices] * 2, Workspace)
    log = types.NamedTuple([indices, indices, int16[:, ::1], indices, int64, float64], Log)
    if not has_rows:
        if single_node:
            return {evaluate: (form, order, none, reals, goal, node, none, int64)}
        return {explore: (form, order, none, stack, int64, goal, best, node, none, log, indices)}
    sides = types.NamedTuple([indices] * 3 + [matrix] + [reals] * 3 + [int64[:, ::1]] + [indices] * 2, Sides)
    scratch = types.NamedTuple([indices] * 9 + [reals] * 9, SideScratch)
    return {
        explore: (form, order, sides, stack, int64, goal, best, node, scratch, log, indices),
        consistent: (sides, order, int64, node, scratch),
        evaluate: (form, order, sides, reals, goal, node, scratch, int64),
    }
