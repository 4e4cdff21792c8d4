r"""Checker of a search that was written down as it went, in integers.

Where `solvers.certificates.dispersion` is told why every leaf is closed, a search says less: of each node the point at
which it took the tangent, and on whom it branched. What follows from that is worked out here anew, in whole numbers:
the bound of a node, who is fixed by reduced costs (the other side of whom the tangent closes) and by dominance (pairs
listed with the multipliers, each of them tested in exact arithmetic), which selections are left. A side that the search
does not mention must be closed by a tangent above it. Every tangent closes what is worth at most the goal, so that no
selection is worth more than the goal or the best of those that were evaluated.

At a node clients O are chosen whose share at its point is 1. There the multipliers of products with them, which only
raise the objective, are left out: the rest is concave still, since O no longer changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.concave import FORM, Form, Integers, Rounded, largest_of, part_of
from solvers.certificates.exchanges import Exchanges
from solvers.errors import CertificateError

__all__ = ["check_search"]

#: What is known about a client.
FREE, ONE, ZERO = 0, 1, 2

#: The origin of what has no node of its own.
_SPENT = -2

#: Pairs of clients that are kept of all forms together, some twenty bytes each.
_MEMORY = 1 << 27

States = NDArray[np.int8]


@dataclass(frozen=True)
class _Tangent:
    """``base`` and the gradient's entries of those chosen bound what a selection is worth, times the grain squared."""

    base: int
    gradient: Integers
    grain: int

    def order(self, state: States, size: int) -> tuple[int, int, int]:
        """The bound of a node, and the gradient's entries between which the best selection ends."""
        chosen, free = self.gradient[state == ONE], np.sort(self.gradient[state == FREE])
        first = free.size - (size - chosen.size)
        bound = self.base + self.grain * (_total(chosen) + _total(free[first:]))
        return bound, int(free[first]), int(free[first - 1])


