"""Branch and bound over the slice, compiled: first-order bounds, reduced costs, depth first.

The kernel maximises ``constant + linearᵀs + sᵀQs`` over 0/1 vectors with ``1ᵀs = m``. It is handed two matrices:
``exact``, which together with ``linear`` gives the objective of every admissible 0/1 vector, and ``curved ≥ exact``,
which is concave on the slice and so gives bounds. (They differ only where X ≥ 0 cuts take part in the bound.)
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, njit, types

__all__ = ["climb", "explore"]

FREE, ONE, ZERO = 0, 1, 2


@njit("float64(float64[::1], int64, int64)", cache=True, nogil=True)
def _select(values, length, rank):  # type: ignore[no-untyped-def]
    """Reorder ``values[:length]`` so that the ``rank`` largest come first; return the smallest of those."""
    left, right, target = 0, length - 1, rank - 1
    while left < right:
        middle = (left + right) // 2
        # Median of three, left in the middle.
        if values[middle] > values[left]:
            values[middle], values[left] = values[left], values[middle]
        if values[right] > values[left]:
            values[right], values[left] = values[left], values[right]
        if values[right] > values[middle]:
            values[right], values[middle] = values[middle], values[right]
        pivot = values[middle]
        i, j = left, right
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            right = j
        elif target >= i:
            left = i
        else:
            break
    return values[target]


@njit(
    "boolean(int8[::1], int64, int8, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    cache=True,
    nogil=True,
)
def _fix(state, client, value, above_start, above, below_start, below, todo):  # type: ignore[no-untyped-def]
    """Fix a client and all it implies by dominance; False when that contradicts what is fixed already."""
    if state[client] != FREE:
        return state[client] == value
    state[client] = value
    todo[0] = client
    count = 1
    while count > 0:
        count -= 1
        i = todo[count]
        start, stop, others = above_start[i], above_start[i + 1], above
        if value == ZERO:
            start, stop, others = below_start[i], below_start[i + 1], below
        for k in range(start, stop):
            j = others[k]
            if state[j] == FREE:
                state[j] = value
                todo[count] = j
                count += 1
            elif state[j] != value:
                return False
    return True


@njit(
    "Tuple((int64, int64, int64, float64))(float64[:, ::1], float64[:, ::1], float64[::1], int64, float64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int8[:, ::1], float64[:, ::1], float64[::1], int64,"
    " float64, float64, float64, int8[::1], int64, float64)",
    cache=True,
    nogil=True,
)
def explore(  # type: ignore[no-untyped-def]
    curved,
    exact,
    linear,
    size,
    importance,
    above_start,
    above,
    below_start,
    below,
    states,
    points,
    bounds,
    count,
    incumbent,
    tolerance,
    margin,
    best,
    budget,
    accuracy,
):
    """Look at nodes until none is left, ``budget`` is used up, or a better selection was found.

    Parameters
    ----------
    curved, exact, linear, size
        The slice form.
    importance : (n,) array
        Weight of each client in the choice of whom to branch on.
    above_start, above, below_start, below
        Dominance as adjacency lists.
    states, points, bounds, count
        A stack of nodes with room for n + 5: who is fixed, a point near the slice, an upper bound.
    incumbent, tolerance, margin
        Nodes whose bound plus ``margin`` is at most ``incumbent + tolerance`` are dropped.
    best : (n,) int8 array
        Receives a better selection.
    budget : int
        Updates of gradient entries allowed.
    accuracy : float
        A node that cannot be dropped is solved until the bound is within this part of its distance to the incumbent.

    Returns
    -------
    tuple
        Nodes looked at, work done, nodes left on the stack, and the incumbent's value.
    """
    n = linear.shape[0]
    free = np.empty(n, np.int64)
    slope = np.empty(n)
    g = np.empty(n)
    y = np.empty(n)
    scratch = np.empty(n)
    todo = np.empty(n + 1, np.int64)
    state = np.empty(n, np.int8)
    child = np.empty(n, np.int8)
    nodes = 0
    work = 0
    while count > 0 and work < budget:
        count -= 1
        if bounds[count] <= incumbent + tolerance:
            continue
        nodes += 1
        state[:] = states[count]
        y[:] = points[count]
        inherited = bounds[count]

        # The sub-problem: linear term of the free clients, and what the chosen ones are worth.
        slope[:] = linear
        constant = 0.0
        chosen = 0
        for i in range(n):
            if state[i] == ONE:
                chosen += 1
                constant += slope[i] + exact[i, i]
                for j in range(n):
                    slope[j] += 2.0 * exact[i, j]
        nf = 0
        total = 0.0
        for i in range(n):
            if state[i] == FREE:
                free[nf] = i
                nf += 1
                total += y[i]
        left = size - chosen
        if left < 0 or left > nf:
            continue
        if left == 0 or left == nf:
            value = constant
            if left == nf:
                for a in range(nf):
                    i = free[a]
                    value += slope[i]
                    for b in range(nf):
                        value += exact[i, free[b]]
            if value > incumbent + 1e-12:
                incumbent = value
                for i in range(n):
                    best[i] = 1 if state[i] == ONE or (state[i] == FREE and left > 0) else 0
                break  # the caller may know a better tolerance for the new incumbent
            continue

        # Move the parent's point onto this slice.
        if total > left:
            for a in range(nf):
                y[free[a]] *= left / total
        elif total < left:
            room = nf - total
            for a in range(nf):
                i = free[a]
                y[i] += (1.0 - y[i]) * (left - total) / room
        # -- first-order steps
        for a in range(nf):
            g[free[a]] = slope[free[a]]
        for b in range(nf):
            j = free[b]
            if y[j] > 0.0:
                w = 2.0 * y[j]
                for i in range(n):
                    g[i] += w * curved[j, i]
        limit = 20 * nf + 100
        it = 0
        check = 4
        pruned = False
        upper = inherited
        lower_theta = 0.0
        upper_theta = 0.0
        while True:
            up = -1
            gup = -np.inf
            gdown = np.inf
            for a in range(nf):
                i = free[a]
                if y[i] < 1.0 and g[i] > gup:
                    gup = g[i]
                    up = i
                if y[i] > 0.0 and g[i] < gdown:
                    gdown = g[i]
            done = up < 0 or gup - gdown <= 1e-12 or it >= limit
            if done or it >= check:
                check = it + 4 + it // 4
                inner = 0.0
                for a in range(nf):
                    i = free[a]
                    inner += (slope[i] - g[i]) * y[i]
                    scratch[a] = g[i]
                _select(scratch, nf, left)
                tops = 0.0
                lower_theta = scratch[0]
                for a in range(left):
                    tops += scratch[a]
                    if scratch[a] < lower_theta:
                        lower_theta = scratch[a]
                upper_theta = -np.inf
                for a in range(left, nf):
                    if scratch[a] > upper_theta:
                        upper_theta = scratch[a]
                upper = constant + 0.5 * inner + tops + margin
                if upper <= incumbent + tolerance:
                    pruned = True
                    break
                gy = 0.0
                for a in range(nf):
                    gy += g[free[a]] * y[free[a]]
                f = upper - tops + gy
                if done or (f > incumbent + tolerance and upper - f <= accuracy * (f - incumbent)):
                    break
            # The partner that gains most (second order).
            most = 0.0
            down = -1
            kap = 0.0
            for a in range(nf):
                j = free[a]
                if y[j] > 0.0 and g[j] < gup:
                    diff = gup - g[j]
                    k = 2.0 * curved[up, j] - curved[up, up] - curved[j, j]
                    if k < 1e-15:
                        k = 1e-15
                    gain = diff * diff / k
                    if gain > most:
                        most = gain
                        down = j
                        kap = k
            if down < 0:
                limit = 0
                continue
            t = 0.5 * (gup - g[down]) / kap
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
            for i in range(n):
                g[i] += 2.0 * t * (curved[up, i] - curved[down, i])
            it += 1
        work += (it + 4) * n
        if pruned:
            continue
        # -- reduced costs
        room = upper - incumbent - tolerance
        consistent = True
        for a in range(nf):
            i = free[a]
            if state[i] == FREE:
                if g[i] >= lower_theta:
                    if g[i] - upper_theta >= room:
                        consistent = consistent and _fix(state, i, ONE, above_start, above, below_start, below, todo)
                elif lower_theta - g[i] >= room:
                    consistent = consistent and _fix(state, i, ZERO, above_start, above, below_start, below, todo)
        if not consistent:
            continue
        # -- branch
        pick = -1
        most = -1.0
        for a in range(nf):
            i = free[a]
            if state[i] == FREE:
                score = importance[i] * min(y[i], 1.0 - y[i])
                if score > most:
                    most = score
                    pick = i
        if pick < 0:
            states[count] = state
            bounds[count] = min(inherited, upper)
            count += 1
            continue
        slack = g[pick] - upper_theta if g[pick] >= lower_theta else g[pick] - lower_theta
        # Excluding first on the stack, so that including is looked at first.
        child[:] = state
        if _fix(child, pick, ZERO, above_start, above, below_start, below, todo):
            states[count] = child
            points[count] = y
            bounds[count] = min(inherited, upper - max(0.0, slack))
            count += 1
        if _fix(state, pick, ONE, above_start, above, below_start, below, todo):
            states[count] = state
            points[count] = y
            bounds[count] = min(inherited, upper - max(0.0, -slack))
            count += 1
    return nodes, work, count, incumbent


@njit(
    [
        float64(
            *(types.Array(real, 2, "C", readonly=True), float64, float64, int64),
            *(float64[::1], float64[::1], int64, float64),
        )
        for real in (float32, float64)
    ],
    cache=True,
    nogil=True,
)
def climb(h, q, shift, m, y, g, steps, least):  # type: ignore[no-untyped-def]
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
                gain = (gup - g[j]) ** 2 / k
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
