"""The tree without compilation: node by node the same bounds as `solvers.dispersion.compiled.tree`, in NumPy.

A node costs about a millisecond, some hundred times what it costs compiled. That is enough for the few dozen nodes of
most rounds, and for a proof while the compiler is still at work. Which node is visited when, and what is on the stack
afterwards, is as there, so that either can go on from what the other has left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.search.nodes import FREE, ONE, ZERO, Form, Goal, Log, Node, Order, Stack

__all__ = ["bound_point", "explore", "project"]

#: Steps on a node: fewer than compiled, since a weaker bound costs one more node, not a time limit.
_STEPS = 300


def explore(
    form: Form, order: Order, stack: Stack, count: int, goal: Goal, best: NDArray[np.int8], node: Node, log: Log
) -> tuple[int, int, int, float]:
    """Look at nodes until none is left, the budget is used up, or a better selection was found; as compiled.

    Nothing is written down.
    """
    states, points, bounds = stack[:3]
    incumbent = goal.incumbent
    nodes = work = 0
    while count > 0 and work < goal.budget:
        count -= 1
        inherited = bounds[count]
        enough = incumbent + goal.tolerance
        if inherited <= enough:
            continue
        nodes += 1
        state = states[count].copy()
        free, chosen = np.flatnonzero(state == FREE), np.flatnonzero(state == ONE)
        left = form.size - chosen.size
        if left < 0 or left > free.size:
            continue
        constant = float(form.linear[chosen].sum() + form.exact[np.ix_(chosen, chosen)].sum())
        slope = form.linear[free] + 2.0 * form.exact[chosen][:, free].sum(axis=0)
        if left in (0, free.size):
            members = free if left else free[:0]
            value = constant + float(slope[:left].sum() + form.exact[np.ix_(members, members)].sum())
            if value > incumbent + 1e-12:
                incumbent = value
                best[:] = state == ONE
                best[members] = 1
                break  # the caller may know a better tolerance for the new incumbent
            continue
        y = project(points[count][free], left)
        known = (constant + form.margin, enough, incumbent, goal.accuracy)
        bound, g, lower, upper, steps = bound_point(form.curved[np.ix_(free, free)], slope, y, left, known)
        work += (steps + 4) * len(state)
        if bound <= enough or not _reduce(state, free, g, lower, upper, bound - enough, order):
            continue
        open_ = state[free] == FREE
        point = np.zeros(len(state))
        point[free] = y
        if not open_.any():
            states[count], points[count], bounds[count] = state, point, min(inherited, bound)
            count += 1
            continue
        place = int(np.where(open_, form.importance[free] * np.minimum(y, 1.0 - y), -1.0).argmax())
        slack = float(g[place] - (upper if g[place] >= lower else lower))
        # Excluding first on the stack, so that including is looked at first.
        for value, loss in ((ZERO, slack), (ONE, -slack)):
            child = state.copy()
            if _fix(child, int(free[place]), value, order):
                states[count], points[count], bounds[count] = child, point, min(inherited, bound - max(0.0, loss))
                count += 1
    return nodes, work, count, incumbent


def project(y: NDArray[np.float64], left: int) -> NDArray[np.float64]:
    """Move the parent's point onto the slice ``1ᵀy = left``."""
    total = float(y.sum())
    return y * (left / total) if total > left else y + (1.0 - y) * ((left - total) / (y.size - total))


def bound_point(
    curved: NDArray[np.float64],
    slope: NDArray[np.float64],
    y: NDArray[np.float64],
    left: int,
    known: tuple[float, float, float, float],
) -> tuple[float, NDArray[np.float64], float, float, int]:
    """First-order steps (``y`` changes) until the node can be dropped, or is solved well enough.

    ``known`` is what to add to the tangent, the value to beat with and without the tolerance, and the accuracy.
    Returns the bound, the gradient, the smallest of its ``left`` largest entries, the largest of the others, the steps.
    """
    constant, enough, incumbent, accuracy = known
    diagonal = curved.diagonal()
    rest = y.size - left
    steps, check, stuck = 0, 0, False
    g = slope + 2.0 * (curved @ y)
    while True:
        rising = np.where(y < 1.0, g, -np.inf)
        up = int(rising.argmax())
        most = rising[up]
        last = stuck or steps >= _STEPS or not most - np.where(y > 0.0, g, np.inf).min() > 1e-12
        if last or steps >= check:
            check = steps + 4 + steps // 4
            parted = np.partition(g, (rest - 1, rest))
            tops = float(parted[rest:].sum())
            bound = constant + 0.5 * float((slope - g) @ y) + tops
            value = bound - tops + float(g @ y)
            close = value > enough and bound - value <= accuracy * (value - incumbent)
            if last or close or bound <= enough:
                return bound, g, float(parted[rest]), float(parted[rest - 1]), steps
        curvature = np.maximum(2.0 * curved[up] - curved[up, up] - diagonal, 1e-15)
        gain = np.where((y > 0.0) & (g < most), (most - g) ** 2 / curvature, 0.0)
        down = int(gain.argmax())
        if gain[down] <= 0.0:
            stuck = True
            continue
        room = 1.0 - y[up]
        t = min(0.5 * (most - g[down]) / curvature[down], room, y[down])
        y[down] = 0.0 if t == y[down] else y[down] - t
        y[up] = 1.0 if t == room else y[up] + t
        g += (2.0 * t) * (curved[up] - curved[down])
        steps += 1


def _reduce(
    state: NDArray[np.int8],
    free: NDArray[np.intp],
    g: NDArray[np.float64],
    lower: float,
    upper: float,
    room: float,
    order: Order,
) -> bool:
    """Fix by reduced costs whom no selection better than the incumbent can do without, or with; False if none is."""
    inside = g >= lower
    for chosen, value in ((inside & (g - upper >= room), ONE), (~inside & (lower - g >= room), ZERO)):
        for client in free[chosen].tolist():
            if not _fix(state, client, value, order):
                return False
    return True


def _fix(state: NDArray[np.int8], client: int, value: int, order: Order) -> bool:
    """Fix a client and all it implies by dominance; False when that contradicts what is fixed already."""
    if state[client] != FREE:
        return bool(state[client] == value)
    start, others = (order.below_start, order.below) if value == ZERO else (order.above_start, order.above)
    state[client] = value
    todo = [client]
    while todo:
        i = todo.pop()
        for j in others[start[i] : start[i + 1]].tolist():
            if state[j] == FREE:
                state[j] = value
                todo.append(j)
            elif state[j] != value:
                return False
    return True