class _Search:
    """The walk over what was written down."""

    def __init__(self, problem: Any, data: Rounded, arrays: Mapping[str, Integers]) -> None:
        self.data, self.arrays = data, arrays
        self.exchanges = Exchanges(problem, arrays["order"], ties=True)
        self.forms: dict[int, tuple[Form, Integers, NDArray[np.bool_]]] = {}
        (self.goal,), (self.grain,) = arrays["goal"].tolist(), arrays["grain"].tolist()
        origins, sizes = arrays["origin"].tolist(), np.diff(arrays["form_ids_start"])
        self.node = {origin: node for node, origin in enumerate(origins)}
        if len(self.node) != len(origins) or any(origin >= 2 * node for node, origin in enumerate(origins)):
            raise CertificateError("two nodes lie on the same side of one, or one lies above itself")
        self.points: dict[int, Integers] = {}  # of each node; they are kept form by form, and there client by client
        by_form, end = np.argsort(arrays["form"], kind="stable"), 0
        for nodes in np.split(by_form, np.flatnonzero(np.diff(arrays["form"][by_form])) + 1) if origins else ():
            size = int(sizes[arrays["form"][nodes[0]]])
            start, end = end, end + size * nodes.size
            if end > arrays["point"].size:
                break
            block = arrays["point"][start:end].reshape(size, nodes.size)
            self.points |= zip(nodes.tolist(), np.ascontiguousarray(block.T), strict=True)
        if end != arrays["point"].size or len(self.points) != len(origins):
            raise CertificateError("there is not one share for each open client of each node's form")

    def walk(self) -> Fraction:
        """What no selection is worth more than, in units of the problem."""
        best: float = self.goal
        stack: list[tuple[int, States, tuple[_Tangent, ...]]] = [(-1, np.zeros(self.data.cost.size, np.int8), ())]
        while stack:
            origin, state, above = stack.pop()
            value = self._decided(state)
            if value is not None:
                best = max(best, value)
            elif origin in self.node:
                try:
                    stack += self._below(self.node[origin], state, above)
                except CertificateError as error:
                    raise CertificateError(f"node {self.node[origin]}: {error}") from None
            elif not any(self._closes(tangent, state) for tangent in reversed(above)):
                side = f"the side {'with' if origin % 2 else 'without'} whom node {origin // 2} branches on"
                raise CertificateError(f"{side if origin >= 0 else 'the root'} is missing, and no tangent closes it")
        return int(best) * self.data.unit + self.data.error

    def _below(
        self, node: int, state: States, above: tuple[_Tangent, ...]
    ) -> list[tuple[int, States, tuple[_Tangent, ...]]]:
        """What a node leaves to its sides."""
        form, raised, better = self._form(int(self.arrays["form"][node]))
        tangent = self._tangent(node, form, raised, state)
        bound, lower, upper = tangent.order(state, self.data.size)
        if bound <= self.goal * self.grain**2:
            return []
        missing = -(-(bound - self.goal * self.grain**2) // self.grain)  # a loss that closes the other side
        gradient, free = tangent.gradient, state == FREE
        if missing < 1 << 62:
            top = gradient >= lower
            fixed = free & (np.where(top, gradient - upper, lower - gradient) >= missing)
            state = np.where(fixed, np.where(top, ONE, ZERO), state).astype(np.int8)
        if not _imply(state, better):
            return []
        if self._decided(state) is not None:
            return [(_SPENT, state, ())]
        client = int(self.arrays["client"][node])
        if client < 0:
            raise CertificateError("it is said to be closed, but its tangent lies above the goal")
        sides = []
        for value in (ZERO, ONE):
            child = state.copy()
            if child[client] in (FREE, value):
                child[client] = value
                if _imply(child, better):
                    sides.append((2 * node + (value == ONE), child, (*above, tangent)))
        return sides

    def _decided(self, state: States) -> float | None:
        """What the only selection left is worth, less than anything if there is none; None if there are several."""
        ones, free = np.flatnonzero(state == ONE), np.flatnonzero(state == FREE)
        missing = self.data.size - ones.size
        if 0 < missing < free.size:
            return None
        if missing < 0 or missing > free.size:
            return -math.inf
        return self.data.value([*ones.tolist(), *(free.tolist() if missing else [])])

    def _closes(self, tangent: _Tangent, state: States) -> bool:
        return tangent.order(state, self.data.size)[0] <= self.goal * self.grain**2

    def _tangent(self, node: int, form: Form, raised: Integers, state: States) -> _Tangent:
        """The tangent at a node's point, without the multipliers of products with those that are chosen for good."""
        point = self.points[node]
        if (point > self.grain).any() or int(point.sum()) != form.open * self.grain:
            raise CertificateError("its point does not lie on the slice")
        away = np.ones(state.size, dtype=bool)
        away[form.ones] = away[form.ids] = False
        if (state[form.ones] != ONE).any() or (state[away] != ZERO).any():
            raise CertificateError("its form takes for decided what is open here")
        done = (state[form.ids] == ONE) & (point == self.grain)
        rest = np.flatnonzero(~done)
        exact = form.matrix[:, done] - raised[:, done]
        base = form.constant + int(form.linear[done].sum()) + int(exact[done].sum())
        towards = form.matrix[np.ix_(rest, rest)] @ point[rest]  # shares are not negative, and sum to less than open
        inner = sum(share * value for share, value in zip(point[rest].tolist(), towards.tolist(), strict=True))
        gradient = np.zeros(state.size, dtype=np.int64)
        linear = form.linear[rest] + 2 * exact[rest].sum(axis=1)
        gradient[form.ids[rest]] = self.grain * linear + 2 * towards
        return _Tangent(base * self.grain**2 - inner, gradient, self.grain)

    def _form(self, index: int) -> tuple[Form, Integers, NDArray[np.bool_]]:
        """A form, the multipliers of its products as a matrix, and who of its clients comes before whom."""
        if index not in self.forms:
            part = {name: part_of(self.arrays, f"form_{name}", index) for name in FORM}
            before = part_of(self.arrays, "form_better", index).reshape(-1, 2)
            if before.size and int(before.max()) >= part["ids"].size:
                raise CertificateError("a pair of one client before another is not one of its form's clients")
            form = Form(self.data, part, int(self.arrays["form_room"][index]))
            # What every sum of `_tangent` stays below: at most ``open`` shares are whole, and all sum to as much.
            largest, linear = largest_of(form.matrix) + largest_of(form.raised[:, 2]), largest_of(form.linear)
            if (self.grain * (form.open + 1) * linear + 8 * self.grain * form.open * largest) >> 62 or (
                form.open**2 * largest >> 62
            ):
                raise CertificateError("the multipliers are too large for the grid")
            raised, better = np.zeros_like(form.matrix), np.zeros((self.data.cost.size,) * 2, dtype=bool)
            for i, j, half in form.raised.tolist():
                raised[i, j] += half
                raised[j, i] += half
            before = form.ids[before]
            better[before[:, 0], before[:, 1]] = True
            for i, j in [*form.dominated, *before.tolist()]:
                self.exchanges.require(i, j, form.ones.tolist(), form.ids.tolist())
            room = max(_MEMORY // (self.data.cost.size**2 + 1), 1)  # what does not fit is made again
            while len(self.forms) >= room:
                del self.forms[next(iter(self.forms))]
            self.forms[index] = form, raised, better
        return self.forms[index]


def _imply(state: States, better: NDArray[np.bool_]) -> bool:
    """Fix who comes before someone chosen, or after someone left out; False where that contradicts what is fixed."""
    while True:
        one, zero = state == ONE, state == ZERO
        up, down = better[:, one].any(axis=1), better[zero].any(axis=0)
        if (up & (zero | down)).any() or (down & one).any():
            return False
        fresh = (up | down) & (state == FREE)
        if not fresh.any():
            return True
        state[fresh & up], state[fresh & down] = ONE, ZERO


def _total(values: Integers) -> int:
    """The sum, which may take more than 64 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def check_search(problem: Any, grid: int, arrays: Mapping[str, Integers]) -> Fraction:
    """Walk over a search that was written down and return the bound it proves, exactly.

    Parameters
    ----------
    problem : DispersionProblem
        Whose ``distances``, ``costs``, ``size`` and ``weight`` are read, and nothing else.
    grid : int
        The whole numbers of the certificate are multiples of 2^grid, in the units of the objective.
    arrays : mapping of str to array of int
        As `solvers.certificates.schema` passes them.

    Returns
    -------
    fractions.Fraction
        No selection of the problem is worth more.

    Raises
    ------
    CertificateError
        When a side is missing, or a node is not closed by what is said about it; the sentence names the node.
    """
    return _Search(problem, Rounded.of(problem, grid), arrays).walk()
