"""Certificates of a bound that is known: a search of few nodes, written down as it is found.

This is a search of its own, after any method: multipliers are made anew on the way down, since few large steps make a
small file. It computes with the checker's own whole numbers and steps (a form as the checker will rebuild it, a point
as it will be rounded, whom that fixes), so that what closes a node here closes it there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.certificates.exact.dispersion import (
    FREE,
    ONE,
    ZERO,
    CheckedForm,
    Exchanges,
    Linearisation,
    decided,
    fixed,
    implied,
)
from solvers.certificates.exact.sides import Sides
from solvers.certificates.schema import ENTRIES, MULTIPLIER, POINT
from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import Form, Goal, Order, SideScratch, Workspace
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.dispersion.relaxations.cuts import Cuts
from solvers.dispersion.relaxations.dominance import dominance
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation, WarmStart
from solvers.dispersion.relaxations.prices import priced_bound
from solvers.dispersion.relaxations.row_products import row_form
from solvers.dispersion.relaxations.semidefinite import Multipliers as SdpMultipliers
from solvers.dispersion.relaxations.semidefinite import most_negative_products, relax
from solvers.dispersion.relaxations.slice_form import SliceForm
from solvers.dispersion.relaxations.stopping import StoppingRule, tighten
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.dispersion.tree.certificate_builder import BITS, CertificateBuilder, Nodes, on_grain
from solvers.dispersion.tree.conditional import inverse_on_slice
from solvers.dispersion.tree.rlt_log import left_by_rlt, with_rlt
from solvers.dispersion.tree.side_rows import SideRows
from solvers.errors import CertificateError
from solvers.solution import OPTIMALITY_GAP

#: A goal that nothing reaches: every selection is evaluated.
UNREACHABLE_GOAL = -(1 << 61)

#: Weight of the stronger side where conditioning branches, beside the weaker one's.
_BOTH = 0.1

_NO_PAIRS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class NodeForm:
    """A form over ``ids``, in doubles and as the checker sees it.

    Attributes
    ----------
    index : int
        Its number in the `CertificateBuilder`.
    checked : CheckedForm
        The form in whole numbers, as the checker sees it.
    matrix, linear : ndarray of float
        The same in doubles.
    pairs : (p, 2) ndarray of int
        Pairs of clients, by place in ``ids``, whose products a child's relaxation holds non-negative.
    point : (n,) ndarray of float
        Where tangents are first taken, over all clients.
    warm : WarmStart, optional
        What the doubly nonnegative relaxation of a child starts from, where the multipliers are those of one.
    """

    index: int
    checked: CheckedForm
    matrix: NDArray[np.float64]
    linear: NDArray[np.float64]
    pairs: NDArray[np.int64]
    point: NDArray[np.float64]
    warm: WarmStart | None = None

    @property
    def ids(self) -> NDArray[np.int64]:
        """The clients that are open where it holds."""
        return self.checked.form.ids


class _Node(NamedTuple):
    """A tangent at a node, its point in units of 1 / POINT, and the prices of the rows that it charges."""

    tangent: Linearisation
    point: NDArray[np.int64]
    prices: NDArray[np.int64]


@dataclass(frozen=True)
class Conditioning:
    """The unconstrained maximum of a concave form over some clients whose shares have a sum.

    It decides where to branch, and proves nothing.

    Attributes
    ----------
    who : (k,) ndarray of int
        The clients.
    inverse : (k, k) ndarray
        Of the form's negative matrix on the slice.
    y, value : (k,) ndarray and float
        The maximiser, and the maximum.
    """

    who: NDArray[np.int64]
    inverse: NDArray[np.float64]
    y: NDArray[np.float64]
    value: float

    @classmethod
    def of(
        cls, matrix: NDArray[np.float64], linear: NDArray[np.float64], size: int, constant: float
    ) -> Conditioning | None:
        """Return that of all clients; None where the numbers are out of range."""
        found = inverse_on_slice(matrix, linear, size)
        if found is None:
            return None
        inverse, y = found
        return cls(np.arange(y.size), inverse, y, constant + float(linear @ y + y @ matrix @ y))

    @np.errstate(all="ignore")  # what is not finite closes nothing
    def fixed(self, place: int, value: int) -> Conditioning:
        """Return that of the other clients where this one's share is ``value``."""
        row, away = self.inverse[place], value - self.y[place]
        rest = np.delete(np.arange(self.y.size), place)
        y = self.y + row * (away / row[place])
        inverse = self.inverse - np.outer(row, row / row[place])
        return Conditioning(self.who[rest], inverse[np.ix_(rest, rest)], y[rest], self.value - away**2 / row[place])

    def having(self, ids: NDArray[np.int64], state: NDArray[np.int8]) -> Conditioning:
        """Return that of the clients that are free in ``state``; ``ids`` are those of all places."""
        node = self
        while (decided := np.flatnonzero(state[ids[node.who]] != FREE)).size:
            node = node.fixed(int(decided[0]), int(state[ids[node.who[decided[0]]]] == ONE))
        return node

    @np.errstate(all="ignore")
    def closable(self, goal: float) -> int:
        """Return of how many clients a side is closed."""
        variance = np.maximum(self.inverse.diagonal(), 1e-300)
        return int(np.count_nonzero(np.maximum(self.y**2, (1 - self.y) ** 2) / variance >= self.value - goal))

    @np.errstate(all="ignore")
    def branch(self, goal: float) -> tuple[int, int]:
        """Return the place of the client to branch on, and the side that is closed first."""
        variance = np.maximum(self.inverse.diagonal(), 1e-300)
        without, having = self.y**2 / variance, (1 - self.y) ** 2 / variance
        weaker, stronger = np.minimum(without, having), np.maximum(without, having)
        spare = self.value - goal
        if (weaker >= spare).any():  # neither side is left
            gain = weaker
        elif (stronger >= spare).any():
            gain = stronger
        else:
            gain = weaker * (1 + _BOTH * stronger / spare)
        place = int(np.argmax(gain))
        return place, int(having[place] > without[place])


