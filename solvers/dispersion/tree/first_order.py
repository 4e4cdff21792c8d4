"""First-order branch and bound: thousands of cheap nodes, each bounded by tangents of one concave form.

See docs/mathematics/dispersion.md, *Concave where it counts* for the bound and *Search: two trees* for the tree, with a
table of symbols. In the units of `Normal` the objective is sᵀQs + pᵀs over the hypersimplex 1ᵀs = m, s binary.

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

import heapq
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import FREE, ONE, Form, Goal, Log, Order, Stack, Workspace
from solvers.dispersion.memory import Memory
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.attainable import Attainable
from solvers.dispersion.relaxations.dominance import Dominance, dominance
from solvers.dispersion.relaxations.semidefinite import NO_ROWS, relax
from solvers.dispersion.relaxations.slice_form import Multipliers, Normal, SliceForm, apply
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.dispersion.tree.journal import Journal
from solvers.feasible_set import Hypersimplex
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["EffortBudget", "FirstOrderTree", "Subproblem", "inherited_pairs", "violated_pairs"]

Reals = NDArray[np.float64]
Clients = NDArray[np.int64]

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
        Their value, in the units of `Normal`.
    form : SliceForm
        The objective over the free clients, made concave on the slice by this subproblem's multipliers.
    order : Dominance
        Pairs of free clients of which one is always as good.
    x : (k,) ndarray
        A point of the slice at which to take the first tangent.
    pairs : (p, 2) ndarray of int
        Products to hold non-negative in the next relaxation, in positions of ``ids``.
    relaxed : bool
        Whether the multipliers are a relaxation's, and not one shift for all clients.
    number : int
        The form's number in the search log; -1 where nothing is written down.
    has_active_products : bool
        Whether the last relaxation held products non-negative.
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

    @property
    def is_final(self) -> bool:
        """Whether its multipliers are as good as they become: its pairs are held non-negative, or there are none."""
        return self.relaxed and (self.has_active_products or not len(self.pairs))

    def tangent_bound(self) -> float:
        """Upper bound on its selections by the tangent at ``x``."""
        return self.form.tangent(self.x) + self.constant

    def kernel_data(self) -> tuple[Form, Order]:
        """Arguments of the kernels: the form with branching weights, and dominance as adjacency lists."""
        form, order, means = self.form, self.order, self.form.curved.mean(axis=0)
        importance = np.maximum(2 * means - means.mean() - form.curved.diagonal(), 1e-12)
        return (
            Form(form.curved, form.exact, form.linear, form.size, form.margin, importance),
            Order(order.above_start, order.above, order.below_start, order.below),
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
    room = most - len(kept)
    if room <= 0:
        return kept
    upper = np.column_stack(np.triu_indices(len(found.products), 1))
    values = found.products[upper[:, 0], upper[:, 1]]
    chosen = np.argsort(values, kind="stable")[:room]
    chosen = chosen[values[chosen] < -1e-5]
    known = {(int(i), int(j)) for i, j in kept}
    fresh = [pair for pair in upper[chosen].tolist() if tuple(pair) not in known]
    return np.concatenate([kept, np.array(fresh, dtype=np.int64).reshape(-1, 2)])


@dataclass
class EffortBudget:
    """Budget that balances node processing against re-optimising the multipliers.

    A relaxation lowers the bounds of what is open, and whether nodes would have done without it is not known
    beforehand. As long as ``relaxations <= ratio · nodes``, a search never takes much longer than one without
    relaxations.
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
    """A node on the queue, which is ordered by ``key``, the negative bound, and then by age.

    ``state`` says of each free client of the subproblem whether it is FREE, ONE or ZERO; ``point`` is near the slice
    and where the next tangent is taken; ``origin`` names the node above and the side of its branching, for the search
    log.
    """

    key: float
    age: int
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
        Clock and incumbent; it has a decision.
    cuts : float
        Products held non-negative per free client, at most.
    memory : Memory, optional
        Warm starts from earlier rounds.
    policy : Policy
        Tuning constants.

    Attributes
    ----------
    incumbent : float
        Value of the best selection, in the units of `Normal`, like all that follows.
    prune_tolerance : float
        A node is fathomed where its bound is at most ``incumbent + prune_tolerance``.
    fathom_margin : float
        No selection below fathomed nodes exceeds ``incumbent + fathom_margin``. It is smaller than ``prune_tolerance``
        where only few values are attainable and the next one lies beyond that.
    open_after_first_spell : int
        How many nodes the first spell left open; 0 before.
    """

    def __init__(
        self,
        problem: DispersionProblem,
        run: Run,
        cuts: float,
        memory: Memory | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        self.problem, self.run, self.cuts, self.memory, self.policy = problem, run, cuts, memory, policy
        self.normal = Normal.of(problem)
        self.attainable = Attainable(self.normal)
        self.open: list[OpenNode] = []
        self.ages = itertools.count()
        self.incumbent = -math.inf
        self.work = EffortBudget(policy.relaxation_ratio)
        self.open_after_first_spell = 0
        self.journal: Journal | None = None
        self.refresh_incumbent()
        if run.recording and (journal := Journal(problem, self.normal, self.prune_tolerance)).alive:
            self.journal = journal
        run.nodes = 0

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def bound(self) -> float:
        """Upper bound on every selection, in the units of `Normal`."""
        fathomed = self.incumbent + self.fathom_margin
        return max(fathomed, -self.open[0].key) if self.open else fathomed

    def certified(self, value: float) -> float:
        """Turn a bound in these units into one on the problem's objective that covers rounding."""
        return self.normal.certified(value)

    def report(self) -> None:
        """Hand the tree's bound to the run."""
        if math.isfinite(self.incumbent):
            self.run.tighten(self.certified(self.bound))

    def refresh_incumbent(self) -> None:
        """Take over the run's incumbent, and derive what it takes to beat it.

        Where only few objective values exist, the least one above the incumbent is a step away: whatever is bounded
        below it is no better than the incumbent. Otherwise it is enough to be within half of the gap that counts as
        optimal.
        """
        run, problem = self.run, self.problem
        self.incumbent = self.normal.value(run.objective)  # type: ignore[arg-type]  # a start is always offered
        self.optimality_tolerance = problem.tolerance_at(run.objective, 0.5 * OPTIMALITY_GAP)  # type: ignore[arg-type]
        self.prune_tolerance = self.fathom_margin = self.optimality_tolerance * self.normal.factor
        step = self.attainable.above(self.incumbent) - self.incumbent
        if run.recording:  # the checker finds the next value by itself, and not to the last bit
            step = min(step, self.normal.value(problem.trivial_bound()) - self.incumbent)
            step -= 3 * self.attainable.error + 1e-9 * problem.scale * self.normal.factor
        if step > self.prune_tolerance:
            self.prune_tolerance = step * (1 - 1e-12)  # strictly below the next value, whatever rounding does
            self.fathom_margin = 3 * self.attainable.error

    @cached_property
    def order(self) -> Dominance:
        """Dominance among all clients; the DNN tree asks for it as well."""
        normal, everyone = self.normal, np.arange(self.problem.n)
        return self._ordered(normal.quadratic, normal.linear, normal.size, everyone, everyone[:0])

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
        if self.open or self.journal is None:
            return None
        run, claim = self.run, None
        if self.fathom_margin < self.prune_tolerance:  # what is attainable says more than the search
            claim = max(run.bound, run.objective + self.optimality_tolerance)  # type: ignore[operator,type-var]
        level = self.incumbent + self.prune_tolerance
        return self.journal.certificate(level, run.objective, claim)  # type: ignore[arg-type]

    # -- search --------------------------------------------------------------------------------------------------------

    def start(self, relax: bool = True) -> None:
        """Bound the root, and open it where that does not fathom it."""
        n = self.problem.n
        root = self._subproblem(np.arange(n), np.zeros(0, dtype=np.int64), None, relax=relax and self.is_small)
        bound = root.tangent_bound()
        self.run.tighten(self.certified(bound))
        if not self._is_fathomed(bound, root, _NO_ORIGIN):
            self._push(bound, root, np.zeros(n, dtype=np.int8), root.x, _NO_ORIGIN)
        self.report()

    def advance(self) -> None:
        """Search below the most promising open node for a spell."""
        key, _, subproblem, state, point, origin = heapq.heappop(self.open)
        bound = -key
        fresh = self._reoptimised(subproblem, state)
        if fresh is not None:
            subproblem, state, point = fresh, np.zeros(fresh.ids.size, dtype=np.int8), fresh.x
            origin = origin if fresh.ids.size < self.problem.n else _NO_ORIGIN
            bound = min(bound, subproblem.tangent_bound())
            if self._is_fathomed(bound, subproblem, origin):
                self.report()
                return
        n = subproblem.ids.size
        stack = self._stack(n)
        stack.states[0], stack.points[0] = state, point
        stack.bounds[0], stack.origins[0] = bound - subproblem.constant, origin
        best = np.zeros(n, dtype=np.int8)
        left = self._explore(subproblem, stack, self.incumbent - subproblem.constant, best)
        if best.any():
            x = np.zeros(self.problem.n, dtype=np.int64)
            x[subproblem.ones] = 1
            x[subproblem.ids[best == 1]] = 1
            self._offer(x)
            self.refresh_incumbent()
        for k in range(left):
            state, point, origin = stack.states[k].copy(), stack.points[k].copy(), int(stack.origins[k])
            self._push(stack.bounds[k] + subproblem.constant, subproblem, state, point, origin)
        if not self.open_after_first_spell and not self._root_can_improve(subproblem):
            self.open_after_first_spell = len(self.open)
        self.report()

    def _stack(self, n: int) -> Stack:
        return Stack.empty(n)

    def _offer(self, x: NDArray[np.int64]) -> None:
        self.run.offer(x)

    def _spell(self, subproblem: Subproblem) -> int:
        """Work until the next look at the queue and at the clock; less where better multipliers of the root are due."""
        spell = int(min(self.policy.spell, 1e5 + 1e8 * self.run.remaining))
        due = 0
        if self._root_can_improve(subproblem):
            due = self.work.deficit(self._relaxation_work(subproblem, subproblem.ids))
        return min(spell, due) if due > 0 else spell

    def _explore(self, subproblem: Subproblem, stack: Stack, known: float, best: NDArray[np.int8]) -> int:
        """Search below the one node on the stack for a spell; write a better selection to ``best``.

        Returns how many nodes are left on the stack.
        """
        policy, n = self.policy, subproblem.ids.size
        budget = self._spell(subproblem)
        log, off = Log.empty(0, n), 0.0
        if self.journal is not None:
            log, off = self.journal.log(n), self.journal.margin
        tolerance, workspace = self.prune_tolerance - off, Workspace.empty(n)
        done, left, full = 0, 1, log.origins.size
        while left and done < budget and not best.any() and not (full and log.used[0] == full):
            # Compiled, it is a single call; otherwise Python has the tree in hand for short spells.
            tree = load("tree", self.run, steps=policy.interpreted_steps * policy.interpreted_spell)
            some = budget - done if tree.compiled else min(policy.interpreted_spell, budget - done)
            goal = Goal(known + off, tolerance, policy.node_accuracy, some)
            nodes, work, left, _ = tree.explore(*subproblem.kernel_data(), stack, left, goal, best, workspace, log)
            done += work
            self.run.nodes += nodes
        if self.journal is not None:
            self.journal.keep(subproblem.number, log)
        self.work.nodes += done
        return left

    def _push(self, bound: float, subproblem: Subproblem, state: NDArray[np.int8], point: Reals, origin: int) -> None:
        if bound > self.incumbent + self.prune_tolerance:
            heapq.heappush(self.open, OpenNode(-bound, next(self.ages), subproblem, state, point, origin))

    def _is_fathomed(self, bound: float, subproblem: Subproblem, origin: int) -> bool:
        """Whether a subproblem needs no search; that its own tangent fathoms it is written down."""
        enough = self.incumbent + self.prune_tolerance
        if bound <= enough and self.journal is not None:
            is_by_tangent = subproblem.tangent_bound() <= enough
            self.journal.closed(subproblem.number, origin, subproblem.x if is_by_tangent else None)
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
                if self.journal is not None:
                    self.journal.restart()
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
        return not subproblem.is_final and n == self.problem.n and self.is_affordable(n, share)

    def _relaxation_work(self, parent: Subproblem, ids: Clients) -> int:
        """Work that a relaxation of these clients of a subproblem counts as."""
        products = len(inherited_pairs(parent, ids, self.problem.n, self.cuts))
        return self.policy.relaxation_work(ids.size, products)

    def _ordered(self, q: Reals, linear: Reals, m: int, ids: Clients, ones: Clients) -> Dominance:
        """Dominance among ``ids`` beside ``ones``; where it is written down, as far as exact arithmetic agrees."""
        order = dominance(q, linear, m, run=self.run)
        return order if self.journal is None else self.journal.certain(order, ids, ones)

    def _subproblem(self, ids: Clients, ones: Clients, parent: Subproblem | None, *, relax: bool) -> Subproblem:
        """Restrict the problem to ``ids`` beside ``ones``, with a relaxation's multipliers or one shift for all."""
        n, m = ids.size, self.normal.size - ones.size
        q, linear, constant = self.normal.restricted(ids, ones)
        order = self.order if n == self.problem.n else self._ordered(q, linear, m, ids, ones)
        pairs, further, number = _NO_PAIRS, _NO_PAIRS, -1
        if relax and self.is_affordable(n):
            pairs = inherited_pairs(parent, ids, self.problem.n, self.cuts)
            found = self._relaxed(q, linear, m, pairs, self.incumbent - constant)
            further = violated_pairs(found, pairs, int(self.cuts * n))
            if self.memory is not None and n == self.problem.n and len(pairs) == 0:
                self.memory.keep(self.problem, None, found.diagonal / self.normal.factor)
        else:
            found = self._shifted(q, m, parent)
        if self.journal is None:
            form = apply(q, linear, m, found, _NO_PAIRS, pairs)
        else:
            form, constant, number = self.journal.form(ids, ones, found, order, _NO_PAIRS, pairs)
        x = Hypersimplex(found.x.size, m).project(found.x, 0.0 if self.journal is None else self.journal.grain)
        return Subproblem(ids, ones, constant, form, order, x, further, relax, number, len(pairs) > 0)

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
        n, factor = len(q), self.normal.factor
        known = self.memory.diagonal(self.problem) if self.memory is not None and parent is None else None
        if known is None:
            slack = 1e-5 * m * float(q.max())
            known = np.full(n, (top_eigenvalue(q, slack) + slack) / factor)
        return Multipliers.of(known * factor, np.full(n, m / n))
