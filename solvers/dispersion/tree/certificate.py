"""Certificates of a bound that is known: a search of few nodes, written down as it is found.

A search has to find its bound; a certificate only has to reach it. So this is a search of its own, after whatever
method: every node with multipliers made for it, since few large steps make a small file. It computes with the checker's
own whole numbers and steps (a form as the checker will rebuild it, a point as it will be rounded, whom that fixes), so
that what closes a node here closes it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from solvers.certificates import Certificate
from solvers.certificates.exact.dispersion import FREE, ONE, ZERO, Tangent, decided, fixed, implied
from solvers.certificates.exact.dispersion import Multipliers as Checked
from solvers.certificates.exact.sides import Sides
from solvers.certificates.schema import ENTRIES, MULTIPLIER, POINT
from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import Form, Goal, Order, SideScratch, Workspace
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.dispersion.relaxations.cuts import Cuts
from solvers.dispersion.relaxations.dominance import dominance
from solvers.dispersion.relaxations.doubly_nonnegative import Relaxation, WarmStart
from solvers.dispersion.relaxations.prices import priced_bound
from solvers.dispersion.relaxations.row_products import row_form
from solvers.dispersion.relaxations.semidefinite import Multipliers as SdpMultipliers
from solvers.dispersion.relaxations.semidefinite import most_negative_products, relax
from solvers.dispersion.relaxations.slice_form import SliceForm
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.dispersion.tree.dnn_tree import StoppingRules, tighten_until_fathomed
from solvers.dispersion.tree.record import BITS, Nodes, Record, on_grain
from solvers.dispersion.tree.side_rows import SideRows
from solvers.dispersion.tree.stages import left_by_stages, with_stages
from solvers.solution import OPTIMALITY_GAP

#: Pairs held non-negative, per open client.
_PAIRS = 1

#: How well a node that does not close is solved: better than in a search, since fixing clients costs no multipliers.
_ACCURACY = 0.02

#: What rounding a form for the checker may cost, of the goal.
_SPARE = 1e-9

#: Rounds of separating products at the root, below it, and for a certificate of one node, and pairs per client then.
_ROUNDS_ROOT, _ROUNDS, _ROUNDS_LEAF, _PAIRS_LEAF = 2, 1, 5, 2

#: With more clients one multiplier for all of them serves for a certificate of one node.
_LARGE = 600

#: Seconds that a semidefinite relaxation takes a client cubed, generously.
_RELAXING = 6e-8

#: Share of a form's clients that are still open when it is made anew.
_SHRUNK = 0.5

#: Clients cubed that relaxations may take where no time limit ends a tree: some ten seconds by the figure above, and
#: counted, so that the same seed writes the same certificate. Chosen by hand: a tree that needs more is given up.
MOST_WORK = 1.5e8

#: Steps on a node, at most: a weaker bound costs one more node.
_STEPS = 300

#: Fewest open clients that get multipliers of their own.
_LEAST = 8

#: Rules of its relaxations: the bound is known to be within reach, so that patience at the root saves nodes.
_POLICY = replace(DEFAULT_POLICY, converged=0.0, root_progress=0.005)

#: Part of the value to beat by which it is gone below, for what a tangent after finitely many steps leaves, and steps.
_BEYOND, _STEPS_DNN = 2e-5, 1_000

#: Fewest open clients whose doubly nonnegative relaxation is tried, where the semidefinite one does not close them.
_LEAST_DNN = 16

#: Its iterations that take as long as a semidefinite relaxation. Measured at 50 clients.
_ITERATIONS = 15

#: A goal that nothing reaches: every selection is evaluated.
_NOTHING = -(1 << 61)

_NO_PAIRS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Multipliers:
    """A form over ``ids``, in doubles and as the checker sees it: its number in the record, pairs worth holding.

    ``warm`` is what the doubly nonnegative relaxation of a child starts from, where the multipliers are those of one.
    """

    index: int
    checked: Checked
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

    tangent: Tangent
    point: NDArray[np.int64]
    prices: NDArray[np.int64]


class CertificateTree:
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
        Most numbers written, some bytes each; no more than an array of a certificate may hold.
    most_work : float
        Most clients cubed that relaxations take.
    stages : Certificate, optional
        One of kind ``rlt``, whose multipliers leave out clients before the tree.
    bits : int
        Of the largest number of the problem.
    """

    def __init__(
        self,
        problem: DispersionProblem,
        target: float,
        expired: Callable[[], bool],
        most: int = ENTRIES,
        most_work: float = math.inf,
        stages: Certificate | None = None,
        bits: int = BITS,
    ) -> None:
        self.problem, self.expired, self.most, self.most_work = problem, expired, most, most_work
        n, m = problem.n, problem.size
        pair = np.ascontiguousarray(problem.weight * problem.distances.astype(np.float64))
        order = np.lexsort((np.arange(n), -(2 * (m - 1) / max(n - 2, 1) * pair.sum(axis=1) - problem.costs)))
        self.sides = Sides(problem)
        self.record = Record(problem, order, self.sides, bits)
        self.data = self.record.data
        self.unit = float(self.data.unit)
        self.goal = math.floor((target - float(self.data.error) - 4 * problem.rounding) / self.unit)
        self.accuracy = 0.1 * OPTIMALITY_GAP * min(max(1.0, abs(target)), problem.scale)
        self.rows, self.factors = _row_products(self.sides)
        self.start, self.stages = self.sides.start.copy(), stages
        if stages is not None:
            self.start[np.delete(np.arange(n), left_by_stages(stages, self.data, self.goal))] = ZERO
        self.prices = None if self.sides.is_empty else NodePrices(problem, self.sides)
        has_pairs = self.sides.is_empty and stages is None
        pairs = dominance(pair, -problem.costs, m).pairs if has_pairs else _NO_PAIRS
        self.dominated = _certain(problem, pairs)
        self.nodes: list[Nodes] = []
        self.charges: list[NDArray[np.int64]] = []  # prices of the rows at each node
        self.written = 0
        self.work = 0.0

    def tree(self) -> bool:
        """Write a tree that proves the target; False where it was given up."""
        return self._visit(-1, self.start.copy(), None, None, ())

    def root(self, seconds: float = math.inf) -> float:
        """Write one node, the best tangent that so many seconds allow, and return its bound.

        One multiplier for all is found at once; those of the semidefinite relaxation, cut short, would be worse.
        """
        state = self.sides.start.copy()
        forms = [self._shifted()]
        if self.problem.n <= _LARGE and seconds > _RELAXING * self.problem.n**3:
            forms.append(self._multipliers(state, None, _ROUNDS_LEAF, _PAIRS_LEAF, closing=False))
        found = [self._tangent(state, form, form.point) for form in forms]
        bounds = [each.tangent.order(state, self.problem.size)[0] for each in found]
        best = bounds.index(min(bounds))
        self.goal = -(-min(bounds) // POINT**2)
        self._write(-1, -1, forms[best], found[best])
        return float(self.goal * self.data.unit + self.data.error)

    def contradiction(self) -> bool:
        """Write a tree whose nodes rows close, alone or together at prices; False where it was given up."""
        form = self._shifted()
        return self._close(-1, self.sides.start.copy(), form, on_grain(form.point, self.problem.size, POINT))

    def _close(self, origin: int, state: NDArray[np.int8], form: Multipliers, point: NDArray[np.int64]) -> bool:
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
        self.goal, m = _NOTHING, self.problem.size
        for client in range(self.problem.n - 1 if m < self.problem.n else 0):
            # Where one alone is chosen, the side without whom was branched on is open; else that with.
            self._write(-1 if client == 0 else 2 * (client - 1) + (m > 1), client)

    def certificate(self, bound: float) -> Certificate:
        """Return what was written as a certificate that claims ``bound``."""
        prices = np.array(self.charges) if len(self.sides.limits) and self.charges else None
        found = self.record.certificate(bound, self.goal, POINT, self.nodes, prices=prices)
        return found if self.stages is None else with_stages(found, self.stages)

    # -- the tree ------------------------------------------------------------------------------------------------

    def _visit(
        self,
        origin: int,
        state: NDArray[np.int8],
        form: Multipliers | None,
        y: NDArray[np.float64] | None,
        above: tuple[Tangent, ...],
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
            form = self._multipliers(state, form, _ROUNDS if form is not None else _ROUNDS_ROOT)
            found = self._tangent(state, form, form.point)
            if found.prices.any() and not found.tangent.closes(state, size, self.goal):
                form = self._multipliers(state, form)  # for the prices that are known now
                found = self._tangent(state, form, form.point)
        tangent = found.tangent
        left = fixed(tangent, state, size, self.goal)
        if left is not None and not self.sides.is_empty:
            left = self.sides.consequences(left)
        if left is None or not implied(left, form.checked.better) or decided(self.data, left) is not None:
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

    def _lasts(self, form: Multipliers, state: NDArray[np.int8]) -> bool:
        """Whether what is open here is not so much less than where its form was made that it gets one of its own."""
        free, left = int((state == FREE).sum()), self.problem.size - int((state == ONE).sum())
        is_smaller = free < form.ids.size if form.warm is not None else free <= _SHRUNK * form.ids.size
        return not (free >= _LEAST and 2 <= left <= free - 2 and is_smaller)

    def _branching(self, state: NDArray[np.int8], form: Multipliers, y: NDArray[np.float64]) -> int:
        """The client whose share is farthest from 0 and 1, by its curvature."""
        free, means = np.flatnonzero(state == FREE), form.matrix.mean(axis=0)
        weight = np.zeros(self.problem.n)
        weight[form.ids] = np.maximum(2 * means - means.mean() - form.matrix.diagonal(), 1e-12)
        return int(free[(weight[free] * np.minimum(y[free], 1 - y[free])).argmax()])

    def _write(self, origin: int, client: int, form: Multipliers | None = None, found: _Node | None = None) -> None:
        points = np.zeros((1, 0), dtype=np.int64) if found is None else found.point[None]
        self.nodes.append((-1 if form is None else form.index, np.array([origin]), np.array([client]), points))
        self.charges.append(np.zeros(len(self.sides.limits), np.int64) if found is None else found.prices)
        self.written += 2 + points.size

    # -- bounds --------------------------------------------------------------------------------------------------

    def _tangent(self, state: NDArray[np.int8], form: Multipliers, y: NDArray[np.float64]) -> _Node:
        """The best tangent of a form at a node that is found from ``y``."""
        kept = form.checked.form
        free, chosen = np.flatnonzero(state[kept.ids] == FREE), np.flatnonzero(state[kept.ids] == ONE)
        left = kept.open - chosen.size
        slope = form.linear[free] + 2 * form.matrix[chosen][:, free].sum(axis=0)
        constant = kept.constant + float(form.linear[chosen].sum() + form.matrix[np.ix_(chosen, chosen)].sum())
        inner = _project(y[kept.ids[free]], left)
        if self.prices is not None:
            scale = 2.0**-BITS
            matrix = np.ascontiguousarray(form.matrix[np.ix_(free, free)]) * scale
            places = kept.ids[free], np.flatnonzero(state == ONE)
            known = (self.goal - constant) * scale
            inner = self.prices.climb(matrix, slope * scale, left, inner, places, known, scale)
            full = np.zeros(kept.ids.size)
            full[chosen], full[free] = 1.0, inner
            point = on_grain(full, kept.open, POINT)
            tangent = form.checked.tangent(point, state)
            return _Node(tangent.charged(*self.sides.charge(self.prices.row)), point, self.prices.row.copy())
        _bound_point(
            form.matrix[np.ix_(free, free)],
            slope,
            inner,
            left,
            (constant, float(self.goal), float(self.goal), _ACCURACY),
            _STEPS if form.warm is None else _STEPS_DNN,
        )
        full = np.zeros(kept.ids.size)
        full[chosen], full[free] = 1.0, inner
        point = on_grain(full, kept.open, POINT)
        return _Node(form.checked.tangent(point, state), point, np.zeros(0, dtype=np.int64))

    def _multipliers(
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
        if self.prices is not None:
            paid, each = self.sides.charge(self.prices.row)
            linear = linear - each[ids].astype(np.float64) * scale
            constant += float(paid - int(each[ones].sum())) * scale
        linear, constant = linear - np.median(linear), constant + m * float(np.median(linear))
        place = np.full(self.problem.n, -1)
        place[ids] = np.arange(n)
        equal = place[self.dominated]
        equal = equal[(equal >= 0).all(axis=1)][: 3 * n]
        pairs = _NO_PAIRS if parent is None else place[parent.ids[parent.pairs]]
        pairs = pairs[(pairs >= 0).all(axis=1)][: most * n]
        known = (self.goal - _SPARE * abs(self.goal)) * scale - constant
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
        if closing and found.bound > known and n >= _LEAST_DNN and not self.expired():
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
    ) -> Multipliers:
        """Multipliers of all products and of cuts, which a tree of few nodes needs: as a node of `DNNTree` has them."""
        n, m = ids.size, self.problem.size - ones.size
        scale = 0.5 / (self.problem.size - 1)  # gains are about 1 then, as the method's penalty expects
        back, known = 2.0**BITS * self.unit / scale, (known - _BEYOND * abs(known)) * scale
        relaxation = Relaxation(quadratic * scale, linear * scale, m)
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

        bounds, each = [relaxation.bound()], n**3 / _ITERATIONS
        best = [kept(bounds[0])]
        rules = StoppingRules(_POLICY, known, is_root=warm is None)
        tighten_until_fathomed(relaxation, rules, bounds, expired, lambda bound: best.append(kept(bound)))
        self.work += relaxation.iterations * each
        diagonal, products, cuts, weights = best[-1]
        held = np.column_stack([first, second]), products * back
        x = np.zeros(self.problem.n)
        x[ids] = np.clip(relaxation.x, 0.0, 1.0)
        form = self._keep(ones, ids, diagonal * back, held, None, _NO_PAIRS, x, (cuts, weights * back), rows)
        return replace(form, warm=relaxation.warm(ids))

    def _shifted(self) -> Multipliers:
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
    ) -> Multipliers:
        place = np.full(self.problem.n, -1)
        place[ids] = np.arange(ids.size)
        better = place[self.dominated]
        better = better[(better >= 0).all(axis=1)]
        index, form = self.record.form(ones, ids, diagonal, held, dominated, better, cuts, rows)
        self.written += sum(part.size for part in self.record.forms[index])
        checked = Checked(form, ids[better], POINT)
        return Multipliers(index, checked, form.matrix.astype(np.float64), form.linear.astype(np.float64), pairs, x)


class NodePrices:
    """Prices of the rows of side constraints at a node: found by the search's kernel, whole numbers for the checker.

    Attributes
    ----------
    row : (k,) ndarray of int
        The prices that were found last.
    """

    def __init__(self, problem: DispersionProblem, sides: Sides) -> None:
        constraints = problem.constraints
        kept = tuple(row for row in constraints.rows if row.kind != "conflict")
        self.rows = SideRows.of(replace(constraints, rows=kept))
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

    def climb(
        self,
        matrix: NDArray[np.float64],
        slope: NDArray[np.float64],
        left: int,
        y: NDArray[np.float64],
        places: tuple[NDArray[np.int64], NDArray[np.int64]],
        known: float,
        scale: float,
    ) -> NDArray[np.float64]:
        """Return a point that is nearly best under the constraints, from ``y``; its prices are kept."""
        n, sides = slope.size, self.rows.within(*places, max(-2.0 * float(matrix.diagonal().mean()), 1e-12))
        form = Form(matrix, matrix, slope, left, 0.0, np.ones(n))
        node = Workspace.empty(n)
        scratch = SideScratch.empty(n, sides.low.size, sides.limits.size)
        node.state[:] = FREE
        kernel, start = load("constrained_tree"), np.concatenate([y, np.zeros(sides.limits.size)])
        if not kernel.consistent(sides, Order.empty(n), left, node, scratch):
            self.row[:] = 0
            return y
        node.state[:] = FREE
        kernel.look(form, Order.empty(n), sides, start, Goal(known, 0.0, _ACCURACY, 0), node, scratch, 0)
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


def _project(y: NDArray[np.float64], left: int) -> NDArray[np.float64]:
    """Move the parent's point onto the slice ``1ᵀy = left``."""
    total = float(y.sum())
    return y * (left / total) if total > left else y + (1.0 - y) * ((left - total) / (y.size - total))


def _bound_point(
    curved: NDArray[np.float64],
    slope: NDArray[np.float64],
    y: NDArray[np.float64],
    left: int,
    known: tuple[float, float, float, float],
    most_steps: int,
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
        last = stuck or steps >= most_steps or not most - np.where(y > 0.0, g, np.inf).min() > 1e-12
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