class CertificateTree:
    """A certificate in the making.

    Parameters
    ----------
    problem : DispersionProblem
        The problem; 2 ≤ m ≤ n − 2, but for `enumerated`.
    target : float
        The bound to reach, in units of the objective; above all selections that are not ``listed``, by more than
        rounding.
    expired : callable
        Whether to give up.
    most : int
        Most numbers written, some bytes each; no more than an array of a certificate may hold.
    most_work : float
        Most clients cubed that relaxations take.
    stages : Certificate, optional
        One of kind ``rlt``, whose multipliers leave out clients before the tree.
    bits : int
        Of the largest number of the problem.
    listed : mapping of str to ndarray of int, optional
        Selections that the target is not about: the certificate's ``pool``, ``vetoed`` and ``diverse``.
    """

    policy = DEFAULT_POLICY

    def __init__(
        self,
        problem: DispersionProblem,
        target: float,
        expired: Callable[[], bool],
        most: int = ENTRIES,
        most_work: float = math.inf,
        stages: Certificate | None = None,
        bits: int = BITS,
        listed: Mapping[str, NDArray[np.int64]] | None = None,
    ) -> None:
        self.problem, self.target = problem, target
        self.expired, self.most, self.most_work = expired, most, most_work
        self.listed = dict(listed or {})
        n, m = problem.n, problem.size
        pair = np.ascontiguousarray(problem.weight * problem.distances.astype(np.float64))
        order = np.lexsort((np.arange(n), -(2 * (m - 1) / max(n - 2, 1) * pair.sum(axis=1) - problem.costs)))
        self.sides = Sides(problem)
        self.builder = CertificateBuilder(problem, order, self.sides, bits)
        self.data = self.builder.data
        self.unit = float(self.data.unit)
        self.goal = math.floor((target - float(self.data.error) - 4 * problem.rounding) / self.unit)
        self.accuracy = problem.tolerance_at(target, 0.1 * OPTIMALITY_GAP)
        self.rows, self.factors = _row_products(self.sides)
        self.start, self.stages = self.sides.start.copy(), stages
        if stages is not None:
            self.start[np.delete(np.arange(n), left_by_rlt(stages, self.data, self.goal))] = ZERO
        self.points = NodePoints(problem, self.sides)
        has_pairs = self.sides.is_empty and stages is None and not self.listed
        pairs = dominance(pair, -problem.costs, m).pairs if has_pairs else _NO_PAIRS
        self.dominated = _certain(problem, pairs)
        self.origin = -1  # of the tree: below nodes that fix clients
        self.nodes: list[Nodes] = []
        self.charges: list[NDArray[np.int64]] = []  # prices of the rows at each node
        self.written, self.is_closed = 0, False
        self.last: NodeForm | None = None  # of those that fixed clients
        self.work = 0.0

    def tree(self) -> bool:
        """Write a tree that proves the target; False where it was given up."""
        return self.is_closed or self._visit(self.origin, self.start.copy(), None, None, ())

    def form(
        self,
        diagonal: NDArray[np.float64],
        raised: NDArray[np.float64] | None,
        x: NDArray[np.float64],
        cuts: tuple[Cuts, NDArray[np.float64]] | None = None,
        dominated: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
        *,
        is_curved: bool,
    ) -> NodeForm:
        """Return a form over the clients that are free.

        Multipliers are of the free clients: of the diagonal, halves of those of their products, those of cuts, and
        those of pairs of which the first is chosen whenever the second is; x is a point near the best one.
        """
        ids, ones = np.flatnonzero(self.start == FREE), np.flatnonzero(self.start == ONE)
        first, second = np.triu_indices(ids.size, 1)
        held = None if raised is None else (np.column_stack([first, second]), 2 * raised[first, second])
        better = _NO_PAIRS if dominated is None else dominated[0]
        index, whole = self.builder.form(ones, ids, diagonal, held, dominated, better, cuts)
        checked = CheckedForm(whole, ids[better], POINT, is_curved=is_curved)
        y = np.zeros(self.start.size)
        y[ids] = x
        return NodeForm(index, checked, whole.matrix.astype(np.float64), whole.linear.astype(np.float64), _NO_PAIRS, y)

    @functools.cached_property
    def exchanges(self) -> Exchanges:
        """Which exchanges the checkers accept."""
        return Exchanges(self.problem, self.builder.order)

    def accepts(self, first: int, second: int) -> bool:
        """Whether the checkers accept that the first client is chosen whenever the second is."""
        free, ones = np.flatnonzero(self.start == FREE), np.flatnonzero(self.start == ONE)
        try:
            self.exchanges.require(first, second, ones.tolist(), free.tolist())
        except CertificateError:
            return False
        return True

    def fix(self, form: NodeForm) -> int:
        """Write a node whose curved form fixes clients for the tree, unless it fixes none; return how many."""
        state = self.start
        found = self._tangent(state, form, form.point)
        left = self._left(state, form, found)
        changed = np.flatnonzero(state == FREE) if left is None else np.flatnonzero(left != state)
        if changed.size:
            self.last = form
            self.builder.curved.add(form.index)
            self.written += sum(part.size for part in self.builder.forms[form.index])
            number, client = len(self.nodes), int(changed[0])
            is_closed = left is None or decided(self.data, left) is not None
            self._write(self.origin, -1 if is_closed else client, form, found)
            self.is_closed = is_closed
            if left is not None:
                self.start = left
                self.origin = 2 * number + int(left[client] == ONE)
        return int(changed.size)

    def condition(self, form: NodeForm, most: float) -> bool:
        """Write a search below a form over the free clients; False, and nothing is written, where that fails.

        It fails where it takes too much, or numbers are out of range.

        A node branches on the client whom conditioning would fix, or on the one whose weaker side gains most. What is
        dropped is closed by a tangent of the form near that side's centre. Another node holds one only where it fixes
        more: conditioning closes a side of several clients, or some follow from others. See
        `solvers.dispersion.kernels.conditioning`.

        Parameters
        ----------
        form : NodeForm
            Of the clients that are free, and of no others, with its curvature.
        most : float
            Pairs of clients that the tangents have together, at most: the time of a checker.
        """
        whole, written, begun = form.checked.form, self.written, len(self.nodes)
        numbers = sum(part.size for part in self.builder.forms[form.index])
        limit = written + min(self.most - written - numbers, most / max(form.ids.size, 1))
        goal, together = float(self.goal), self.policy.certificate_fixed_together
        root, better = Conditioning.of(form.matrix, form.linear, whole.open, float(whole.constant)), form.checked.better
        stack = [] if root is None else [(self.origin, self.start.copy(), root)]
        is_done = root is not None
        while stack and is_done:
            origin, state, node = stack.pop()
            if decided(self.data, state) is not None or self._is_closed_by(origin, state, form, node):
                continue
            follows = state.copy()
            is_formed = not implied(follows, better) or (follows != state).any() or node.closable(goal) >= together
            found = self._at(state, form, node) if is_formed else None
            left = state if found is None else self._left(state, form, found)
            if left is None or decided(self.data, left) is not None:
                self._write(origin, -1, form, found)
                continue
            node = node.having(form.ids, left)
            place, side = node.branch(goal)
            client, number = int(form.ids[node.who[place]]), len(self.nodes)
            self._write(origin, client, form if found is not None else None, found)
            for value in (1 - side, side):  # what is likely closed comes first off the stack
                child = left.copy()
                child[client] = ONE if value else ZERO
                if found is None or implied(child, better):
                    stack.append((2 * number + value, child, node.fixed(place, value).having(form.ids, child)))
            is_done = self.written <= limit and not self.expired()
        if not is_done or self.written > limit:
            del self.nodes[begun:], self.charges[begun:]
            self.written = written
            return False
        self.builder.curved.add(form.index)
        self.written += numbers
        self.is_closed = True
        return True

    def _is_closed_by(self, origin: int, state: NDArray[np.int8], form: NodeForm, node: Conditioning) -> bool:
        """Write the tangent at a node's centre where its maximum is no more than the goal; return whether it closes."""
        if not (node.value <= self.goal and np.isfinite(node.y).all()):
            return False
        found = self._at(state, form, node)
        if found.tangent.closes(state, self.problem.size, self.goal):
            self._write(origin, -1, form, found)
            return True
        return False

    def _at(self, state: NDArray[np.int8], form: NodeForm, node: Conditioning) -> _Node:
        """Return the tangent of a form near a node's centre."""
        y = np.zeros(state.size)
        y[form.ids] = state[form.ids] == ONE
        y[form.ids[node.who]] = np.clip(np.nan_to_num(node.y, nan=0.5), 0.0, 1.0)
        return self._tangent(state, form, y)

    def _left(self, state: NDArray[np.int8], form: NodeForm, found: _Node) -> NDArray[np.int8] | None:
        """Return a node's state as its form and side constraints leave it, as the checkers do; None if it is closed."""
        left = fixed(found.tangent, state, self.problem.size, self.goal)
        if left is None or not implied(left, form.checked.better):
            return None
        return left if self.sides.is_empty else self.sides.consequences(left)

    def root(self, seconds: float = math.inf) -> float:
        """Write one node, the best tangent that so many seconds allow, and return its bound.

        It is that of one multiplier for all, of the form that fixed clients last, or, where there is time, of the
        semidefinite relaxation. Clients fixed above it are so for any goal that is not below the one they were fixed
        for.
        """
        state, before = self.start.copy(), self.goal if self.nodes else UNREACHABLE_GOAL
        if self.is_closed:
            return self._stated()
        forms, n = [self._shifted()], int((state == FREE).sum())
        if self.last is not None:
            forms.append(self.last)
        if n <= self.policy.certificate_relaxed and seconds > self.policy.certificate_seconds * n**3:
            forms.append(
                self._multipliers(state, None, 1 + self.policy.separations, self.policy.separated_pairs, closing=False)
            )
        found = [self._tangent(state, form, form.point) for form in forms]
        bounds = [each.tangent.order(state, self.problem.size)[0] for each in found]
        best = bounds.index(min(bounds))
        self.goal = max(-(-min(bounds) // POINT**2), before)
        self._write(self.origin, -1, forms[best], found[best])
        return self._stated()

    def _stated(self) -> float:
        """Return the goal in units of the objective, rounded up."""
        return math.nextafter(float(self.goal * self.data.unit + self.data.error), math.inf)

    def contradiction(self) -> bool:
        """Write a tree whose nodes rows close, alone or together at prices; False where it was given up."""
        form = self._shifted()
        return self._close(-1, self.sides.start.copy(), form, on_grain(form.point, self.problem.size, POINT))

    def _close(self, origin: int, state: NDArray[np.int8], form: NodeForm, point: NDArray[np.int64]) -> bool:
        """Prove that the rows leave nothing below ``state``: by one of them, by prices of several, or by branching."""
        if self.expired() or self.written > self.most:
            return False
        if (kept := self.sides.consequences(state)) is None:
            return True
        if decided(self.data, kept) is not None:
            return False
        client, prices = _rows_together(self.sides, kept)
        tangent = form.checked.tangent(point, kept).charged(*self.sides.charge(prices))
        if tangent.closes(kept, self.problem.size, self.goal):
            self._write(origin, -1, form, _Node(tangent, point, prices))
            return True
        number = len(self.nodes)
        self._write(origin, client)
        for value in (ONE, ZERO):
            child = kept.copy()
            child[client] = value
            if not self._close(2 * number + (value == ONE), child, form, point):
                return False
        return True

    def enumerated(self) -> None:
        """Write a tree that evaluates every selection, where all clients, all but one or one alone are chosen."""
        self.goal, m = self.goal if self.listed else UNREACHABLE_GOAL, self.problem.size
        for client in range(self.problem.n - 1 if m < self.problem.n else 0):
            # Where one alone is chosen, the side without whom was branched on is open; else that with.
            self._write(-1 if client == 0 else 2 * (client - 1) + (m > 1), client)

    def certificate(self, bound: float) -> Certificate:
        """Return what was written as a certificate that claims ``bound``."""
        prices = np.array(self.charges) if len(self.sides.limits) and self.charges else None
        found = self.builder.certificate(bound, self.goal, POINT, self.nodes, prices=prices)
        if self.listed:
            found = replace(found, arrays={**found.arrays, **self.listed})
        return found if self.stages is None else with_rlt(found, self.stages)

    # -- the tree ------------------------------------------------------------------------------------------------

    def _visit(
        self,
        origin: int,
        state: NDArray[np.int8],
        form: NodeForm | None,
        y: NDArray[np.float64] | None,
        above: tuple[Linearisation, ...],
    ) -> bool:
        """Prove what is open below ``state``; ``y`` has an entry for every client of the problem."""
        size = self.problem.size
        if self.expired() or self.written > self.most or self.work > self.most_work:
            return False
        if not self.sides.is_empty:
            if (kept := self.sides.consequences(state)) is None:
                return True
            state = kept
        if decided(self.data, state) is not None:
            return True
        if any(tangent.closes(state, size, self.goal) for tangent in reversed(above)):
            return True
        found = None if form is None or y is None else self._tangent(state, form, y)
        if (
            form is None
            or found is None
            or not (found.tangent.closes(state, size, self.goal) or self._lasts(form, state))
        ):
            form = self._multipliers(state, form, 1 if form is not None else self.policy.certificate_rounds)
            found = self._tangent(state, form, form.point)
            if found.prices.any() and not found.tangent.closes(state, size, self.goal):
                form = self._multipliers(state, form)  # for the prices that are known now
                found = self._tangent(state, form, form.point)
        tangent = found.tangent
        left = self._left(state, form, found)
        if left is None or decided(self.data, left) is not None:
            self._write(origin, -1, form, found)
            return True
        y = np.zeros(self.problem.n)
        y[form.ids] = found.point / POINT
        client, number = self._branching(left, form, y), len(self.nodes)
        self._write(origin, client, form, found)
        for value in (ONE, ZERO):
            child = left.copy()
            child[client] = value
            if implied(child, form.checked.better):
                side = 2 * number + (value == ONE)
                if not self._visit(side, child, form, y, (*above, tangent)):
                    return False
        return True

    def _lasts(self, form: NodeForm, state: NDArray[np.int8]) -> bool:
        """Whether a node keeps its form: as what is open is not much less than where that was made, or too little."""
        free, left = int((state == FREE).sum()), self.problem.size - int((state == ONE).sum())
        is_smaller = (
            free < form.ids.size if form.warm is not None else free <= self.policy.certificate_shrunk * form.ids.size
        )
        return not (free >= self.policy.fewest_relaxed and 2 <= left <= free - 2 and is_smaller)

    def _branching(self, state: NDArray[np.int8], form: NodeForm, y: NDArray[np.float64]) -> int:
        """The client whose share is farthest from 0 and 1, by its curvature."""
        free, means = np.flatnonzero(state == FREE), form.matrix.mean(axis=0)
        weight = np.zeros(self.problem.n)
        weight[form.ids] = np.maximum(2 * means - means.mean() - form.matrix.diagonal(), 1e-12)
        return int(free[(weight[free] * np.minimum(y[free], 1 - y[free])).argmax()])

    def _write(self, origin: int, client: int, form: NodeForm | None = None, found: _Node | None = None) -> None:
        points = np.zeros((1, 0), dtype=np.int64) if found is None else found.point[None]
        self.nodes.append((-1 if form is None else form.index, np.array([origin]), np.array([client]), points))
        self.charges.append(np.zeros(len(self.sides.limits), np.int64) if found is None else found.prices)
        self.written += 3 + points.size

    # -- bounds --------------------------------------------------------------------------------------------------

    def _tangent(self, state: NDArray[np.int8], form: NodeForm, y: NDArray[np.float64]) -> _Node:
        """The best tangent of a form at a node that is found from ``y``."""
        kept = form.checked.form
        free, chosen = np.flatnonzero(state[kept.ids] == FREE), np.flatnonzero(state[kept.ids] == ONE)
        left = kept.open - chosen.size
        slope = form.linear[free] + 2 * form.matrix[chosen][:, free].sum(axis=0)
        constant = kept.constant + float(form.linear[chosen].sum() + form.matrix[np.ix_(chosen, chosen)].sum())
        scale = 2.0**-BITS
        matrix = np.ascontiguousarray(form.matrix[np.ix_(free, free)]) * scale
        places, known = (kept.ids[free], np.flatnonzero(state == ONE)), (self.goal - constant) * scale
        inner = self.points.near_best(matrix, slope * scale, left, y[kept.ids[free]], places, known, scale)
        full = np.zeros(kept.ids.size)
        full[chosen], full[free] = 1.0, inner
        point = on_grain(full, kept.open, POINT)
        tangent, prices = form.checked.tangent(point, state), self.points.row.copy()
        return _Node(tangent.charged(*self.sides.charge(prices)) if prices.size else tangent, point, prices)

    def _multipliers(
        self,
        state: NDArray[np.int8],
        parent: NodeForm | None,
        rounds: int = 1,
        most: int = DEFAULT_POLICY.certificate_pairs,
        *,
        closing: bool = True,
    ) -> NodeForm:
        """Multipliers made for what is open here; ``closing``: good enough as soon as they close it."""
        ids, ones = np.flatnonzero(state == FREE), np.flatnonzero(state == ONE)
        n, m = ids.size, self.problem.size - ones.size
        scale = 2.0**-BITS
        pair = self.data.pair.astype(np.float64) * scale
        q = np.ascontiguousarray(pair[np.ix_(ids, ids)])
        linear = -self.data.cost[ids] * scale + 2 * pair[np.ix_(ids, ones)].sum(axis=1)
        constant = float(self.data.value(ones.tolist())) * scale
        if not self.sides.is_empty:
            paid, each = self.sides.charge(self.points.row)
            linear = linear - each[ids].astype(np.float64) * scale
            constant += float(paid - int(each[ones].sum())) * scale
        linear, constant = linear - np.median(linear), constant + m * float(np.median(linear))
        place = np.full(self.problem.n, -1)
        place[ids] = np.arange(n)
        equal = place[self.dominated]
        equal = equal[(equal >= 0).all(axis=1)][: self.policy.certificate_order * n]
        pairs = _NO_PAIRS if parent is None else place[parent.ids[parent.pairs]]
        pairs = pairs[(pairs >= 0).all(axis=1)][: most * n]
        known = (self.goal - self.policy.certificate_rounding * abs(self.goal)) * scale - constant
        if parent is not None and parent.warm is not None and self.sides.is_empty:
            return self._doubly_nonnegative(ones, ids, q, linear, known, parent.warm)
        factors = np.ascontiguousarray(self.factors[:, :, np.concatenate([[0], ids + 1])])
        factors[:, :, 0] += self.factors[:, :, ones + 1].sum(axis=2)
        best: tuple[SdpMultipliers, NDArray[np.int64]] | None = None
        for _ in range(rounds):
            self.work += n**3
            found = relax(
                q,
                linear,
                m,
                dominated=equal,
                nonnegative=pairs,
                rows=factors,
                tolerance=self.accuracy * scale / self.unit,
                incumbent=self.goal * scale - constant,
                stop_below=known if closing else -np.inf,
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
        rows = self.rows, found.rows * back
        if closing and found.bound > known and n >= self.policy.certificate_fewest_dnn and not self.expired():
            q = q + row_form(factors, found.rows, m)[0]
            return self._doubly_nonnegative(ones, ids, q, linear, known, None, rows)
        held, free = (used, found.nonnegative * back), (equal, found.dominated * back)
        x = np.zeros(self.problem.n)
        x[ids] = found.x
        return self._keep(ones, ids, found.diagonal * back, held, free, pairs, x, rows=rows)

    def _doubly_nonnegative(
        self,
        ones: NDArray[np.int64],
        ids: NDArray[np.int64],
        quadratic: NDArray[np.float64],
        linear: NDArray[np.float64],
        known: float,
        warm: WarmStart | None,
        rows: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    ) -> NodeForm:
        """Multipliers of all products and of cuts, which a tree of few nodes needs: as a node of `DNNTree` has them."""
        n, m = ids.size, self.problem.size - ones.size
        scale = 0.5 / (self.problem.size - 1)  # gains are about 1 then, as the method's penalty expects
        back, known = 2.0**BITS * self.unit / scale, (known - self.policy.certificate_margin * abs(known)) * scale
        relaxation = DNNRelaxation(quadratic * scale, linear * scale, m, policy=self.policy)
        if warm is not None:
            relaxation.start(warm, ids, ones)
        first, second = np.triu_indices(n, 1)

        def kept(bound: float) -> tuple[NDArray[np.float64], NDArray[np.float64], Cuts, NDArray[np.float64]]:
            """The multipliers at hand, of diagonal, products and cuts: the last ones need not be the best."""
            cuts, weights = relaxation.cuts.cuts, 0.5 * relaxation.cuts.weights
            # There the linear term and a cut's (2k + 1) b are of s², which the multipliers of s - s² make up for.
            moved = (weights * (2 * cuts.k + 1))[:, None] * cuts.signs
            level = (bound - relaxation.cuts.constant) / m  # certainly enough for concavity
            diagonal = (
                level + relaxation.diagonal - scale * linear + np.bincount(cuts.members.ravel(), moved.ravel(), n)
            )
            return diagonal, 2 * relaxation.nonnegative[first, second], cuts, weights

        def expired() -> bool:
            return self.expired() or self.work + relaxation.iterations * each > self.most_work

        bounds, each = [relaxation.bound()], n**3 / self.policy.certificate_iterations
        best, policy = kept(bounds[0]), self.policy
        rule = replace(StoppingRule.at_node(policy, known, is_root=warm is None), converged=0.0)
        if warm is None:  # the bound is known to be within reach, so that patience at the root saves nodes
            rule = replace(rule, progress=policy.certificate_progress)
        for bound in tighten(
            *(relaxation, rule, bounds, expired, policy.cuts * n, policy.chunk), begins_with_cuts=warm is None
        ):
            if bound == bounds[-1]:
                best = kept(bound)
        self.work += relaxation.iterations * each
        diagonal, products, cuts, weights = best
        held = np.column_stack([first, second]), products * back
        x = np.zeros(self.problem.n)
        x[ids] = np.clip(relaxation.x, 0.0, 1.0)
        form = self._keep(ones, ids, diagonal * back, held, None, _NO_PAIRS, x, (cuts, weights * back), rows)
        return replace(form, warm=relaxation.warm(ids))

    def _shifted(self) -> NodeForm:
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
        dominated: tuple[NDArray[np.int64], NDArray[np.float64]] | None,
        pairs: NDArray[np.int64],
        x: NDArray[np.float64],
        cuts: tuple[Cuts, NDArray[np.float64]] | None = None,
        rows: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    ) -> NodeForm:
        place = np.full(self.problem.n, -1)
        place[ids] = np.arange(ids.size)
        better = place[self.dominated]
        better = better[(better >= 0).all(axis=1)]
        index, form = self.builder.form(ones, ids, diagonal, held, dominated, better, cuts, rows)
        self.written += sum(part.size for part in self.builder.forms[index])
        checked = CheckedForm(form, ids[better], POINT)
        return NodeForm(index, checked, form.matrix.astype(np.float64), form.linear.astype(np.float64), pairs, x)


class NodePoints:
    """Points of nodes by the search's kernel, and prices of the rows there, in whole numbers for the checker.

    Attributes
    ----------
    row : (k,) ndarray of int
        The prices that were found last.
    """

    def __init__(self, problem: DispersionProblem, sides: Sides) -> None:
        constraints = problem.constraints
        kept = tuple(row for row in constraints.rows if row.kind != "conflict")
        self.rows = None if sides.is_empty else SideRows.of(replace(constraints, rows=kept))
        self.row = np.zeros(len(sides.limits), dtype=np.int64)
        # Where the checker has the upper and the lower limit of each constraint, and units of it for one there.
        self.place: dict[tuple[str, bool], int] = {}
        self.unit: dict[str, float] = {}
        count = 0
        for row in kept:
            most = float(row.coefficients.max(initial=0.0)) if row.kind == "budget" else 1.0
            self.unit[row.name] = most
            if math.isfinite(row.high) and most > 0:
                self.place[row.name, True] = count
                count += 1
            if row.low > 0:
                self.place[row.name, False] = count
                count += 1

    def near_best(
        self,
        matrix: NDArray[np.float64],
        slope: NDArray[np.float64],
        left: int,
        y: NDArray[np.float64],
        places: tuple[NDArray[np.int64], NDArray[np.int64]],
        known: float,
        scale: float,
    ) -> NDArray[np.float64]:
        """Return a point that is nearly best, under the constraints where there are some; their prices are kept."""
        n, goal = slope.size, Goal(known, 0.0, DEFAULT_POLICY.certificate_accuracy, 0)
        form, node, order = Form(matrix, matrix, slope, left, 0.0, np.ones(n)), Workspace.empty(n), Order.empty(n)
        node.state[:] = FREE
        if self.rows is None:
            load("tree_node").evaluate(form, order, None, y, goal, node, None, 0)
            return node.y.copy()
        sides = self.rows.within(*places, max(-2.0 * float(matrix.diagonal().mean()), 1e-12))
        scratch = SideScratch.empty(n, sides.low.size, sides.limits.size)
        kernel, start = load("constrained_tree"), np.concatenate([y, np.zeros(sides.limits.size)])
        if not kernel.consistent(sides, order, left, node, scratch):
            self.row[:] = 0
            return np.full(n, left / n)
        node.state[:] = FREE
        kernel.evaluate(form, order, sides, start, goal, node, scratch, 0)
        found = priced_bound(SliceForm(matrix, matrix, slope, left, 0.0), sides, node.y, scratch.price)
        self.row[:] = 0
        signs = [(name, sign > 0) for name, sign in zip(self.rows.names, self.rows.signs, strict=True)]
        for key, price in zip(signs, (found.rows * self.rows.scale).tolist(), strict=True):
            self._set(key, price / scale)
        for name, price in zip(self.rows.group_names, found.groups.tolist(), strict=False):
            self._set((name, price > 0), abs(price) / scale)
        return node.y.copy()

    def _set(self, key: tuple[str, bool], price: float) -> None:
        if price > 0 and key in self.place:
            self.row[self.place[key]] += round(min(price * self.unit[key[0]], MULTIPLIER / 4))


def _rows_together(sides: Sides, state: NDArray[np.int8]) -> tuple[int, NDArray[np.int64]]:
    """Return the client to branch on, and prices at which the free clients miss all rows together by most.

    By the linear program of the least t for which some shares exceed no limit by more than t of the row's unit. Whole
    prices sum to as much as an entry may be.
    """
    from scipy import optimize

    free, units = np.flatnonzero(state == FREE), np.array(sides.units, dtype=np.float64)
    limits = np.array(sides.limits, dtype=np.float64) - sides.rows[:, state == ONE].sum(axis=1)
    table = sides.rows[:, free] / units[:, None]
    found = optimize.linprog(
        np.concatenate([np.zeros(free.size), [1.0]]),
        A_ub=np.column_stack([table, -np.ones(units.size)]),
        b_ub=limits / units,
        A_eq=np.concatenate([np.ones(free.size), [0.0]])[None],
        b_eq=[sides.size - int((state == ONE).sum())],
        bounds=[(0.0, 1.0)] * free.size + [(None, None)],
        method="highs",
    )
    if found.status != 0:
        return int(free[0]), np.zeros(units.size, dtype=np.int64)
    share = found.x[: free.size]
    prices = np.floor(-found.ineqlin.marginals * (MULTIPLIER - 1)).astype(np.int64)
    return int(free[np.argmin(np.abs(share - 0.5))]), np.clip(prices, 0, MULTIPLIER - 1)


def row_prices(problem: SelectionProblem, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the prices, per unit, that bound a linear function best over the checker's rows of side constraints."""
    sides = Sides(problem)
    if not sides.limits:
        return np.zeros(0)
    from scipy import optimize

    units, scale = np.array(sides.units, dtype=np.float64), float(np.abs(gradient).max()) or 1.0
    found = optimize.linprog(
        -gradient / scale,
        A_ub=sides.rows / units[:, None],
        b_ub=np.array(sides.limits, dtype=np.float64) / units,
        A_eq=np.ones((1, gradient.size)),
        b_eq=[sides.size],
        bounds=np.column_stack([sides.start == ONE, sides.start != ZERO]).astype(np.float64),
        method="highs",
    )
    return np.zeros(units.size) if found.status != 0 else np.maximum(-found.ineqlin.marginals, 0.0) * scale


def _row_products(sides: Sides) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of rows whose products a form may hold, and their factors, constants first, in units of the constraints.

    A quota's two limits go together; any other row goes with what it comes to beyond the least.
    """
    pairs, factors = list[tuple[int, int]](), list[list[NDArray[np.float64]]]()
    for r, (row, limit, unit) in enumerate(zip(sides.rows, sides.limits, sides.units, strict=True)):
        if pairs and pairs[-1][1] == r:
            continue
        paired = r + 1 < len(sides.limits) and np.array_equal(sides.rows[r + 1], -row)
        t = r + 1 if paired and sides.limits[r + 1] > -limit else r  # equal ones each go with a wider one
        least = sides.limits[t] if t > r else -int(np.sort(row)[: sides.size].sum())
        if abs(limit) <= sides.size * unit and abs(least) <= sides.size * unit:
            pairs.append((r, t))
            factors.append([np.array([limit, *-row]) / unit, np.array([least, *row]) / unit])
    n = sides.start.size
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(factors).reshape(-1, 2, n + 1).swapaxes(0, 1)


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
    return np.concatenate([kept, most_negative_products(products, kept, most - len(kept), 1e-6)])
