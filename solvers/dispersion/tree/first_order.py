"""First-order branch and bound: thousands of cheap nodes, each bounded by tangents of one concave form.

See docs/mathematics/dispersion.md, *Concave where it counts* for the bound, and docs/mathematics/dispersion_search.md,
*Search: two trees* for the tree, with a table of symbols. In the units of `ScaledProblem` the objective is sᵀQs + pᵀs
over the hypersimplex 1ᵀs = m, s binary.

**Side constraints** (docs/mathematics/constraints.md) are `solvers.dispersion.tree.side_rows`; nodes keep them by what
`solvers.dispersion.kernels.tree` says. The relaxation of the root, and of nodes that earn one, holds products of rows
(`solvers.dispersion.relaxations.row_products`), and the concave form has their multipliers. There may be no incumbent.

**Invariant of an open node** (`OpenNode`): every selection that is better than the incumbent by more than
``prune_tolerance`` and has not been visited is below exactly one open node, agrees with the node's ``state`` on the
clients that are fixed there, and is worth at most the node's ``bound``. So no selection exceeds max(incumbent +
``fathom_margin``, largest bound of an open node), at any moment.

**Algorithm.** ::

    bound the root by a tangent at m/n; fathom it or open it
    while a node is open:
        node ← the open one with the largest bound
        if it has earned new multipliers (`EffortBudget`):
            whole problem: begin anew from the better root
            else: a subproblem of its own, over its free clients
        search depth first below it, until ``spell`` work is done:       (`solvers.dispersion.kernels`)
            Frank-Wolfe steps on y; bound = f(y) + max {∇f(y)ᵀ(s - y)} = f(y) - ∇f(y)ᵀy + the m largest of ∇f(y)
            fathom where bound <= incumbent + prune_tolerance
            fix by reduced costs and dominance; branch on the most important fractional client
        push what is left on the queue, with its bounds
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import FREE, ONE, Form, Goal, Log, Order, Sides, SideScratch, Stack, Workspace
from solvers.dispersion.memory import Memory
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.attainable import Attainable
from solvers.dispersion.relaxations.dominance import Dominance, dominance
from solvers.dispersion.relaxations.prices import priced_bound
from solvers.dispersion.relaxations.row_products import row_charges, row_form, row_products
from solvers.dispersion.relaxations.semidefinite import NO_ROWS, most_negative_products, relax
from solvers.dispersion.relaxations.slice_form import Multipliers, ScaledProblem, SliceForm, apply
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.dispersion.tree.search_log import SearchLog
from solvers.dispersion.tree.side_rows import SideRows, penalised
from solvers.feasible_set import Hypersimplex
from solvers.run import Run
from solvers.search import BestFirstQueue, NodeOutcome, add_outcomes
from solvers.solution import OPTIMALITY_GAP

__all__ = ["EffortBudget", "FirstOrderTree", "Subproblem", "inherited_pairs", "violated_pairs"]

Reals = NDArray[np.float64]
Clients = NDArray[np.int64]

_EPS = float(np.finfo(np.float64).eps)
_NO_PAIRS: Clients = np.zeros((0, 2), dtype=np.int64)

#: ``origin`` of a root: no node is above it. Otherwise see `solvers.dispersion.kernels.tree_data.Log`.
_NO_ORIGIN = -1


@dataclass
class Subproblem:
    """Clients that are still free beside those fixed to one, and a concave form of the objective over them.

    Attributes
    ----------
    ids : (k,) ndarray of int
        Free clients, in the problem's indices.
    ones : (f,) ndarray of int
        Clients fixed to one.
    constant : float
        Their value, in the units of `ScaledProblem`.
    form : SliceForm
        The objective over the free clients, made concave on the slice by this subproblem's multipliers.
    order : Dominance
        Pairs of free clients of which the first is always at least as good.
    x : (k,) ndarray
        A point of the slice at which to take the first tangent. Under constraints, their rows' multipliers behind it.
    pairs : (p, 2) ndarray of int
        Products to hold non-negative in the next relaxation, in positions of ``ids``.
    relaxed : bool
        Whether the multipliers are a relaxation's, and not one shift for all clients.
    number : int
        The form's number in the search log; -1 where nothing is written down.
    has_active_products : bool
        Whether the last relaxation held products non-negative.
    sides : Sides or None
        Constraints over the free clients.
    value : float
        Under constraints, the bound at ``x``; -inf where they leave nothing.
    """

    ids: NDArray[np.int64]
    ones: NDArray[np.int64]
    constant: float
    form: SliceForm
    order: Dominance
    x: NDArray[np.float64]
    pairs: NDArray[np.int64]
    relaxed: bool
    number: int = -1
    has_active_products: bool = False
    sides: Sides | None = None
    value: float = math.inf

    @property
    def is_final(self) -> bool:
        """Whether its multipliers are as good as they become: its pairs are held non-negative, or there are none."""
        return self.relaxed and (self.has_active_products or not len(self.pairs))

    def tangent_bound(self) -> float:
        """Upper bound on its selections by the tangent at ``x``."""
        return self.form.tangent(self.x) + self.constant if self.sides is None else self.value

    def kernel_data(self) -> tuple[Form, Order]:
        """Arguments of the kernels: the form with branching weights, and dominance as adjacency lists."""
        form, means = self.form, self.form.curved.mean(axis=0)
        importance = np.maximum(2 * means - means.mean() - form.curved.diagonal(), 1e-12)
        return (
            Form(form.curved, form.exact, form.linear, form.size, form.margin, importance),
            self.order.lists,
        )


def inherited_pairs(parent: Subproblem | None, ids: NDArray[np.int64], n: int, per_client: float) -> NDArray[np.int64]:
    """Return the parent's pairs of clients among ``ids``, in positions of ``ids``; so many per client at most."""
    if parent is None or len(parent.pairs) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    place = np.full(n, -1, dtype=np.int64)
    place[ids] = np.arange(ids.size)
    pairs = place[parent.ids[parent.pairs]]
    return pairs[(pairs >= 0).all(axis=1)][: int(per_client * ids.size)]


