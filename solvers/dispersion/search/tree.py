"""The open sub-problems of branch and bound, each with the multipliers that serve it best."""

from __future__ import annotations

import heapq
import itertools
import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.dispersion.kernels import load
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.attainable import Attainable
from solvers.dispersion.relaxations.dominance import Dominance, dominance
from solvers.dispersion.relaxations.semidefinite import Multipliers, relax
from solvers.dispersion.relaxations.slice_form import Normal, apply
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.dispersion.search.block import Block, inherited, on_slice, violated
from solvers.dispersion.search.journal import Journal
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.nodes import Goal, Log, Node, Stack
from solvers.dispersion.search.work import Work, relaxation
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Tree"]

#: Updates of gradient entries between two looks at the clock: some 0.1 s.
_WORK = 15_000_000

#: Updates that Python makes at a time where nothing is compiled yet, and the steps that it needs for each.
_INTERPRETED, _STEPS = 20_000, 20

#: Seconds that a relaxation takes, in units of n³: it is left out where the clock does not allow it.
_RELAX = 1.2e-8

#: More of the time than this is not risked on a relaxation of the whole problem.
SHARE = 0.25

#: How well a node is solved that cannot be dropped; see `nodes.Goal`.
_ACCURACY = 0.2

#: Up to this many clients the semidefinite relaxation takes a fraction of a second and comes first.
_SMALL = 300

Reals = NDArray[np.float64]
Clients = NDArray[np.int64]

_NO_PAIRS: Clients = np.zeros((0, 2), dtype=np.int64)


