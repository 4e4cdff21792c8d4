"""A proof of a bound that is known, in few nodes, written down for `solvers.certificates` as it is found.

A search has to find its bound; a proof only has to reach it. So this is a search of its own, after whatever method:
depth first, since a certificate is read in that order, every node with multipliers made for it, since few large steps
make a small file. It computes with the checker's own whole numbers (a form as the checker will rebuild it, a point as
it will be rounded), so that what closes a node here closes it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.certificates.schema import POINT
from solvers.dispersion.search.nodes import FREE, ONE, ZERO
from solvers.dispersion.search.proof_bounds import Bounds, Multipliers

__all__ = ["Proof"]

#: Rounds of separating products at the root, below it, and for a certificate of one leaf, and pairs per client then.
_ROUNDS_ROOT, _ROUNDS, _ROUNDS_LEAF, _PAIRS_LEAF = 2, 1, 5, 2

#: With more clients one multiplier for all of them serves for a certificate of one leaf.
_LARGE = 600

#: Seconds that a semidefinite relaxation takes a client cubed, generously.
_RELAXING = 6e-8

#: Share of a form's clients that are still open when it is made anew.
_SHRUNK = 0.5

#: Fewest open clients that get multipliers of their own.
_LEAST = 8


class Proof(Bounds):
    """A certificate in the making; the parameters are those of `Bounds`."""

    def tree(self) -> bool:
        """Write a tree that proves the target; False where it was given up."""
        state = np.zeros(self.problem.n, dtype=np.int8)
        return self._visit(state, None, None)

    def leaf(self, seconds: float = math.inf) -> float:
        """Write one leaf, the best tangent that so many seconds allow, and return its bound.

        One multiplier for all is found at once; those of the semidefinite relaxation, cut short, would be worse.
        """
        state = np.zeros(self.problem.n, dtype=np.int8)
        form = self.shifted()
        bound, _, index = self.tangent(state, form, form.point)
        if self.problem.n <= _LARGE and seconds > _RELAXING * self.problem.n**3:
            form = self.multipliers(state, None, _ROUNDS_LEAF, _PAIRS_LEAF, closing=False)
            other, _, place = self.tangent(state, form, form.point)
            bound, index = min((bound, index), (other, place))
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
            found = self.tangent(state, form, y)
        if found is None or (found[0] > self.goal and self._worth(form, free.size, left)):
            form = self.multipliers(state, form, _ROUNDS if form is not None else _ROUNDS_ROOT)
            y = form.point
            found = self.tangent(state, form, y)
        bound, gradient, point = found
        if bound <= self.goal:
            self.record.tangent(point)
            return True
        assert form is not None
        return self._split(state, form, bound, gradient, point)

    def _worth(self, form: Multipliers | None, free: int, left: int) -> bool:
        """Whether what is open here is so much less than where its form was made that it gets one of its own."""
        assert form is not None
        return free >= _LEAST and 2 <= left <= free - 2 and free <= _SHRUNK * form.ids.size

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

    def certificate(self, bound: float) -> Certificate:
        """What was written, claiming ``bound``."""
        return self.record.certificate(bound)
