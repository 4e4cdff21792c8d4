"""A proof of a bound that is known, in few nodes, written down for `solvers.certificates` as it is found.

A search has to find its bound; a proof only has to reach it. So this is a search of its own, after whatever method:
depth first, since a certificate is read in that order, every node with multipliers made for it, since few large steps
make a small file. It computes with the checker's own whole numbers (a form as the checker will rebuild it, a point as
it will be rounded), so that what closes a node here closes it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.certificates.concave import FORM, POINT, Form, Rounded
from solvers.dispersion.bounds.dominance import dominance
from solvers.dispersion.bounds.semidefinite import relax
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.nodes import FREE, ONE, ZERO
from solvers.dispersion.search.plain_tree import bound_point, project
from solvers.dispersion.search.record import BITS, Record
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Multipliers", "Proof"]

#: Pairs held non-negative, per open client.
_PAIRS = 1

#: Rounds of separating them at the root, below it, and for a certificate of one leaf, and pairs per client then.
_ROUNDS_ROOT, _ROUNDS, _ROUNDS_LEAF, _PAIRS_LEAF = 2, 1, 5, 2

#: How well a node that does not close is solved: better than in a search, since fixing clients costs no multipliers.
_ACCURACY = 0.02

#: Fewest open clients that get multipliers of their own.
_LEAST = 8

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


class Proof:
    """A certificate in the making.

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

    def tree(self) -> bool:
        """Write a tree that proves the target; False where it was given up."""
        state = np.zeros(self.problem.n, dtype=np.int8)
        return self._visit(state, None, None)

    def leaf(self) -> float:
        """Write one leaf, the tangent of the root's multipliers, and return its bound."""
        state = np.zeros(self.problem.n, dtype=np.int8)
        form = self._multipliers(state, None, _ROUNDS_LEAF, _PAIRS_LEAF)
        bound, _, index = self._tangent(state, form, form.point)
        self.record.tangent(index)
        return bound * self.unit + float(self.data.error)

    # -- the tree ------------------------------------------------------------------------------------------------

    def _visit(self, state: NDArray[np.int8], form: Multipliers | None, y: NDArray[np.float64] | None) -> bool:
        """Prove what is open below ``state``; ``y`` has an entry for every client of the problem."""
        self.nodes += 1
        if self.expired() or self.written > self.most:
            return False
        free, left = np.flatnonzero(state == FREE), self.problem.size - int((state == ONE).sum())
        if left <= 0 or left >= free.size:
            self.record.decided()
            return True
        found = None
        if form is not None and y is not None:
            found = self._tangent(state, form, y)
        if found is None or (found[0] > self.goal and free.size >= _LEAST and 2 <= left <= free.size - 2):
            form = self._multipliers(state, form, _ROUNDS if form is not None else _ROUNDS_ROOT)
            y = form.point
            found = self._tangent(state, form, y)
        bound, gradient, point = found
        if bound <= self.goal:
            self.record.tangent(point)
            return True
        assert form is not None
        return self._split(state, form, bound, gradient, point)

    def _split(
        self,
        state: NDArray[np.int8],
        form: Multipliers,
        bound: float,
        gradient: NDArray[np.float64],
        point: int,
    ) -> bool:
        """Fix by reduced costs and dominance, a branch with a leaf each, and branch on whom that leaves."""
        after: list[Callable[[], None]] = []  # leaves of the other side of those fixed at one: they come last
        state = state.copy()
        y = np.zeros(self.problem.n)
        y[form.ids] = self.record.points[point][1] / POINT
        free = np.flatnonzero(state == FREE)
        left = self.problem.size - int((state == ONE).sum())
        order = np.sort(gradient[free])
        lower, upper = order[free.size - left], order[free.size - left - 1]
        loss = np.where(gradient >= lower, gradient - upper, lower - gradient)
        certain = free[bound - loss[free] <= self.goal]
        for client in certain[np.argsort(-loss[certain], kind="stable")].tolist():
            if self._left(state) is None:
                break
            if state[client] == FREE:
                value = ONE if gradient[client] >= lower else ZERO
                self._fix(state, client, value, lambda other: self._other(other, point), after)
                self._follow(state, after)
        if self._left(state) is None:
            self.record.decided()
        else:
            free = np.flatnonzero(state == FREE)
            means = form.matrix.mean(axis=0)
            weight = np.zeros(self.problem.n)
            weight[form.ids] = np.maximum(2 * means - means.mean() - form.matrix.diagonal(), 1e-12)
            client = int(free[(weight[free] * np.minimum(y[free], 1 - y[free])).argmax()])
            self.record.branch(client)
            for value in (ONE, ZERO):
                child, closing = state.copy(), list[Callable[[], None]]()
                child[client] = value
                self._follow(child, closing)
                if not self._visit(child, form, y):
                    return False
                for close in reversed(closing):
                    close()
        for close in reversed(after):
            close()
        return True

    def _left(self, state: NDArray[np.int8]) -> int | None:
        """How many are still to be chosen; None when that decides who."""
        left = self.problem.size - int((state == ONE).sum())
        return left if 0 < left < int((state == FREE).sum()) else None

    def _fix(
        self,
        state: NDArray[np.int8],
        client: int,
        value: int,
        close: Callable[[NDArray[np.int8]], None],
        after: list[Callable[[], None]],
    ) -> None:
        """Write a branch one side of which ``close`` closes, now or (``after``) when the other side is done."""
        self.record.branch(client)
        other = state.copy()
        other[client] = ZERO if value == ONE else ONE
        state[client] = value
        if value == ZERO:
            close(other)
        else:
            after.append(lambda: close(other))

    def _other(self, state: NDArray[np.int8], point: int) -> None:
        """Close a node by a tangent known to close it, or as decided where nobody is left to choose from."""
        left, free = self.problem.size - int((state == ONE).sum()), int((state == FREE).sum())
        if left < 0 or left > free:
            self.record.decided()
        else:
            self.record.tangent(point)
        self.written += 2

    def _follow(self, state: NDArray[np.int8], after: list[Callable[[], None]]) -> None:
        """Fix what dominance implies, until it implies nothing more or the node is decided."""
        while self._left(state) is not None:
            implied = (state == FREE) & self.above[:, state == ONE].any(axis=1)
            excluded = (state == FREE) & self.above[state == ZERO].any(axis=0)
            if implied.any():
                i = int(np.flatnonzero(implied)[0])
                j = int(np.flatnonzero(self.above[i] & (state == ONE))[0])
                self._fix(state, i, ONE, lambda _, i=i, j=j: self.record.dominated(i, j), after)  # type: ignore[misc]
            elif excluded.any():
                j = int(np.flatnonzero(excluded)[0])
                i = int(np.flatnonzero(self.above[:, j] & (state == ZERO))[0])
                self._fix(state, j, ZERO, lambda _, i=i, j=j: self.record.dominated(i, j), after)  # type: ignore[misc]
            else:
                return

    # -- bounds --------------------------------------------------------------------------------------------------

    def _tangent(
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

    def _multipliers(
        self, state: NDArray[np.int8], parent: Multipliers | None, rounds: int = _ROUNDS, most: int = _PAIRS
    ) -> Multipliers:
        """Multipliers made for what is open here."""
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
        for _ in range(rounds):
            found = relax(
                q,
                linear,
                m,
                dominated=equal,
                nonnegative=pairs,
                tolerance=self.accuracy * scale / self.unit,
                incumbent=self.goal * scale - constant,
                expired=self.expired,
            )
            used, values = pairs, found.nonnegative
            pairs = _violated(found.products, found.nonnegative, pairs, most * n)
            if found.bound + constant <= self.goal * scale or self.expired():
                break
        back = self.unit / scale
        held, free = (used, values * back), (equal, found.dominated * back)
        x = np.zeros(self.problem.n)
        x[ids] = found.x
        return self._keep(ones, ids, found.diagonal * back, held, free, pairs, x)

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

    def certificate(self, bound: float) -> Certificate:
        """What was written, claiming ``bound``."""
        return self.record.certificate(bound)


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
