"""Bounds for a proof that is written down: multipliers and points as the reader of certificates will see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.concave import FORM, Form, Rounded
from solvers.certificates.schema import POINT
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.dominance import dominance
from solvers.dispersion.relaxations.semidefinite import Multipliers as SdpMultipliers
from solvers.dispersion.relaxations.semidefinite import relax
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.dispersion.search.nodes import FREE, ONE
from solvers.dispersion.search.record import BITS, Record
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Bounds", "Multipliers"]

#: Pairs held non-negative, per open client.
_PAIRS = 1

#: How well a node that does not close is solved: better than in a search, since fixing clients costs no multipliers.
_ACCURACY = 0.02

#: What rounding a form for the checker may cost, of the goal.
_SPARE = 1e-9

_NO_PAIRS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Multipliers:
    """A form over ``ids`` as the checker sees it: where it holds, its number in the record, pairs worth holding."""

    index: int
    ids: NDArray[np.int64]
    ones: NDArray[np.int64]
    constant: float
    matrix: NDArray[np.float64]
    linear: NDArray[np.float64]
    pairs: NDArray[np.int64]
    point: NDArray[np.float64]


class Bounds:
    """Forms and tangents of one problem, kept in a record.

    Parameters
    ----------
    problem : DispersionProblem
        The problem; 2 ≤ m ≤ n − 2.
    target : float
        The bound to reach, in units of the objective; larger than the optimum by more than rounding.
    expired : callable
        Whether to give up.
    most : int
        Most numbers written, some bytes each.
    """

    def __init__(
        self, problem: DispersionProblem, target: float, expired: Callable[[], bool], most: int = 1_000_000
    ) -> None:
        self.problem, self.expired, self.most = problem, expired, most
        n, m = problem.n, problem.size
        pair = np.ascontiguousarray(problem.weight * problem.distances.astype(np.float64))
        order = np.lexsort((np.arange(n), -(2 * (m - 1) / max(n - 2, 1) * pair.sum(axis=1) - problem.costs)))
        self.record = Record(problem, order)
        self.data = Rounded.of(problem, self.record.grid)
        self.unit = float(self.data.unit)
        self.goal = (target - float(self.data.error) - 4 * problem.rounding) / self.unit
        self.accuracy = 0.1 * OPTIMALITY_GAP * min(max(1.0, abs(target)), problem.scale)
        self.dominated = _certain(problem, dominance(pair, -problem.costs, m).pairs)
        self.above = np.zeros((n, n), dtype=bool)  # above[i, j]: i is chosen whenever j is
        self.above[self.dominated[:, 0], self.dominated[:, 1]] = True
        self.written = self.nodes = 0

    def tangent(
        self, state: NDArray[np.int8], form: Multipliers, y: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], int]:
        """The bound of a form at a node, the gradient for every client, and the number of the point kept for it."""
        free, chosen = np.flatnonzero(state[form.ids] == FREE), np.flatnonzero(state[form.ids] == ONE)
        left = self.problem.size - form.ones.size - chosen.size
        slope = form.linear[free] + 2 * form.matrix[chosen][:, free].sum(axis=0)
        constant = form.constant + float(form.linear[chosen].sum() + form.matrix[np.ix_(chosen, chosen)].sum())
        inner = project(y[form.ids[free]], left)
        known = (constant, self.goal, self.goal, _ACCURACY)
        bound_point(form.matrix[np.ix_(free, free)], slope, inner, left, known)
        full = np.zeros(form.ids.size)
        full[chosen], full[free] = 1.0, inner
        index = self.record.point(form.index, full)
        full = self.record.points[index][1] / POINT
        towards = form.matrix @ full
        gradient = np.zeros(self.problem.n)
        gradient[form.ids] = form.linear + 2 * towards
        inside = gradient[form.ids]
        top = np.partition(inside[free], free.size - left)[free.size - left :].sum()
        bound = form.constant + float(inside[chosen].sum() + top - full @ towards)
        self.written += full.size
        return bound + 1e-13 * (abs(bound) + form.ids.size * float(np.abs(inside).max())), gradient, index

    def multipliers(
        self,
        state: NDArray[np.int8],
        parent: Multipliers | None,
        rounds: int = 1,
        most: int = _PAIRS,
        *,
        closing: bool = True,
    ) -> Multipliers:
        """Multipliers made for what is open here; ``closing``: good enough as soon as they close it."""
        ids, ones = np.flatnonzero(state == FREE), np.flatnonzero(state == ONE)
        n, m = ids.size, self.problem.size - ones.size
        scale = 2.0**-BITS
        pair = self.data.pair.astype(np.float64) * scale
        q = np.ascontiguousarray(pair[np.ix_(ids, ids)])
        linear = -self.data.cost[ids] * scale + 2 * pair[np.ix_(ids, ones)].sum(axis=1)
        constant = float(self.data.value(ones.tolist())) * scale
        linear, constant = linear - np.median(linear), constant + m * float(np.median(linear))
        place = np.full(self.problem.n, -1)
        place[ids] = np.arange(n)
        equal = place[self.dominated]
        equal = equal[(equal >= 0).all(axis=1)][: 3 * n]
        pairs = _NO_PAIRS if parent is None else place[parent.ids[parent.pairs]]
        pairs = pairs[(pairs >= 0).all(axis=1)][: most * n]
        best: tuple[SdpMultipliers, NDArray[np.int64]] | None = None
        for _ in range(rounds):
            found = relax(
                q,
                linear,
                m,
                dominated=equal,
                nonnegative=pairs,
                tolerance=self.accuracy * scale / self.unit,
                incumbent=self.goal * scale - constant,
                stop_below=(self.goal - _SPARE * abs(self.goal)) * scale - constant if closing else -np.inf,
                expired=self.expired,
            )
            if best is None or found.bound < best[0].bound:  # one that was cut short may be worse
                best = found, pairs
            pairs = _violated(found.products, found.nonnegative, pairs, most * n)
            if found.bound + constant <= self.goal * scale or self.expired():
                break
        assert best is not None
        found, used = best
        back = self.unit / scale
        held, free = (used, found.nonnegative * back), (equal, found.dominated * back)
        x = np.zeros(self.problem.n)
        x[ids] = found.x
        return self._keep(ones, ids, found.diagonal * back, held, free, pairs, x)

    def shifted(self) -> Multipliers:
        """One multiplier for all clients, the largest eigenvalue on the slice: what any number of clients allows."""
        everyone, n = np.arange(self.problem.n), self.problem.n
        q = self.data.pair.astype(np.float64) * self.unit
        enough = 1e-5 * self.problem.size * float(q.max())
        diagonal = np.full(n, top_eigenvalue(q, enough) + enough)
        none, middle = (_NO_PAIRS, np.zeros(0)), np.full(n, self.problem.size / n)
        return self._keep(everyone[:0], everyone, diagonal, none, none, _NO_PAIRS, middle)

    def _keep(
        self,
        ones: NDArray[np.int64],
        ids: NDArray[np.int64],
        diagonal: NDArray[np.float64],
        held: tuple[NDArray[np.int64], NDArray[np.float64]],
        dominated: tuple[NDArray[np.int64], NDArray[np.float64]],
        pairs: NDArray[np.int64],
        x: NDArray[np.float64],
    ) -> Multipliers:
        index = self.record.form(ones, ids, diagonal, held, dominated)
        parts = self.record.forms[index]
        self.written += sum(part.size for part in parts)
        form = Form(self.data, dict(zip(FORM, parts, strict=True)))
        matrix, linear = form.matrix.astype(np.float64), form.linear.astype(np.float64)
        return Multipliers(index, ids, ones, float(form.constant), matrix, linear, pairs, x)


def _certain(problem: DispersionProblem, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pairs (i, j) of which exact arithmetic will say the same: clearly better, or alike but for the costs."""
    h, c, m = problem.distances, problem.costs, problem.size
    kept = np.zeros(len(pairs), dtype=bool)
    for row, (i, j) in enumerate(pairs.tolist()):
        others = np.ones(problem.n, dtype=bool)
        others[[i, j]] = False
        gain = h[i, others].astype(np.float64) - h[j, others]
        if not gain.any():
            kept[row] = c[i] <= c[j]
            continue
        least = 2 * problem.weight * np.sort(gain)[: m - 1].sum() - (c[i] - c[j])
        kept[row] = least > 1e-12 * problem.scale
    return pairs[kept]


def _violated(
    products: NDArray[np.float64], values: NDArray[np.float64], pairs: NDArray[np.int64], most: int
) -> NDArray[np.int64]:
    """Those of ``pairs`` at work, then those whose products are most negative."""
    kept = pairs[values > 1e-4 * values.max(initial=0.0)]
    upper = np.column_stack(np.triu_indices(len(products), 1))
    flat = products[upper[:, 0], upper[:, 1]].copy()
    known = np.zeros(products.shape, dtype=bool)
    known[kept[:, 0], kept[:, 1]] = known[kept[:, 1], kept[:, 0]] = True
    flat[known[upper[:, 0], upper[:, 1]]] = 0.0
    worst = np.argsort(flat, kind="stable")[: max(most - len(kept), 0)]
    return np.concatenate([kept, upper[worst[flat[worst] < -1e-6]]])


#: Steps on a node, at most: a weaker bound costs one more node.
_STEPS = 300


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