def violated_pairs(found: Multipliers, pairs: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Choose pairs for the next relaxation: those with a multiplier now, then the most negative products."""
    kept = pairs[found.nonnegative > 1e-4 * found.nonnegative.max(initial=0)]
    missing = most - len(kept)
    if missing <= 0:
        return kept
    chosen = most_negative_products(found.products, _NO_PAIRS, missing)
    known = {(int(i), int(j)) for i, j in kept}
    fresh = [pair for pair in chosen.tolist() if tuple(pair) not in known]
    return np.concatenate([kept, np.array(fresh, dtype=np.int64).reshape(-1, 2)])


@dataclass
class EffortBudget:
    """Budget that balances node processing against re-optimising the multipliers.

    As long as ``relaxations <= ratio · nodes``, a search takes at most ratio + 1 times the work of its nodes alone.
    """

    ratio: int
    nodes: int = 0
    relaxations: int = 0

    @property
    def total(self) -> int:
        """Work of both."""
        return self.nodes + self.relaxations

    def deficit(self, cost: int) -> int:
        """Work still to be spent on nodes before another relaxation of this cost is due; negative where it is."""
        return int((self.relaxations + cost) / self.ratio) - self.nodes


class OpenNode(NamedTuple):
    """A node on the queue.

    ``state`` says of each free client of the subproblem whether it is FREE, ONE or ZERO; ``point`` is near the slice
    and where the next tangent is taken; ``origin`` names the node above and the side of its branching, for the search
    log.
    """

    subproblem: Subproblem
    state: NDArray[np.int8]
    point: Reals
    origin: int


class FirstOrderTree:
    """Queue of open nodes, best bound first, and the multipliers that bound them.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock and incumbent; it has a decision, unless there are side constraints.
    cuts : float
        Products held non-negative per free client, at most.
    memory : Memory, optional
        Warm starts from earlier rounds.
    policy : Policy
        Tuning constants.

    Attributes
    ----------
    incumbent : float
        Value of the best selection, in the units of `ScaledProblem`, like all that follows.
    prune_tolerance : float
        A node is fathomed where its bound is at most ``incumbent + prune_tolerance``.
    fathom_margin : float
        No selection below fathomed nodes exceeds ``incumbent + fathom_margin``. It is smaller than ``prune_tolerance``
        where only few values are attainable and the next one lies beyond that.
    open_after_first_spell : int
        How many nodes the first spell left open; 0 before.
    root : Subproblem or None
        The best root so far.
    """

    root: Subproblem | None = None

    def __init__(
        self,
        problem: DispersionProblem,
        run: Run,
        cuts: float,
        memory: Memory | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        self.problem, self.run, self.cuts, self.memory, self.policy = problem, run, cuts, memory, policy
        self.scaled = ScaledProblem.of(problem)
        self.rows: SideRows | None = None
        self.ids, self.ones = np.arange(problem.n), np.zeros(0, dtype=np.int64)  # those of the root
        if problem.is_constrained:
            states = problem.constraints.states
            self.rows = SideRows.of(problem.constraints)
            self.ids, self.ones = np.flatnonzero(states == FREE), np.flatnonzero(states == ONE)
        self.attainable = Attainable(self.scaled)
        self.open = BestFirstQueue[OpenNode]()
        self.incumbent = -math.inf
        self.work = EffortBudget(policy.relaxation_ratio)
        self.open_after_first_spell = 0
        self.search_log: SearchLog | None = None
        self.refresh_incumbent()
        if run.recording and self.rows is None:  # under constraints dominance and reduced costs are others
            search_log = SearchLog(problem, self.scaled, self.prune_tolerance, policy)
            self.search_log = search_log if search_log.is_kept else None
        self.nodes, run.nodes = 0, run.nodes or 0

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def bound(self) -> float:
        """Upper bound on every selection, in the units of `ScaledProblem`."""
        return max(self.incumbent + self.fathom_margin, self.open.bound)

    def certified(self, value: float) -> float:
        """Turn a bound in these units into one on the problem's objective that covers rounding.

        Under constraints it covers what the costs' common part can take, too: for one client ``rounding`` is zero.
        Costs less that part are off by at most 2⁻⁵² of the largest cost each; so are the translation back and its
        terms.
        """
        found = self.scaled.certified(value)
        if self.rows is None:
            return found
        return found + 8 * _EPS * self.problem.size * float(np.abs(self.problem.costs).max())

    def report(self) -> None:
        """Hand the tree's bound to the run; that there is no selection, where nothing is open and none was found."""
        if math.isfinite(self.bound):
            self.run.tighten(self.certified(self.bound))
        elif not self.open and self.run.objective is None:
            self.run.infeasible()

    def refresh_incumbent(self) -> None:
        """Take over the run's incumbent, and derive what it takes to beat it.

        Where only few objective values exist, the least one above the incumbent is a step away: whatever is bounded
        below it is no better than the incumbent. Otherwise it is enough to be within half of the gap that counts as
        optimal. Without an incumbent every selection is better.
        """
        run, problem = self.run, self.problem
        if run.objective is None:
            self.incumbent, self.prune_tolerance, self.fathom_margin = -math.inf, 0.0, 0.0
            self.optimality_tolerance = 0.5 * OPTIMALITY_GAP
            return
        self.incumbent = self.scaled.value(run.objective)
        self.optimality_tolerance = problem.tolerance_at(run.objective, 0.5 * OPTIMALITY_GAP)
        self.prune_tolerance = self.fathom_margin = self.optimality_tolerance * self.scaled.factor
        step = self.attainable.above(self.incumbent) - self.incumbent
        if run.recording:  # the checker finds the next value by itself, and not to the last bit
            step = min(step, self.scaled.value(problem.trivial_bound()) - self.incumbent)
            step -= 3 * self.attainable.error + 1e-9 * problem.scale * self.scaled.factor
        if step > self.prune_tolerance:
            self.prune_tolerance = step * (1 - 1e-12)  # strictly below the next value, whatever rounding does
            self.fathom_margin = 3 * self.attainable.error

    @cached_property
    def order(self) -> Dominance:
        """Dominance among all clients, of which one may take the other's place."""
        scaled, everyone = self.scaled, np.arange(self.problem.n)
        return self._ordered(scaled.quadratic, scaled.linear, scaled.size, everyone, everyone[:0])

    @property
    def has_warm_start(self) -> bool:
        """Whether an earlier problem's multipliers serve this one."""
        return self.memory is not None and self.memory.diagonal(self.problem) is not None

    @property
    def is_small(self) -> bool:
        """Whether clients are so few that a relaxation of the whole problem comes first, if there is time for it."""
        most = self.policy.small_problem
        return self.problem.n <= (most // 2 if self.has_warm_start else most)

    def is_affordable(self, n: int, share: float = 1.0) -> bool:
        """Whether a relaxation over n clients takes at most this share of the remaining time."""
        return self.policy.relaxation_seconds * n**3 < share * self.run.remaining

    def certificate(self) -> Certificate | None:
        """Return the search as a certificate, where it is over and was written down."""
        if self.open or self.search_log is None:
            return None
        run, claim = self.run, None
        if self.fathom_margin < self.prune_tolerance:  # what is attainable says more than the search
            claim = max(run.bound, run.objective + self.optimality_tolerance)  # type: ignore[operator,type-var]
        level = self.incumbent + self.prune_tolerance
        return self.search_log.certificate(level, run.objective, claim)  # type: ignore[arg-type]

    # -- search --------------------------------------------------------------------------------------------------------

    def start(self, relax: bool = True) -> None:
        """Bound the root over the clients that constraints leave free, and open it where that does not fathom it."""
        self.open.clear()
        if not self.ids.size:  # include and exclude leave one selection, or none
            self._offer(self.problem.feasible.decision(self.ones))
            self.refresh_incumbent()
            self.report()
            return
        root = self._subproblem(self.ids, self.ones, None, relax=relax and self.is_small)
        bound = root.tangent_bound()
        self.run.tighten(self.certified(bound))
        if not self._is_fathomed(bound, root, _NO_ORIGIN):
            self._push(bound, root, np.zeros(self.ids.size, dtype=np.int8), root.x, _NO_ORIGIN)
        self.report()

    def improve_root(self) -> bool:
        """Bound the root by a relaxation, or by one with further products; False where there is none, or no time."""
        root = self.root
        if root is None or root.is_final or not self.is_affordable(root.ids.size):
            return False
        fresh = self._subproblem(root.ids, root.ones, root, relax=True)
        self.run.tighten(self.certified(fresh.tangent_bound()))
        return fresh.relaxed

    def is_contradictory(self) -> bool:
        """Whether the constraints alone show that there is no selection."""
        if self.rows is None:
            return False
        n, size = self.ids.size, self.rows.size - self.ones.size
        sides = self.rows.within(self.ids, self.ones)
        node, scratch = self._workspace(sides, n)
        kernel = load("constrained_tree", self.run, steps=1e3 * n)
        return not kernel.consistent(sides, Order.empty(n), size, node, scratch)

    def advance(self) -> None:
        """Search below the most promising open node for a spell."""
        bound, (subproblem, state, point, origin) = self.open.pop()
        fresh = self._reoptimised(subproblem, state)
        if fresh is not None:
            subproblem, state, point = fresh, np.zeros(fresh.ids.size, dtype=np.int8), fresh.x
            origin = origin if fresh.ids.size < self.problem.n else _NO_ORIGIN
            bound = min(bound, subproblem.tangent_bound())
            if self._is_fathomed(bound, subproblem, origin):
                self.report()
                return
        n = subproblem.ids.size
        stack = Stack.empty(n, 0 if self.rows is None else len(self.rows.limits))
        stack.states[0], stack.points[0] = state, point
        stack.bounds[0], stack.origins[0] = bound - subproblem.constant, origin
        best = np.zeros(n, dtype=np.int8)
        left = self._explore(subproblem, stack, self.incumbent - subproblem.constant, best)
        if best.any():
            self._take(subproblem, best)
        for k in range(left):
            state, point, origin = stack.states[k].copy(), stack.points[k].copy(), int(stack.origins[k])
            self._push(stack.bounds[k] + subproblem.constant, subproblem, state, point, origin)
        if not self.open_after_first_spell and not self._root_can_improve(subproblem):
            self.open_after_first_spell = len(self.open)
        self.report()

    def _take(self, subproblem: Subproblem, best: NDArray[np.int8]) -> None:
        """Offer a selection of a subproblem."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        x[subproblem.ones] = 1
        x[subproblem.ids[best == 1]] = 1
        self._offer(x)
        self.refresh_incumbent()

    def _offer(self, x: NDArray[np.int64]) -> None:
        """Offer a selection; the kernel knows constraints to within rounding only."""
        if self.rows is None or self.problem.violation(x) == 0:
            self.run.offer(x)

    @staticmethod
    def _workspace(sides: Sides | None, n: int) -> tuple[Workspace, SideScratch | None]:
        node = Workspace.empty(n)
        node.state[:] = FREE
        return node, None if sides is None else SideScratch.empty(n, sides.low.size, sides.limits.size)

    def _spell(self, subproblem: Subproblem) -> int:
        """Work until the next look at the queue and at the clock; less where better multipliers of the root are due."""
        spell = int(min(self.policy.spell, 1e5 + 1e8 * self.run.remaining))
        due = 0
        if self._root_can_improve(subproblem):
            due = self.work.deficit(self._relaxation_work(subproblem, subproblem.ids))
        return min(spell, due) if due > 0 else spell

    def _explore(
        self, subproblem: Subproblem, stack: Stack, known: float, best: NDArray[np.int8], left: int = 1
    ) -> int:
        """Search below the nodes on the stack, one by default, for a spell; write a better selection to ``best``.

        Returns how many nodes are left on the stack.
        """
        policy, n, sides = self.policy, subproblem.ids.size, subproblem.sides
        budget = self._spell(subproblem)
        name = "tree" if sides is None else "constrained_tree"
        log, off = Log.empty(0, n), 0.0
        if self.search_log is not None:
            log, off = self.search_log.buffer(n), self.search_log.margin
        tolerance, (workspace, scratch) = self.prune_tolerance - off, self._workspace(sides, n)
        done, full = 0, log.origins.size
        outcomes = np.zeros(len(NodeOutcome), dtype=np.int64)
        while left and done < budget and not best.any() and not (full and log.used[0] == full):
            # Compiled, it is a single call; otherwise Python has the tree in hand for short spells.
            tree = load(name, self.run, steps=policy.interpreted_steps * policy.interpreted_spell)
            some = budget - done if tree.compiled else min(policy.interpreted_spell, budget - done)
            goal = Goal(known + off, tolerance, policy.node_accuracy, some)
            data = *subproblem.kernel_data(), sides
            nodes, work, left, _ = tree.explore(*data, stack, left, goal, best, workspace, scratch, log, outcomes)
            done += work
            self.run.spend(work)
            self.nodes += nodes
            self.run.nodes += nodes
        if self.search_log is not None:
            self.search_log.add(subproblem.number, log)
        self.work.nodes += done
        add_outcomes(self.run.details, outcomes.tolist())
        return left

    def _push(self, bound: float, subproblem: Subproblem, state: NDArray[np.int8], point: Reals, origin: int) -> None:
        if bound > self.incumbent + self.prune_tolerance:
            self.open.push(bound, OpenNode(subproblem, state, point, origin))

    def _is_fathomed(self, bound: float, subproblem: Subproblem, origin: int) -> bool:
        """Whether a subproblem needs no search; where its own tangent fathoms it, that is written to the log."""
        enough = self.incumbent + self.prune_tolerance
        if bound <= enough and self.search_log is not None:
            is_by_tangent = subproblem.tangent_bound() <= enough
            self.search_log.add_fathomed(subproblem.number, origin, subproblem.x if is_by_tangent else None)
        return bound <= enough

    # -- multipliers ---------------------------------------------------------------------------------------------------

    def _reoptimised(self, subproblem: Subproblem, state: NDArray[np.int8]) -> Subproblem | None:
        """Give an open node multipliers of its own where it has earned them; ``None`` when it keeps those it has.

        A relaxation of the whole problem lowers every bound at once. It comes first where it costs less than one for
        each open node would; the search then begins anew from the better root.
        """
        free = np.flatnonzero(state == FREE)
        cost = self._relaxation_work(subproblem, subproblem.ids[free])
        if self._root_can_improve(subproblem):
            whole = self._relaxation_work(subproblem, subproblem.ids)
            if whole <= (len(self.open) + 1) * cost:
                if self.work.deficit(whole) > 0:
                    return None
                self.open.clear()
                self.open_after_first_spell = 0
                if self.search_log is not None:
                    self.search_log.restart()
                return self._subproblem(subproblem.ids, subproblem.ones, subproblem, relax=True)
        left = subproblem.form.size - int((state == ONE).sum())
        is_new = free.size < subproblem.ids.size or len(subproblem.pairs) > 0
        is_worth_it = free.size >= self.policy.fewest_relaxed and 2 <= left <= free.size - 2 and is_new
        if not is_worth_it or self.work.deficit(cost) > 0 or not self.is_affordable(free.size):
            return None
        ones = np.concatenate([subproblem.ones, subproblem.ids[state == ONE]])
        return self._subproblem(subproblem.ids[free], ones, subproblem, relax=True)

    def _root_can_improve(self, subproblem: Subproblem) -> bool:
        """Whether the whole problem can have better multipliers than these; at first it has one shift for all."""
        n = subproblem.ids.size
        share = 1.0 if self.is_small else self.policy.root_time_share
        return not subproblem.is_final and n == self.ids.size and self.is_affordable(n, share)

    def _relaxation_work(self, parent: Subproblem, ids: Clients) -> int:
        """Work that a relaxation of these clients of a subproblem counts as."""
        products = len(inherited_pairs(parent, ids, self.problem.n, self.cuts))
        return self.policy.relaxation_work(ids.size, products)

    def _ordered(self, q: Reals, linear: Reals, m: int, ids: Clients, ones: Clients) -> Dominance:
        """Dominance among ``ids`` beside ``ones``, as far as constraints allow an exchange.

        Where it goes to the search log, as far as exact arithmetic agrees.
        """
        order = dominance(q, linear, m, run=self.run)
        if self.rows is not None and len(order.pairs):
            fine = self.rows.exchangeable(ids[order.pairs])
            order = Dominance.of(order.pairs[fine], order.certain[fine], ids.size)
        return order if self.search_log is None else self.search_log.certain(order, ids, ones)

    def _subproblem(self, ids: Clients, ones: Clients, parent: Subproblem | None, *, relax: bool) -> Subproblem:
        """Restrict the problem to ``ids`` beside ``ones``, with a relaxation's multipliers or one shift for all."""
        n, m = ids.size, self.scaled.size - ones.size
        q, linear, constant = self.scaled.restricted(ids, ones)
        order = self.order if n == self.problem.n else self._ordered(q, linear, m, ids, ones)
        sides = None if self.rows is None else self.rows.within(ids, ones)
        pairs, further, number, off = _NO_PAIRS, _NO_PAIRS, -1, 0.0
        relaxes = relax and self.is_affordable(n) and (sides is None or 2 <= m <= n - 2)
        if relaxes:
            pairs = inherited_pairs(parent, ids, self.problem.n, self.cuts)
            factors = NO_ROWS if sides is None else row_products(sides, m)
            known = -2.0 if self.run.objective is None else self.incumbent  # gains are about 1
            found = self._relaxed(q, linear, m, pairs, known - constant, factors)
            further = violated_pairs(found, pairs, int(self.cuts * n))
            if self.memory is not None and n == self.problem.n and len(pairs) == 0:
                self.memory.keep(self.problem, None, found.diagonal / self.scaled.factor)
            if sides is not None:
                raised, off = row_form(factors, found.rows, m)
                q = q + raised
        else:
            found = self._shifted(q, m, parent)
        if self.search_log is None:
            form = apply(q, linear, m, found, _NO_PAIRS, pairs)
        else:
            form, constant, number = self.search_log.form(ids, ones, found, order, _NO_PAIRS, pairs)
        x = found.x
        if sides is None:
            x = Hypersimplex(n, m).project(x, 0.0 if self.search_log is None else self.search_log.grain)
        else:
            form = replace(form, margin=form.margin + off)
            sides = penalised(sides, form, linear)
            mu = np.zeros(sides.limits.size) if parent is None else parent.x[parent.ids.size :]
            x = np.concatenate([x, mu])
        fresh = Subproblem(ids, ones, constant, form, order, x, further, relaxes, number, len(pairs) > 0, sides)
        if sides is not None:
            self._solve(fresh)
        if parent is None or (self.root is not None and fresh.value < self.root.value and n == self.ids.size):
            self.root = fresh
        return fresh

    def _solve(self, subproblem: Subproblem) -> None:
        """Bound a subproblem by its form under constraints; its point becomes the one that was found.

        Steps end as soon as the bound is below the incumbent.
        """
        goal = Goal(self.incumbent - subproblem.constant, self.prune_tolerance, 0.02, 0)
        if self.run.objective is None:
            goal = Goal(-100.0, 0.0, 1e-5, 0)
        n, (node, scratch) = subproblem.ids.size, self._workspace(subproblem.sides, subproblem.ids.size)
        kernel = load("constrained_tree", self.run, steps=2e4 * n)
        form, order = subproblem.kernel_data()
        value, free = kernel.evaluate(form, order, subproblem.sides, subproblem.x, goal, node, scratch, 1)
        subproblem.value = value + subproblem.constant
        if free:
            assert scratch is not None
            shares = np.where(node.state != FREE, (node.state == ONE).astype(np.float64), node.y)
            subproblem.x = np.concatenate([shares, scratch.price])

    def _relaxed(
        self, q: Reals, linear: Reals, m: int, pairs: Clients, incumbent: float, rows: Reals = NO_ROWS
    ) -> Multipliers:
        """Solve the semidefinite relaxation with these products held non-negative, as far as the incumbent needs it."""
        near, low = self.prune_tolerance / 2, incumbent
        found = relax(
            q, linear, m, nonnegative=pairs, rows=rows, tolerance=near, incumbent=low, stop_below=low, run=self.run
        )
        self.work.relaxations += self.policy.relaxation_work(len(q), len(pairs) + rows.shape[1])
        return found

    def _shifted(self, q: Reals, m: int, parent: Subproblem | None) -> Multipliers:
        """One shift for all clients, which needs an eigenvalue only, or an earlier round's diagonal."""
        n, factor = len(q), self.scaled.factor
        known = self.memory.diagonal(self.problem) if self.memory is not None and parent is None else None
        if known is None:
            slack = 1e-5 * m * float(q.max())
            self.run.spend(self.policy.iteration_work(n))
            known = np.full(n, (top_eigenvalue(q, slack) + slack) / factor)
        return Multipliers.of(known * factor, np.full(n, m / n))

    # -- prices --------------------------------------------------------------------------------------------------------

    def prices(self) -> tuple[dict[str, float], float] | None:
        """Return a price for each constraint, and the bound that they are multipliers of; None without a choice.

        In the units of the objective. What the rows' products charge at the root goes into the linear term of a
        relaxation without them.
        """
        ids, ones = self.ids, self.ones
        assert self.rows is not None
        n, m = ids.size, self.scaled.size - ones.size
        if not 0 < m < n:
            return None
        q, linear, constant = self.scaled.restricted(ids, ones)
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
        sides = penalised(sides, form, linear)
        priced = priced_bound(form, sides, *self._multipliers(form, sides, np.concatenate([found.x, start])))
        prices = dict.fromkeys((row.name for row in self.problem.constraints.rows), 0.0)
        each = [self.rows.signs * priced.rows * self.rows.scale, priced.groups[: len(self.rows.group_names)]]
        for name, price in zip((*self.rows.names, *self.rows.group_names), np.concatenate(each).tolist(), strict=True):
            prices[name] += price / self.scaled.factor
        return prices, self.certified(priced.value + constant)

    def _multipliers(self, form: SliceForm, sides: Sides, x: Reals) -> tuple[Reals, Reals]:
        """Return point and multipliers of rows that are best for a form alone, whatever the constraints fix."""
        n = form.linear.size
        node, scratch = self._workspace(sides, n)
        assert scratch is not None
        kernel = load("constrained_tree", self.run, steps=2e4 * n)
        data = Form(form.curved, form.exact, form.linear, form.size, form.margin, np.ones(n))
        goal = Goal(-100.0, 0.0, 1e-7, 0)
        kernel.evaluate(data, Order.empty(n), sides, x, goal, node, scratch, 0)
        return node.y.copy(), scratch.price.copy()
