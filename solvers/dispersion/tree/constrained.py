r"""First-order branch and bound under side constraints: quotas, budgets, conflicts.

See docs/mathematics/constraints.md. The tree is `solvers.dispersion.tree.first_order`'s; its nodes
are those of `solvers.dispersion.kernels.constrained_tree`. Constraints enter in one of three ways (`SideRows`):

* included and excluded clients are fixed at the root, and the search goes on over the others;
* disjoint groups, quotas first, then conflicts: the linear maximum over them is exact;
* every other row has a multiplier λ ≥ 0, of an augmented Lagrangian at each node. Conflicts that are in no group are
  kept by branching alone.

The semidefinite relaxation of the root, and of nodes that earn one, holds products of rows
(`solvers.dispersion.relaxations.row_products`), and the concave form has their multipliers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.constraints import Constraints
from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import FREE, ONE, Form, Goal, Order, Sides, SideScratch, Stack, Workspace
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.prices import priced_bound
from solvers.dispersion.relaxations.row_products import row_charges, row_form, row_products
from solvers.dispersion.relaxations.semidefinite import relax
from solvers.dispersion.relaxations.slice_form import SliceForm, apply
from solvers.dispersion.tree.first_order import (
    Clients,
    FirstOrderTree,
    Reals,
    Subproblem,
    inherited_pairs,
    violated_pairs,
)
from solvers.solution import OPTIMALITY_GAP

__all__ = ["ConstrainedSubproblem", "ConstrainedTree", "SideRows"]

_EPS = float(np.finfo(np.float64).eps)
_NO_PAIRS: Clients = np.zeros((0, 2), dtype=np.int64)

#: Penalty of the augmented Lagrangian, in units of the form's curvature over the row's squared coefficients.
#: Where the form is hardly curved, in units of the spread of the linear term.
_PENALTY, _LINEAR = 1.0, 0.05


@dataclass(frozen=True)
class SideRows:
    """Constraints of a problem as the kernel reads them, over all its clients.

    Attributes
    ----------
    size : int
        Clients to choose.
    group : (n,) ndarray of int
        Group of each client; the last group has no quota.
    low, high : (g,) ndarray of int
        Quotas of the groups.
    rows, limits : (k, n) and (k,) ndarray
        Rows ``a s <= b``, scaled by a power of two so that no coefficient exceeds 1; b is raised by what rounding can
        hide.
    scale : (k,) ndarray
        What each row was multiplied by.
    signs : (k,) ndarray
        1 for the upper limit of a constraint, -1 for its lower one.
    names, group_names : tuple of str
        Of the constraint that each row, and each group, states.
    conflicts : (n, n) ndarray of bool or None
        Pairs of which at most one is chosen.
    """

    size: int
    group: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    rows: NDArray[np.float64]
    limits: NDArray[np.float64]
    scale: NDArray[np.float64]
    signs: NDArray[np.float64]
    names: tuple[str, ...]
    group_names: tuple[str, ...]
    conflicts: NDArray[np.bool_] | None

    @classmethod
    def of(cls, constraints: Constraints) -> SideRows:
        """Sort the rows of a problem's constraints into groups, rows with multipliers, and conflicts."""
        n, m = constraints.n, constraints.size
        group = np.full(n, -1, dtype=np.int64)
        low, high, group_names = list[int](), list[int](), list[str]()
        rows, limits = list[NDArray[np.float64]](), list[float]()
        signs, names = list[float](), list[str]()
        conflicts = None
        by_size = sorted(constraints.rows, key=lambda row: (row.kind != "quota", -row.places.size))
        for row in by_size:
            if row.kind == "conflict":
                conflicts = np.zeros((n, n), dtype=bool) if conflicts is None else conflicts
                conflicts[np.ix_(row.places, row.places)] = True
            if row.kind != "budget" and (group[row.places] == -1).all():
                group[row.places] = len(low)
                low.append(max(int(row.low), 0) if math.isfinite(row.low) else 0)
                high.append(min(int(row.high), m) if math.isfinite(row.high) else m)
                group_names.append(row.name)
            elif row.kind != "conflict":
                dense = row.dense(n)
                for sign, limit in ((1.0, row.high), (-1.0, -row.low)):
                    if math.isfinite(limit) and float(np.sort(sign * dense)[-m:].sum()) > limit:
                        rows.append(sign * dense)
                        limits.append(limit)
                        signs.append(sign)
                        names.append(row.name)
        group[group == -1] = len(low)
        if conflicts is not None:
            np.fill_diagonal(conflicts, False)
        table = np.array(rows).reshape(len(rows), n)
        largest = np.abs(table).max(axis=1, initial=0.0)
        scale = np.ldexp(1.0, -np.frexp(np.where(largest > 0, largest, 1.0))[1])
        table, bound = table * scale[:, None], np.array(limits) * scale
        bound = bound + 8 * (n + 8) * _EPS * (m + np.abs(bound))
        least, most = np.array([*low, 0], dtype=np.int64), np.array([*high, m], dtype=np.int64)
        return cls(
            m, group, least, most, table, bound, scale, np.array(signs), tuple(names), tuple(group_names), conflicts
        )

    def within(self, ids: Clients, ones: Clients, penalty: float = 1.0) -> Sides:
        """Return the kernel's data over ``ids`` beside ``ones``, with a penalty for rows of unit coefficients."""
        taken = np.bincount(self.group[ones], minlength=self.low.size)
        rows = np.ascontiguousarray(self.rows[:, ids])
        limits = self.limits - self.rows[:, ones].sum(axis=1)
        square = (rows**2).mean(axis=1) if ids.size else np.ones(len(rows))
        if self.conflicts is None:
            start, conflict = np.zeros(ids.size + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        else:
            first, conflict = np.nonzero(self.conflicts[np.ix_(ids, ids)])
            start = np.searchsorted(first, np.arange(ids.size + 1)).astype(np.int64)
        return Sides(
            self.group[ids],
            np.maximum(self.low - taken, 0),
            self.high - taken,
            rows,
            limits,
            np.abs(rows).max(axis=1, initial=0.0),
            penalty / np.maximum(square, 1e-3),
            np.argsort(rows, axis=1, kind="stable").astype(np.int64).reshape(rows.shape),
            start,
            conflict.astype(np.int64),
        )

    def exchangeable(self, pairs: Clients) -> NDArray[np.bool_]:
        """Say of pairs (i, j) whether i may take the place of j in every feasible selection that lacks i."""
        i, j = pairs.T
        fine = (self.group[i] == self.group[j]) & (self.rows[:, i] <= self.rows[:, j]).all(axis=0)
        if self.conflicts is not None:
            more = self.conflicts[i] & ~self.conflicts[j]
            more[np.arange(i.size), j] = False
            fine &= ~more.any(axis=1)
        return np.asarray(fine)


@dataclass
class ConstrainedSubproblem(Subproblem):
    """Subproblem with the constraints over its free clients.

    ``x`` has the shares of the clients and behind them the rows' multipliers; ``value`` is the bound there, -inf where
    the constraints leave nothing.
    """

    sides: Sides = field(kw_only=True)
    value: float = math.inf

    def tangent_bound(self) -> float:
        """Upper bound on its selections, as found with its multipliers."""
        return self.value


class ConstrainedTree(FirstOrderTree):
    """Queue of open nodes under side constraints.

    It takes what a `FirstOrderTree` takes, and a run that may have no incumbent.

    Attributes
    ----------
    root : ConstrainedSubproblem or None
        The best root so far: its multipliers are what constraints cost.
    """

    root: ConstrainedSubproblem | None = None

    @property
    def constraints(self) -> Constraints:
        """The problem's side constraints."""
        return self.problem.constraints

    @cached_property
    def rows(self) -> SideRows:
        """The constraints as the kernel reads them."""
        return SideRows.of(self.constraints)

    # -- what is known -------------------------------------------------------------------------------------------------

    def refresh_incumbent(self) -> None:
        """Take over the run's incumbent; with none, no selection is worse than what is looked for."""
        if self.run.objective is None:
            self.incumbent, self.prune_tolerance, self.fathom_margin = -math.inf, 0.0, 0.0
            self.optimality_tolerance = 0.5 * OPTIMALITY_GAP
        else:
            super().refresh_incumbent()

    def certified(self, value: float) -> float:
        """As without constraints, and what the costs' common part can take: for one client ``rounding`` is zero.

        Costs less that part are off by 2⁻⁵² of the dearest client each, and so are the translation back and its terms.
        """
        dearest = float(np.abs(self.problem.costs).max())
        return super().certified(value) + 8 * _EPS * self.problem.size * dearest

    def report(self) -> None:
        """Hand the tree's bound to the run; that there is no selection, where nothing is open and none was found."""
        if math.isfinite(self.bound):
            self.run.tighten(self.certified(self.bound))
        elif not self.open and self.run.objective is None:
            self.run.infeasible()

    @cached_property
    def order(self) -> Dominance:
        """Dominance among clients of which one may take the other's place."""
        normal, everyone = self.normal, np.arange(self.problem.n)
        return self._ordered(normal.quadratic, normal.linear, normal.size, everyone, everyone[:0])

    def _ordered(self, q: Reals, linear: Reals, m: int, ids: Clients, ones: Clients) -> Dominance:
        found = super()._ordered(q, linear, m, ids, ones)
        if not len(found.pairs):
            return found
        fine = self.rows.exchangeable(ids[found.pairs])
        return Dominance.of(found.pairs[fine], found.certain[fine], ids.size)

    def is_contradictory(self) -> bool:
        """Whether the constraints alone show that there is no selection."""
        states = self.constraints.states
        ids, ones = np.flatnonzero(states == FREE), np.flatnonzero(states == ONE)
        sides = self.rows.within(ids, ones)
        node, scratch = self._workspace(sides, ids.size)
        node.state[:] = FREE
        kernel = load("constrained_tree", self.run, steps=1e3 * ids.size)
        return not kernel.consistent(sides, self.rows.size - ones.size, node, scratch)

    # -- search --------------------------------------------------------------------------------------------------------

    def start(self, relax: bool = True) -> None:
        """Bound the root over the clients that are neither included nor excluded, and open it."""
        self.journal = None  # dominance and reduced costs are others here
        self.open.clear()
        states = self.constraints.states
        ids, ones = np.flatnonzero(states == FREE), np.flatnonzero(states == ONE)
        if not ids.size:  # include and exclude leave one selection, or none
            x = self.problem.feasible.decision(ones)
            if self.problem.violation(x) == 0:
                self.run.offer(x)
                self.refresh_incumbent()
            self.report()
            return
        root = self._subproblem(ids, ones, None, relax=relax and self.is_small)
        bound = root.tangent_bound()
        if math.isfinite(bound):
            self.run.tighten(self.certified(bound))
        if not self._is_fathomed(bound, root, -1):
            self._push(bound, root, np.zeros(ids.size, dtype=np.int8), root.x, -1)
        self.report()

    def improve_root(self) -> bool:
        """Bound the root by a relaxation, or by one with further products; False where there is none in time."""
        root = self.root
        if root is None or root.is_final or not self.is_affordable(root.ids.size):
            return False
        fresh = self._subproblem(root.ids, root.ones, root, relax=True)
        self.run.tighten(self.certified(fresh.tangent_bound()))
        return fresh.relaxed

    def _push(self, bound: float, subproblem: Subproblem, state: NDArray[np.int8], point: Reals, origin: int) -> None:
        if bound > -math.inf:
            super()._push(bound, subproblem, state, point, origin)

    def _offer(self, x: NDArray[np.int64]) -> None:
        if self.problem.violation(x) == 0:
            self.run.offer(x)

    def _stack(self, n: int) -> Stack:
        return Stack(
            np.zeros((n + 5, n), dtype=np.int8),
            np.zeros((n + 5, n + len(self.rows.limits))),
            np.zeros(n + 5),
            np.zeros(n + 5, dtype=np.int64),
        )

    def _explore(self, subproblem: Subproblem, stack: Stack, known: float, best: NDArray[np.int8]) -> int:
        assert isinstance(subproblem, ConstrainedSubproblem)
        policy, n = self.policy, subproblem.ids.size
        budget = self._spell(subproblem)
        node, scratch = self._workspace(subproblem.sides, n)
        done, left = 0, 1
        while left and done < budget and not best.any():
            kernel = load("constrained_tree", self.run, steps=policy.interpreted_steps * policy.interpreted_spell)
            some = budget - done if kernel.compiled else min(policy.interpreted_spell, budget - done)
            goal = Goal(known, self.prune_tolerance, policy.node_accuracy, some)
            form, order = subproblem.kernel_data()
            nodes, work, left, _ = kernel.explore(form, order, subproblem.sides, stack, left, goal, best, node, scratch)
            done += work
            self.run.nodes = int(self.run.nodes or 0) + nodes
        self.work.nodes += done
        return left

    def _workspace(self, sides: Sides, n: int) -> tuple[Workspace, SideScratch]:
        return Workspace.empty(n), SideScratch.empty(n, sides.low.size, sides.limits.size)

    # -- multipliers ---------------------------------------------------------------------------------------------------

    def _reoptimised(self, subproblem: Subproblem, state: NDArray[np.int8]) -> Subproblem | None:
        assert isinstance(subproblem, ConstrainedSubproblem)
        return super()._reoptimised(subproblem, state)

    def _root_can_improve(self, subproblem: Subproblem) -> bool:
        whole = int((self.constraints.states == FREE).sum())
        share = 1.0 if self.is_small else self.policy.root_time_share
        n = subproblem.ids.size
        return not subproblem.is_final and n == whole and self.is_affordable(n, share)

    def _subproblem(self, ids: Clients, ones: Clients, parent: Subproblem | None, *, relax: bool) -> Subproblem:
        """Restrict the problem to ``ids`` beside ``ones``, with multipliers of the rows' products, and bound it."""
        n, m = ids.size, self.normal.size - ones.size
        q, linear, constant = self.normal.restricted(ids, ones)
        order = self._ordered(q, linear, m, ids, ones)
        sides = self.rows.within(ids, ones)
        relaxes = relax and 2 <= m <= n - 2 and self.is_affordable(n)
        pairs, further, off = _NO_PAIRS, _NO_PAIRS, 0.0
        x = self._first_point(ids, m, n, parent)
        if relaxes:
            pairs = inherited_pairs(parent, ids, self.problem.n, self.cuts)
            factors = row_products(sides, m)
            known = -2.0 if self.run.objective is None else self.incumbent  # values are below 1
            found = self._relaxed(q, linear, m, pairs, known - constant, factors)
            further, x[:n] = violated_pairs(found, pairs, int(self.cuts * n)), found.x
            raised, off = row_form(factors, found.rows, m)
            q = q + raised
        else:
            found = self._shifted(q, m, parent)
        form = apply(q, linear, m, found, _NO_PAIRS, pairs)
        form = replace(form, margin=form.margin + off)
        sides = _penalised(sides, form, linear)
        fresh = ConstrainedSubproblem(
            ids, ones, constant, form, order, x, further, relaxes, has_active_products=len(pairs) > 0, sides=sides
        )
        self._solve(fresh)
        if parent is None or (self.root is not None and fresh.value < self.root.value and n == self.root.ids.size):
            self.root = fresh
        return fresh

    def _first_point(self, ids: Clients, m: int, n: int, parent: Subproblem | None) -> Reals:
        """Shares m/n, and the parent's multipliers."""
        count = self.rows.limits.size
        mu = np.zeros(count) if parent is None else parent.x[parent.ids.size :]
        return np.concatenate([np.full(n, m / max(n, 1)), mu])

    def _solve(self, subproblem: ConstrainedSubproblem) -> None:
        """Bound a subproblem by its form; its point becomes the one that was found.

        A bound below the incumbent needs no better one.
        """
        n, sides = subproblem.ids.size, subproblem.sides
        node, scratch = self._workspace(sides, n)
        node.state[:] = FREE
        goal = Goal(self.incumbent - subproblem.constant, self.prune_tolerance, 0.02, 0)
        if self.run.objective is None:
            goal = Goal(-100.0, 0.0, 1e-5, 0)
        kernel = load("constrained_tree", self.run, steps=2e4 * n)
        form, order = subproblem.kernel_data()
        value, free = kernel.look(form, order, sides, subproblem.x, goal, node, scratch, 1)
        subproblem.value = value + subproblem.constant
        if free:
            shares = np.where(node.state != FREE, (node.state == ONE).astype(np.float64), node.y)
            subproblem.x = np.concatenate([shares, scratch.price])

    def prices(self) -> tuple[dict[str, float], float] | None:
        """Return a price for each constraint, and the bound that they are multipliers of; None without a choice.

        In the units of the objective. What the rows' products charge at the root goes into the linear term of a
        relaxation without them, since a bound with products is no linear function of the limits.
        """
        states = self.constraints.states
        ids, ones = np.flatnonzero(states == FREE), np.flatnonzero(states == ONE)
        n, m = ids.size, self.normal.size - ones.size
        if not 0 < m < n:
            return None
        q, linear, constant = self.normal.restricted(ids, ones)
        sides = self.rows.within(ids, ones)
        start, near = np.zeros(sides.limits.size), 1e-6
        if self.is_small and 2 <= m <= n - 2:
            factors = row_products(sides, m)
            found = relax(q, linear, m, rows=factors, tolerance=near)
            charges = row_charges(factors, found.rows, found.x)
            start = np.maximum(charges[charges.size - start.size :], 0.0)
            found = relax(q, linear - charges @ factors[1, :, 1:], m, tolerance=near)
        else:
            found = self._shifted(q, m, None)
        form = apply(q, linear, m, found, _NO_PAIRS, _NO_PAIRS)
        sides = _penalised(sides, form, linear)
        priced = priced_bound(form, sides, *self._multipliers(form, sides, np.concatenate([found.x, start])))
        prices = dict.fromkeys((row.name for row in self.constraints.rows), 0.0)
        each = [self.rows.signs * priced.rows * self.rows.scale, priced.groups[: len(self.rows.group_names)]]
        for name, price in zip((*self.rows.names, *self.rows.group_names), np.concatenate(each).tolist(), strict=True):
            prices[name] += price / self.normal.factor
        return prices, self.certified(priced.value + constant)

    def _multipliers(self, form: SliceForm, sides: Sides, x: Reals) -> tuple[Reals, Reals]:
        """Return point and multipliers of rows that are best for a form alone, whatever the constraints fix."""
        n = form.linear.size
        node, scratch = self._workspace(sides, n)
        node.state[:] = FREE
        kernel, none = load("constrained_tree", self.run, steps=2e4 * n), np.zeros(0, dtype=np.int64)
        start = np.zeros(n + 1, dtype=np.int64)
        data = Form(form.curved, form.exact, form.linear, form.size, form.margin, np.ones(n))
        goal = Goal(-100.0, 0.0, 1e-7, 0)
        kernel.look(data, Order(start, none, start, none), sides, x, goal, node, scratch, 0)
        return node.y.copy(), scratch.price.copy()


def _penalised(sides: Sides, form: SliceForm, linear: Reals) -> Sides:
    """Return constraints with the penalties of the augmented Lagrangian of a form."""
    curvature = -2.0 * float(form.curved.diagonal().mean())
    penalty = max(_PENALTY * curvature, _LINEAR * float(np.ptp(linear)), 1e-12)
    return sides._replace(penalty=penalty * sides.penalty)