class Tree:
    """The open sub-problems, in the units of `Normal`, best bound first."""

    def __init__(self, problem: DispersionProblem, run: Run, cuts: float, memory: Memory | None = None) -> None:
        self.problem, self.run, self.cuts, self.memory = problem, run, cuts, memory
        self.normal = Normal.of(problem)
        self.attainable = Attainable(self.normal)
        self.open: list[tuple[float, int, Block, NDArray[np.int8], NDArray[np.float64], int]] = []
        self.count = itertools.count()
        self.incumbent = -math.inf
        self.work, self.left = Work(), 0  # what was done; how many were open after the first spell
        self.journal: Journal | None = None
        self.look()
        if run.recording and (journal := Journal(problem, self.normal, self.tolerance)).alive:
            self.journal = journal
        run.nodes = 0

    @cached_property
    def order(self) -> Dominance:
        """Dominance among all clients; the strong tree asks for it as well."""
        normal, everyone = self.normal, np.arange(self.problem.n)
        return self._ordered(normal.quadratic, normal.linear, normal.size, everyone, everyone[:0])

    @property
    def remembered(self) -> bool:
        """Whether an earlier problem's multipliers serve this one."""
        return self.memory is not None and self.memory.diagonal(self.problem) is not None

    @property
    def small(self) -> bool:
        """Whether clients are so few that a relaxation of the whole problem comes first, if there is time for it."""
        return self.problem.n <= (_SMALL // 2 if self.remembered else _SMALL)

    def start(self, relax: bool = True) -> None:
        """Bound the root."""
        n = self.problem.n
        root = self._block(np.arange(n), np.zeros(0, dtype=np.int64), None, small=relax and self.small)
        bound = root.form.tangent(root.x) + root.constant
        self.run.tighten(self.certified(bound))
        if not self._closed(bound, root, -1):
            self._push(bound, root, np.zeros(n, dtype=np.int8), root.x, -1)
        self.report()

    def advance(self) -> None:
        """Work on the most promising open problem for a while."""
        bound, _, block, state, point, origin = heapq.heappop(self.open)
        bound = -bound
        fresh = self._multipliers(block, state)
        if fresh is not None:
            block, state, point = fresh, np.zeros(fresh.ids.size, dtype=np.int8), fresh.x
            origin = origin if fresh.ids.size < self.problem.n else -1
            bound = min(bound, block.form.tangent(point) + block.constant)
            if self._closed(bound, block, origin):
                self.report()
                return
        n = block.ids.size
        stack = Stack.room(n)
        stack.states[0], stack.points[0] = state, point
        stack.bounds[0], stack.origins[0] = bound - block.constant, origin
        best = np.zeros(n, dtype=np.int8)
        known = self.incumbent - block.constant
        left = self._explore(block, stack, known, best)
        if best.any():
            x = np.zeros(self.problem.n, dtype=np.int64)
            x[block.ones] = 1
            x[block.ids[best == 1]] = 1
            self.run.offer(x)
            self.look()
        for k in range(left):
            state, point, origin = stack.states[k].copy(), stack.points[k].copy(), int(stack.origins[k])
            self._push(stack.bounds[k] + block.constant, block, state, point, origin)
        self.left = self.left or (0 if self._pending(block) else len(self.open))
        self.report()

    def _explore(self, block: Block, stack: Stack, known: float, best: NDArray[np.int8]) -> int:
        """Search below the one node on the stack; how many are left. ``best`` if a better selection was found."""
        budget = int(min(_WORK, 1e5 + 1e8 * self.run.remaining))
        if self._pending(block) and (due := self.work.lacking(self._cost(block, block.ids))) > 0:
            budget = min(budget, due)
        log, off = Log.room(0, block.ids.size), 0.0
        if self.journal is not None:
            log, off = self.journal.log(block.ids.size), self.journal.margin
        tolerance, room = self.tolerance - off, Node.room(block.ids.size)
        done, left, full = 0, 1, log.origins.size
        while left and done < budget and not best.any() and not (full and log.used[0] == full):
            # Compiled, it is a single call; otherwise Python has the tree in hand for short spells.
            tree = load("tree", self.run, steps=_STEPS * _INTERPRETED)
            some = budget - done if tree.compiled else min(_INTERPRETED, budget - done)
            goal = Goal(known + off, tolerance, _ACCURACY, some)
            nodes, work, left, _ = tree.explore(*block.parts(), stack, left, goal, best, room, log)
            done += work
            self.run.nodes += nodes
        if self.journal is not None:
            self.journal.keep(block.number, log)
        self.work.nodes += done
        return left

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
        self._least = problem.tolerance_at(run.objective, 0.5 * OPTIMALITY_GAP)  # type: ignore[arg-type]
        self.tolerance = self.settled = self._least * self.normal.factor
        step = self.attainable.above(self.incumbent) - self.incumbent
        if run.recording:  # the reader finds the next value by itself, and not to the last bit
            step = min(step, self.normal.value(problem.trivial_bound()) - self.incumbent)
            step -= 3 * self.attainable.error + 1e-9 * problem.scale * self.normal.factor
        if step > self.tolerance:
            self.tolerance = step * (1 - 1e-12)
            self.settled = 3 * self.attainable.error

    def _push(self, bound: float, block: Block, state: NDArray[np.int8], point: Reals, origin: int) -> None:
        if bound > self.incumbent + self.tolerance:
            heapq.heappush(self.open, (-bound, next(self.count), block, state, point, origin))

    def _closed(self, bound: float, block: Block, origin: int) -> bool:
        """Whether a block needs no search; that its own tangent closes it is written down."""
        enough = self.incumbent + self.tolerance
        if bound <= enough and self.journal is not None:
            here = block.form.tangent(block.x) + block.constant
            self.journal.closed(block.number, origin, block.x if here <= enough else None)
        return bound <= enough

    def proof(self) -> Certificate | None:
        """The search as a certificate, where it is over and was written down."""
        if self.open or self.journal is None:
            return None
        claim = None
        if self.settled < self.tolerance:  # what is attainable says more than the search
            claim = max(self.run.bound, self.run.objective + self._least)  # type: ignore[operator,type-var]
        return self.journal.certificate(self.incumbent + self.tolerance, self.run.objective, claim)  # type: ignore[arg-type]

    def affordable(self, n: int, share: float = 1.0) -> bool:
        """Whether a relaxation over n clients takes at most this share of the time."""
        return _RELAX * n**3 < share * self.run.remaining

    def _multipliers(self, block: Block, state: NDArray[np.int8]) -> Block | None:
        """New multipliers for an open problem of ``block``; ``None`` when it goes on with those it has."""
        free = np.flatnonzero(state == 0)
        cost = self._cost(block, block.ids[free])
        if self._pending(block) and (whole := self._cost(block, block.ids)) <= (len(self.open) + 1) * cost:
            if self.work.lacking(whole) > 0:
                return None
            # One relaxation of the whole problem lowers every bound: everything starts again from it.
            self.open.clear()
            self.left = 0
            if self.journal is not None:
                self.journal.restart()
            return self._block(block.ids, block.ones, block, small=True)
        left = block.form.size - int((state == 1).sum())
        worth = free.size >= 12 and 2 <= left <= free.size - 2 and (free.size < block.ids.size or len(block.pairs) > 0)
        if not worth or self.work.lacking(cost) > 0 or not self.affordable(free.size):
            return None
        return self._block(block.ids[free], np.concatenate([block.ones, block.ids[state == 1]]), block, small=True)

    def _pending(self, block: Block) -> bool:
        """Whether the whole problem can have better multipliers than these; at first it has one shift for all."""
        n = block.ids.size
        return not block.final and n == self.problem.n and self.affordable(n, 1.0 if self.small else SHARE)

    def _cost(self, block: Block, ids: Clients) -> int:
        """What a relaxation of these clients of a block counts as."""
        return relaxation(ids.size, len(inherited(block, ids, self.problem.n, self.cuts)))

    def _ordered(self, q: Reals, linear: Reals, m: int, ids: Clients, ones: Clients) -> Dominance:
        """Dominance among ``ids`` beside ``ones``; if this is written down, what exact arithmetic says as well."""
        order = dominance(q, linear, m, run=self.run)
        return order if self.journal is None else self.journal.certain(order, ids, ones)

    def _block(self, ids: Clients, ones: Clients, parent: Block | None, *, small: bool) -> Block:
        normal, run = self.normal, self.run
        n, m = ids.size, normal.size - ones.size
        q = np.ascontiguousarray(normal.quadratic[np.ix_(ids, ids)])
        linear = normal.linear[ids] + 2 * normal.quadratic[np.ix_(ids, ones)].sum(axis=1)
        constant = float(normal.linear[ones].sum() + normal.quadratic[np.ix_(ones, ones)].sum())
        order = self.order if n == self.problem.n else self._ordered(q, linear, m, ids, ones)
        x, further, pairs, number = np.full(n, m / n), _NO_PAIRS, _NO_PAIRS, -1
        if small and self.affordable(n):
            pairs = inherited(parent, ids, self.problem.n, self.cuts)
            near, low = self.tolerance / 2, self.incumbent - constant
            found = relax(q, linear, m, nonnegative=pairs, tolerance=near, incumbent=low, stop_below=low, run=run)
            self.work.relaxations += relaxation(n, len(pairs))
            x, further = found.x, violated(found, pairs, int(self.cuts * n))
            if self.memory is not None and n == self.problem.n and len(pairs) == 0:
                self.memory.keep(self.problem, None, found.diagonal / normal.factor)
        else:
            known = self.memory.diagonal(self.problem) if self.memory is not None and parent is None else None
            if known is None:
                enough = 1e-5 * m * float(q.max())
                known = np.full(n, (top_eigenvalue(q, enough) + enough) / normal.factor)
            found = Multipliers.of(known * normal.factor, x)
        if self.journal is None:
            form = apply(q, linear, m, found, _NO_PAIRS, pairs)
        else:
            form, constant, number = self.journal.form(ids, ones, found, order, _NO_PAIRS, pairs)
        x = on_slice(x, m, 0.0 if self.journal is None else self.journal.grain)
        return Block(ids, ones, constant, form, order, x, further, small, number, len(pairs) > 0)
