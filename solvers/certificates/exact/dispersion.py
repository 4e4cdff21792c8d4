r"""Checker of a search over the selections of a dispersion problem, in integers.

The data are rounded to multiples of 2^grid, which can move the objective of a selection by at most a known fraction;
the rest is arithmetic of whole numbers. A certificate says little of each node: the multipliers and the point of its
tangent, and the client on whom it branched. Everything that follows is computed here anew:

* **tangent**: multipliers make the objective concave on the slice :math:`1^\top s = m` without lowering it at any
  selection, and the tangent at a point bounds it (Billionnet, Elloumi and Plateau, Discrete Appl. Math. 157, 2009).
  The multipliers are those of :math:`s_i - s_i^2` (zero at 0/1), of :math:`s_i s_j`, of cuts and of products of side
  constraints' rows (never negative), and of :math:`s_j - s_i s_j` for dominated pairs (zero at the selection that the
  certificate is about). At a node clients O are chosen whose share at its point is 1. There the multipliers of
  :math:`s_i s_j` with them are left out: the rest is concave still, since O no longer changes.
* **reduced costs**: a client is fixed where the tangent closes the other side.
* **curvature**: of a form that is said to be curved the objective is the tangent less a square, of which every client
  has a part that is known from the inverse of a factor: where a client is put far from its share at the point, that
  closes the side, too.
* **dominance**: i is chosen whenever j is, where exchanging j for i is never a loss: a pair listed with the
  multipliers, each of them tested in exact arithmetic. Among the best selections the certificate is about the one
  whose clients come first in its order.
* **decided**: where one selection is left, it is evaluated.
* **side constraints** are rows of whole numbers that every selection keeps (`solvers.certificates.exact.sides`): they
  fix clients, and close what none of them is left in. A tangent may add what its prices, none of them negative, charge
  for the rows' limits, less what they charge for clients. Beside constraints there is no dominance.
* **listed selections** (`solvers.certificates.exact.listed`) are those of a pool and those refused, which the goal is
  not about: every other one is worth no more, or is too near to a member that is no worse. The bound of all is then the
  goal, or what the best of them is worth.

A side that the search does not mention must be closed by a tangent above it. Every tangent closes what is worth at most
the goal, so that no selection is worth more than the goal or the best of those that were evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.exact.concave import FORM, Integers, Rounded, WholeForm, curvatures, largest_of, part_of
from solvers.certificates.exact.listed import Listed
from solvers.certificates.exact.sides import FREE, ONE, ZERO, Sides
from solvers.certificates.work import NUMBERS
from solvers.errors import CertificateError

#: Fields of a problem that state side constraints, in the ids of its clients.
SIDES = ("clients", "include", "exclude", "quotas", "budgets", "conflicts")

#: The origin of what has no node of its own.
_SPENT = -2

#: Pairs of clients that are kept of all forms together, some twenty bytes each.
_MEMORY = 1 << 27

#: Clients of a problem between kinds, a row and a column of 8 bytes each.
_EXPANDED = 1 << 12

States = NDArray[np.int8]


class Exchanges:
    """Which exchanges the best selection, the first in ``order`` among its equals, leaves nothing to gain by.

    An exchange that may gain nothing counts only where ``order`` puts the one who comes before the one who goes: so
    exchanges come to an end.
    """

    def __init__(self, problem: Any, order: NDArray[np.int64]) -> None:
        self.problem, self.order = problem, order
        if sorted(order.tolist()) != list(range(problem.costs.size)):
            raise CertificateError("the order of the clients does not name each of them once")
        self.known: dict[tuple[int, int], bool] = {}
        self.rows: dict[int, list[int]] = {}
        self.grain = Fraction(1, max(value.as_integer_ratio()[1] for value in np.unique(problem.distances).tolist()))

    def require(self, i: int, j: int, ones: list[int], free: list[int]) -> None:
        """Exchanging j for i beside ``ones`` and any others of ``free`` is never a loss, or CertificateError."""
        if (i, j) not in self.known:  # most are no loss beside any company at all
            self.known[i, j] = self._no_loss(i, j, [], list(range(self.problem.costs.size)))
        if not self.known[i, j] and not self._no_loss(i, j, ones, free):
            raise CertificateError(f"exchanging client {j} for {i} can be a loss, or go on without end")

    def _no_loss(self, i: int, j: int, ones: list[int], free: list[int]) -> bool:
        first, second = self._row(i), self._row(j)
        gains = [a - b for a, b in zip(first, second, strict=True)]
        company = max(int(self.problem.size) - 1 - len(ones), 0)
        others = sorted(gains[k] for k in free if k not in (i, j))[:company]
        worth = Fraction(sum(gains[k] for k in ones) + sum(others)) * self.grain
        least = 2 * Fraction(float(self.problem.weight)) * worth
        least -= Fraction(float(self.problem.costs[i])) - Fraction(float(self.problem.costs[j]))
        return bool(least > 0 or (least == 0 and self.order[i] < self.order[j]))

    def _row(self, i: int) -> list[int]:
        """The distances of a client in units of ``grain``, of which every distance is a whole number."""
        if i not in self.rows:
            ratios = [value.as_integer_ratio() for value in self.problem.distances[i].tolist()]
            self.rows[i] = [number * (self.grain.denominator // below) for number, below in ratios]
        return self.rows[i]


@dataclass(frozen=True)
class Linearisation:
    """``base`` and the gradient's entries of those chosen bound what a selection is worth, times the grain squared.

    Where the curvature is known, selections without a client are worth ``without`` less at least, and those with it
    ``having``, in the same units.
    """

    base: int
    gradient: NDArray[Any]
    grain: int
    without: NDArray[np.float64] | None = None
    having: NDArray[np.float64] | None = None

    def order(self, state: States, size: int) -> tuple[int, int, int]:
        """Return a node's bound, and the gradient's entries between which the best selection ends."""
        chosen, free = self.gradient[state == ONE], np.sort(self.gradient[state == FREE])
        first = free.size - (size - chosen.size)
        bound = self.base + self.grain * (_total(chosen) + _total(free[first:]))
        return bound, int(free[first]), int(free[first - 1])

    def charged(self, paid: int, each: NDArray[Any]) -> Linearisation:
        """The same bound with what prices of rows charge: for their limits, less what they charge for clients."""
        gradient = self.gradient.astype(object) - self.grain * each
        return replace(self, base=self.base + paid * self.grain**2, gradient=gradient)

    def closes(self, state: States, size: int, goal: int) -> bool:
        """Whether no selection of a node is worth more than the goal."""
        return self.order(state, size)[0] <= goal * self.grain**2


class CheckedForm:
    """A form with its products' multipliers as a matrix, and pairs of which the first is chosen whenever the second is.

    Its numbers are Python's where sums of them could leave 64 bits for points in units of 1 / ``grain``.
    """

    def __init__(self, form: WholeForm, better: Integers, grain: int, *, is_curved: bool = False) -> None:
        self.curvatures = curvatures(form.matrix) if is_curved else None
        # Below: at most ``open`` shares are whole, and all of them sum to ``open``; so each gradient's entry is at most
        # grain (linear + 4 open largest), and no sum of `tangent` is more than these.
        largest, linear = largest_of(form.matrix) + largest_of(form.raised[:, 2]), largest_of(form.linear)
        most = grain * ((form.open + 1) * linear + 8 * form.open * largest) + form.open**2 * largest
        kind: Any = object if most >> 62 else np.int64
        self.form, self.grain = form, grain
        self.matrix, self.linear = form.matrix.astype(kind), form.linear.astype(kind)
        self.raised = np.zeros_like(self.matrix)
        first, second, half = form.raised.T  # each pair stands there once
        self.raised[first, second] = self.raised[second, first] = half.astype(kind)
        n = form.clients
        self.better = np.zeros((n, n), dtype=bool)
        self.better[better[:, 0], better[:, 1]] = True

    def tangent(self, point: Integers, state: States) -> Linearisation:
        """Return the tangent at a point, without multipliers of products with those chosen for good."""
        form, grain = self.form, self.grain
        if (point > grain).any() or int(point.sum()) != form.open * grain:
            raise CertificateError("its point does not lie on the slice")
        away = np.ones(state.size, dtype=bool)
        away[form.ones] = away[form.ids] = False
        if (state[form.ones] != ONE).any() or (state[away] != ZERO).any():
            raise CertificateError("its form takes for decided what is open here")
        done = (state[form.ids] == ONE) & (point == grain)
        rest = np.flatnonzero(~done)
        exact = self.matrix[:, done] - self.raised[:, done]
        base = form.constant + int(self.linear[done].sum()) + int(exact[done].sum())
        shares = point[rest].astype(self.matrix.dtype)
        towards = self.matrix[np.ix_(rest, rest)] @ shares
        inner = sum(share * value for share, value in zip(shares.tolist(), towards.tolist(), strict=True))
        gradient = np.zeros(state.size, dtype=self.matrix.dtype)
        gradient[form.ids[rest]] = grain * (self.linear[rest] + 2 * exact[rest].sum(axis=1)) + 2 * towards
        if self.curvatures is None:
            return Linearisation(base * grain**2 - inner, gradient, grain)
        # Where products were left out, nobody's share changes who is in them: the rest is as curved as it was.
        without, having = np.zeros(state.size), np.zeros(state.size)
        less = 1 - 2.0**-50
        without[form.ids], having[form.ids] = (less * away**2.0 * self.curvatures for away in (point, grain - point))
        return Linearisation(base * grain**2 - inner, gradient, grain, without, having)


def fixed(tangent: Linearisation, state: States, size: int, goal: int) -> States | None:
    """Return a node's state with the clients fixed whose other side a tangent closes; None if it closes the node."""
    bound, lower, upper = tangent.order(state, size)
    if bound <= goal * tangent.grain**2:
        return None
    missing = -(-(bound - goal * tangent.grain**2) // tangent.grain)  # a loss that closes the other side
    gradient, top = tangent.gradient, tangent.gradient >= lower
    left = state.copy()
    if missing < 1 << 62 or gradient.dtype == object:  # else no entry is so large, all are below 2^61
        sure = (state == FREE) & (np.where(top, gradient - upper, lower - gradient) >= missing)
        left = np.where(sure, np.where(top, ONE, ZERO), state).astype(np.int8)
    if tangent.without is None or tangent.having is None:
        return left
    spare = bound - goal * tangent.grain**2
    for i in np.flatnonzero(state == FREE).tolist():
        slope = int(gradient[i])
        without = int(tangent.without[i]) + (tangent.grain * (slope - upper) if top[i] else 0)
        having = int(tangent.having[i]) + (0 if top[i] else tangent.grain * (lower - slope))
        if min(without, having) >= spare:
            return None
        if max(without, having) >= spare:
            left[i] = ONE if without >= spare else ZERO
    return left


def implied(state: States, better: NDArray[np.bool_]) -> bool:
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


def decided(data: Rounded, state: States) -> float | None:
    """Return the value of the only selection left, -inf if there is none; None if there are several."""
    ones, free = np.flatnonzero(state == ONE), np.flatnonzero(state == FREE)
    missing = data.size - ones.size
    if 0 < missing < free.size:
        return None
    if missing < 0 or missing > free.size:
        return -math.inf
    return data.value([*ones.tolist(), *(free.tolist() if missing else [])])


class _Search:
    """The walk over what was written down."""

    def __init__(self, problem: Any, data: Rounded, arrays: Mapping[str, Integers], left: Integers | None) -> None:
        self.data, self.arrays = data, arrays
        self.exchanges = Exchanges(problem, arrays["order"])
        self.forms: dict[int, CheckedForm] = {}
        (self.goal,), (self.grain,) = arrays["goal"].tolist(), arrays["grain"].tolist()
        origins = arrays["origin"].tolist()
        self.node = {origin: node for node, origin in enumerate(origins)}
        if len(self.node) != len(origins) or any(origin >= 2 * node for node, origin in enumerate(origins)):
            raise CertificateError("two nodes lie on the same side of one, or one lies above itself")
        self.points = self._by_node()
        self.sides, prices = Sides(problem), arrays["price"]
        self.start = self.sides.start.copy()
        if left is not None:
            self.start[np.delete(np.arange(data.cost.size), left)] = ZERO
        if prices.size not in (0, len(self.sides.limits) * len(origins)):
            raise CertificateError("there is not one price for each row of the constraints at each node")
        self.prices = prices.reshape(len(origins), -1) if prices.size else None
        self.listed = Listed(data, self.sides, arrays)

    def _by_node(self) -> dict[int, Integers]:
        """The nodes' points, which are kept form by form, and there one client after the other."""
        form, point, found, end = self.arrays["form"], self.arrays["point"], dict[int, Integers](), 0
        sizes = np.diff(self.arrays["form_ids_start"])
        order = np.argsort(form, kind="stable")
        order = order[np.searchsorted(form[order], 0) :]  # those without multipliers have no point
        for nodes in np.split(order, np.flatnonzero(np.diff(form[order])) + 1) if order.size else ():
            size = int(sizes[form[nodes[0]]])
            start, end = end, end + size * nodes.size
            if end > point.size:
                break
            block = point[start:end].reshape(size, nodes.size)
            found |= zip(nodes.tolist(), np.ascontiguousarray(block.T), strict=True)
        if end != point.size:
            raise CertificateError("there is not one share for each open client of each node's form")
        return found

    def walk(self) -> Fraction:
        """Return a number that no selection is worth more than, in units of the problem."""
        best: float = self.goal
        stack: list[tuple[int, States, tuple[Linearisation, ...]]] = [(-1, self.start, ())]
        if self.sides.is_contradictory:
            raise CertificateError("a client is both included and excluded")
        while stack:
            origin, state, above = stack.pop()
            if not self.sides.is_empty:
                if (kept := self.sides.consequences(state)) is None:
                    continue
                state = kept
            value = decided(self.data, state)
            if value is not None:
                if value > self.goal and not self.listed.is_empty:
                    self._require_listed(state, int(value))
                    continue
                best = max(best, value)
            elif origin in self.node:
                try:
                    stack += self._below(self.node[origin], state, above)
                except CertificateError as error:
                    raise CertificateError(f"node {self.node[origin]}: {error}") from None
            elif not any(tangent.closes(state, self.data.size, self.goal) for tangent in reversed(above)):
                side = f"the side {'with' if origin % 2 else 'without'} whom node {origin // 2} branches on"
                raise CertificateError(f"{side if origin >= 0 else 'the root'} is missing, and no tangent closes it")
        return max([int(best), *self.listed.most]) * self.data.unit + self.data.error

    def _require_listed(self, state: States, value: int) -> None:
        """Refuse a selection beyond the goal that is not listed."""
        ones = np.flatnonzero(state == ONE)
        places = ones if ones.size == self.data.size else np.flatnonzero(state != ZERO)
        chosen = tuple(places.tolist())
        if not self.listed.excepts(chosen, value):
            raise CertificateError(f"the selection {list(chosen)} is worth more than the goal, and is not listed")

    def _below(
        self, node: int, state: States, above: tuple[Linearisation, ...]
    ) -> list[tuple[int, States, tuple[Linearisation, ...]]]:
        """Return the sides of a node with their states."""
        client, better = int(self.arrays["client"][node]), None
        if (number := int(self.arrays["form"][node])) >= 0:
            form = self._form(number)
            tangent, better = form.tangent(self.points[node], state), form.better
            if self.prices is not None and self.prices[node].any():
                tangent = tangent.charged(*self.sides.charge(self.prices[node]))
            left = fixed(tangent, state, self.data.size, self.goal)
            if left is None or not implied(left, better):
                return []
            if not self.sides.is_empty and (left := self.sides.consequences(left)) is None:
                return []
            state, above = left, (*above, tangent)
            if len(above) * state.size > NUMBERS:
                raise CertificateError(f"the tangents above it have more than {NUMBERS} numbers")
            if decided(self.data, state) is not None:
                return [(_SPENT, state, ())]
        if client < 0:
            raise CertificateError("it is said to be closed, but its tangent lies above the goal")
        sides = []
        for value in (ZERO, ONE):
            child = state.copy()
            if child[client] in (FREE, value):
                child[client] = value
                if better is None or implied(child, better):
                    sides.append((2 * node + (value == ONE), child, above))
        return sides

    def _form(self, index: int) -> CheckedForm:
        if index not in self.forms:
            part = {name: part_of(self.arrays, f"form_{name}", index) for name in FORM}
            before = part_of(self.arrays, "form_better", index).reshape(-1, 2)
            if before.size and int(before.max()) >= part["ids"].size:
                raise CertificateError("a pair of one client before another is not one of its form's clients")
            form = WholeForm(self.data, part, int(self.arrays["form_room"][index]), self.sides)
            if not self.sides.is_empty and (before.size or form.dominated):
                raise CertificateError("beside side constraints no client is chosen because another one is")
            if not self.listed.is_empty and (before.size or form.dominated):
                raise CertificateError("beside listed selections no client is chosen because another one is")
            before = form.ids[before]
            for i, j in [*form.dominated, *before.tolist()]:
                self.exchanges.require(i, j, form.ones.tolist(), form.ids.tolist())
            room = max(_MEMORY // (self.data.cost.size**2 + 1), 1)  # what does not fit is made again
            while len(self.forms) >= room:
                del self.forms[next(iter(self.forms))]
            self.forms[index] = CheckedForm(form, before, self.grain, is_curved=index in self.arrays["curved"])
        return self.forms[index]


def _total(values: NDArray[Any]) -> int:
    """The sum, which may take more than 64 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def by_client(problem: Any) -> Any:
    """Clients of a kind differ in their costs alone: the same problem with a row for each of them."""
    kinds = np.asarray(problem.kinds)
    if kinds.size > _EXPANDED:
        raise CertificateError(f"certificates of kinds are read up to {_EXPANDED} clients; here are {kinds.size}")
    distances = np.asarray(problem.distances, dtype=np.float64)[np.ix_(kinds, kinds)]
    np.fill_diagonal(distances, 0.0)
    same = {name: getattr(problem, name) for name in ("costs", "size", "weight", *SIDES) if hasattr(problem, name)}
    return SimpleNamespace(distances=distances, **same)


def as_dispersion(problem: Any) -> tuple[Any, Callable[[Fraction], Fraction]]:
    """A quadratic problem with no pair below 0 and its diagonal as costs, and what a bound of that says about it.

    A pair is moved in doubles; what that takes from it is exact, and the most it takes is allowed for in every pair.
    """
    sign, size = 1 if problem.sense == "max" else -1, int(problem.size)
    signed = sign * np.asarray(problem.quadratic, dtype=np.float64)
    values = np.unique(signed[~np.eye(len(signed), dtype=bool)])
    least = float(values.min(initial=0.0))
    distances = signed - least
    np.fill_diagonal(distances, 0.0)
    lost = [abs(Fraction(x) - Fraction(least) - Fraction(x - least)) for x in values.tolist()]
    most = max(lost, default=Fraction(0))
    moved = size * (size - 1) * (Fraction(least) + most)
    same = {name: getattr(problem, name) for name in ("size", *SIDES) if hasattr(problem, name)}
    read = SimpleNamespace(distances=distances, costs=-np.diagonal(signed), weight=1.0, **same)
    return read, lambda proved: sign * (proved + moved) + Fraction(problem.constant)


def check_dispersion(problem: Any, grid: int, arrays: Mapping[str, Integers], left: Integers | None = None) -> Fraction:
    """Walk over a search that was written down and return the bound it proves, exactly.

    Parameters
    ----------
    problem : DispersionProblem
        Whose ``distances``, ``costs``, ``size`` and ``weight`` are read, and side constraints with its ``clients``.
    grid : int
        The whole numbers of the certificate are multiples of 2^grid, in the units of the objective.
    arrays : mapping of str to array of int
        As `solvers.certificates.schema` passes them.
    left : (k,) ndarray of int, optional
        Clients that selections worth more than the goal may contain; all by default.

    Returns
    -------
    fractions.Fraction
        No selection of the problem is worth more.

    Raises
    ------
    CertificateError
        When numbers do not fit the problem, a side is missing, or a node is not closed by what is said about it; of a
        node the sentence says which.
    """
    return _Search(problem, Rounded.of(problem, grid), arrays, left).walk()
