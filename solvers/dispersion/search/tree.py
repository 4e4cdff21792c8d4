"""The open sub-problems of branch and bound, each with the multipliers that serve it best."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.attainable import Attainable
from solvers.dispersion.bounds.dominance import Dominance, dominance
from solvers.dispersion.bounds.semidefinite import relax
from solvers.dispersion.bounds.slice_form import Normal, SliceForm, apply
from solvers.dispersion.bounds.uniform_shift import top_eigenvalue
from solvers.dispersion.compiled import give_way, ready, start
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search import plain_tree
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.neighbourhood import ascend
from solvers.dispersion.search.nodes import Form, Goal, Node, Order, Stack
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Tree"]

#: Updates of gradient entries between two looks at the clock: some 0.1 s, about what a relaxation costs; at most
#: so many for each second of the limit.
_WORK, _WORK_SECOND = 30_000_000, 10_000_000

#: What counts as so much work without compilation, and how much of it is done between two looks at the clock.
_PLAIN_WORK, _PLAIN_SPELL = 2_000_000, 200_000

#: Seconds that a relaxation takes, in units of n³: it is left out where the clock does not allow it.
_RELAX = 1.2e-8

#: More of the time than this is not risked on a relaxation of the whole problem.
SHARE = 0.25

#: What a relaxation counts as, in units of n³ updates.
_RELAX_WORK = 3

#: How well a node is solved that cannot be dropped; see `solvers.dispersion.search.nodes.Goal`.
_ACCURACY = 0.2

#: Seconds after which a tree without compilation leaves the compiler half of the time.
_ALONE = 1.0

#: Without compilation, a root whose gap is larger than this gets products held non-negative before any node.
_LOOSE = 0.01

#: Up to this many clients the semidefinite relaxation takes a fraction of a second and comes first.
_SMALL = 300


@dataclass
class Block:
    """A sub-problem with multipliers of its own: ``ids`` are free, ``ones`` fixed and worth ``constant``."""

    ids: NDArray[np.int64]
    ones: NDArray[np.int64]
    constant: float
    form: SliceForm
    importance: NDArray[np.float64]
    order: Dominance
    x: NDArray[np.float64]
    pairs: NDArray[np.int64]
    relaxed: bool
    work: int = 0


class Tree:
    """The open sub-problems, in the units of `Normal`, best bound first."""

    def __init__(self, problem: DispersionProblem, run: Run, cuts: float, memory: Memory | None = None) -> None:
        self.problem, self.run, self.cuts, self.memory = problem, run, cuts, memory
        self.normal = Normal.of(problem)
        self.attainable = Attainable(self.normal)
        self.open: list[tuple[float, int, Block, NDArray[np.int8], NDArray[np.float64]]] = []
        self.count = itertools.count()
        self.incumbent = -math.inf
        self.work = self.left = 0
        self.spell = int(_WORK if run.time_limit is None else min(_WORK, _WORK_SECOND * run.time_limit))
        self.look()
        run.nodes = 0

    @cached_property
    def order(self) -> Dominance:
        """Dominance among all clients; the strong tree asks for it as well, and uncompiled it takes a while."""
        return dominance(self.normal.quadratic, self.normal.linear, self.normal.size)

    @property
    def remembered(self) -> bool:
        """Whether an earlier problem's multipliers serve this one."""
        return self.memory is not None and self.memory.diagonal(self.problem) is not None

    @property
    def small(self) -> bool:
        """Whether clients are so few that a relaxation of the whole problem comes first, if there is time for it."""
        return self.problem.n <= (_SMALL // 2 if self.remembered else _SMALL)

    def start(self, relax: bool = True) -> None:
        """Bound the root; begin to compile where that does not settle the problem and nothing is compiled yet."""
        n = self.problem.n
        root = self._block(np.arange(n), np.zeros(0, dtype=np.int64), None, small=relax and self.small)
        bound = root.form.tangent(root.x) + root.constant
        self.run.tighten(self.certified(bound))
        if ready("tree", self.run) is None:
            self._round(root.x)
            loose = bound - self.incumbent > _LOOSE * abs(self.run.objective) * self.normal.factor  # type: ignore[arg-type]
            if loose and len(root.pairs) and self.affordable(root.ids.size):
                root = self._block(root.ids, root.ones, root, small=True)
                bound = min(bound, root.form.tangent(root.x) + root.constant)
        self._push(bound, root, np.zeros(n, dtype=np.int8), root.x)
        self.report()
        if self.open:
            start("tree")

    def advance(self) -> None:
        """Work on the most promising open problem for a while."""
        bound, _, block, state, point = heapq.heappop(self.open)
        bound = -bound
        fresh = self._multipliers(block, state)
        if fresh is not None:
            block, state, point = fresh, np.zeros(fresh.ids.size, dtype=np.int8), fresh.x
            bound = min(bound, block.form.tangent(point) + block.constant)
        n = block.ids.size
        stack = Stack(np.zeros((n + 5, n), dtype=np.int8), np.zeros((n + 5, n)), np.zeros(n + 5))
        stack.states[0], stack.points[0], stack.bounds[0] = state, point, bound - block.constant
        best = np.zeros(n, dtype=np.int8)
        known = self.incumbent - block.constant
        left, value = self._explore(block, stack, known, best)
        if value > known:
            x = np.zeros(self.problem.n, dtype=np.int64)
            x[block.ones] = 1
            x[block.ids[best == 1]] = 1
            self.run.offer(x)
            self.look()
        for k in range(left):
            self._push(stack.bounds[k] + block.constant, block, stack.states[k].copy(), stack.points[k].copy())
        self.left = self.left or len(self.open)
        self.report()

    def _explore(self, block: Block, stack: Stack, known: float, best: NDArray[np.int8]) -> tuple[int, float]:
        """Search below the one node on the stack, compiled if possible; how many are left, and the best value."""
        began = self.run.seconds
        compiled = ready("tree", self.run)
        if compiled is None:
            explore, cost = plain_tree.explore, _WORK // _PLAIN_WORK
            budget = int(min(_PLAIN_SPELL, 1e4 + 1e6 * self.run.remaining))
        else:
            explore, cost = compiled.explore, 1
            budget = int(min(self.spell, 1e5 + 1e8 * self.run.remaining))
        form, order = block.form, block.order
        nodes, work, left, value = explore(
            Form(form.curved, form.exact, form.linear, form.size, form.margin, block.importance),
            Order(order.above_start, order.above, order.below_start, order.below),
            stack,
            1,
            Goal(known, self.tolerance, _ACCURACY, budget),
            best,
            Node.room(block.ids.size),
        )
        block.work += work * cost
        self.work += work * cost
        if compiled is None and self.run.seconds > _ALONE:
            give_way(min(self.run.seconds - began, self.run.remaining))
        self.run.nodes += nodes  # type: ignore[operator]  # set when the tree was made
        return left, value

    @property
    def bound(self) -> float:
        """What no selection exceeds, in the units of `Normal`."""
        value = self.incumbent + self.settled
        return max(value, -self.open[0][0]) if self.open else value

    def report(self) -> None:
        """Hand the tree's bound to the run."""
        if math.isfinite(self.incumbent):
            self.run.tighten(self.certified(self.bound))

    def certified(self, value: float) -> float:
        """A bound in these units as one on the problem's objective, whatever rounding did."""
        return self.normal.original(value) + 2 * self.problem.rounding

    def look(self) -> None:
        """Take over the run's incumbent, and what it takes to beat it."""
        run, problem = self.run, self.problem
        self.incumbent = self.normal.value(run.objective)  # type: ignore[arg-type]  # a start is always offered
        unit = min(max(1.0, abs(run.objective)), problem.scale)  # type: ignore[arg-type]
        self.tolerance = self.settled = 0.5 * OPTIMALITY_GAP * unit * self.normal.factor
        step = self.attainable.above(self.incumbent) - self.incumbent
        if step > self.tolerance:
            self.tolerance = step * (1 - 1e-12)
            self.settled = 3 * self.attainable.error

    def _round(self, point: NDArray[np.float64]) -> None:
        """Offer the largest entries of a relaxed point, improved by swaps."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        x[np.argsort(-point, kind="stable")[: self.problem.size]] = 1
        self.run.offer(ascend(self.problem, x, self.run))
        self.look()

    def _push(self, bound: float, block: Block, state: NDArray[np.int8], point: NDArray[np.float64]) -> None:
        if bound > self.incumbent + self.tolerance:
            heapq.heappush(self.open, (-bound, next(self.count), block, state, point))

    def affordable(self, n: int, share: float = 1.0) -> bool:
        """Whether a relaxation over n clients takes at most this share of the time."""
        return _RELAX * n**3 < share * self.run.remaining

    def _multipliers(self, block: Block, state: NDArray[np.int8]) -> Block | None:
        """New multipliers for an open problem of ``block``; ``None`` when it goes on with those it has."""
        free = np.flatnonzero(state == 0)
        first = block.ids.size == self.problem.n and not block.relaxed
        if first and block.work >= self.spell and self.affordable(block.ids.size, SHARE):
            # One relaxation of the whole problem lowers every bound: everything starts again from it.
            self.open.clear()
            self.left = 0
            return self._block(block.ids, block.ones, None, small=True)
        if block.work >= self.spell * max(1.0, (free.size / 200) ** 3) or (free.size <= _SMALL and not block.relaxed):
            return self._refresh(block, state, free)
        return None

    def _refresh(self, block: Block, state: NDArray[np.int8], free: NDArray[np.intp]) -> Block | None:
        """Multipliers made for this open problem; ``None`` where they would not pay."""
        left = block.form.size - int((state == 1).sum())
        if free.size < 12 or not 2 <= left <= free.size - 2 or not self.affordable(block.ids.size):
            return None
        if free.size == block.ids.size and block.relaxed and len(block.pairs) == 0:
            return None
        return self._block(block.ids[free], np.concatenate([block.ones, block.ids[state == 1]]), block, small=True)

    def _block(self, ids: NDArray[np.int64], ones: NDArray[np.int64], parent: Block | None, *, small: bool) -> Block:
        normal, run = self.normal, self.run
        n, m = ids.size, normal.size - ones.size
        q = np.ascontiguousarray(normal.quadratic[np.ix_(ids, ids)])
        linear = normal.linear[ids] + 2 * normal.quadratic[np.ix_(ids, ones)].sum(axis=1)
        constant = float(normal.linear[ones].sum() + normal.quadratic[np.ix_(ones, ones)].sum())
        order = self.order if n == self.problem.n else dominance(q, linear, m)
        x, violated = np.full(n, m / n), np.zeros((0, 2), dtype=np.int64)
        if small and self.affordable(n):
            pairs = self._inherited(parent, ids)
            found = relax(
                q,
                linear,
                m,
                nonnegative=pairs,
                tolerance=self.tolerance / 2,
                incumbent=self.incumbent - constant,
                enough=self.incumbent - constant,
                expired=lambda: run.expired,
            )
            self.work += _RELAX_WORK * n**3
            form = apply(q, linear, m, found, np.zeros((0, 2), dtype=np.int64), pairs)
            x, violated = found.x, self._violated(found.products, found.nonnegative, pairs)
            if self.memory is not None and n == self.problem.n and len(pairs) == 0:
                self.memory.keep(self.problem, None, found.diagonal / normal.factor)
        else:
            known = self.memory.diagonal(self.problem) if self.memory is not None and parent is None else None
            if known is None:
                enough = 1e-5 * m * float(q.max())
                known = np.full(n, (top_eigenvalue(q, enough) + enough) / normal.factor)
            form = SliceForm.build(q, linear, m, known * normal.factor)
        means = form.curved.mean(axis=0)
        importance = 2 * means - means.mean() - form.curved.diagonal()
        x = np.clip(x, 0.0, 1.0)
        x = x * (m / x.sum()) if x.sum() > m else x + (1 - x) * ((m - x.sum()) / (n - x.sum()))
        return Block(ids, ones, constant, form, np.maximum(importance, 1e-12), order, x, violated, small)

    def _inherited(self, parent: Block | None, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The parent's pairs (in the problem's indices) that are still free, in this block's indices."""
        if parent is None or len(parent.pairs) == 0:
            return np.zeros((0, 2), dtype=np.int64)
        place = np.full(self.problem.n, -1, dtype=np.int64)
        place[ids] = np.arange(ids.size)
        pairs = place[parent.ids[parent.pairs]]
        return pairs[(pairs >= 0).all(axis=1)][: int(self.cuts * ids.size)]

    def _violated(
        self, products: NDArray[np.float64], multipliers: NDArray[np.float64], pairs: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The pairs for the next relaxations: those at work now, then those most violated."""
        n = len(products)
        kept = pairs[multipliers > 1e-4 * multipliers.max(initial=0)]
        room = int(self.cuts * n) - len(kept)
        if room <= 0:
            return kept
        upper = np.column_stack(np.triu_indices(n, 1))
        values = products[upper[:, 0], upper[:, 1]]
        chosen = np.argsort(values, kind="stable")[:room]
        chosen = chosen[values[chosen] < -1e-5]
        known = {(int(i), int(j)) for i, j in kept}
        fresh = [pair for pair in upper[chosen].tolist() if tuple(pair) not in known]
        return np.concatenate([kept, np.array(fresh, dtype=np.int64).reshape(-1, 2)])
