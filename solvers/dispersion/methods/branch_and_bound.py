"""Method ``branch-and-bound``: our own exact method, over the slice ``1ᵀs = m``."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.attainable import Attainable
from solvers.dispersion.bounds.dominance import Dominance, dominance
from solvers.dispersion.bounds.semidefinite import relax
from solvers.dispersion.bounds.slice_form import Normal, SliceForm, apply
from solvers.dispersion.bounds.uniform_shift import bound_many, top_eigenvalue
from solvers.dispersion.compiled import kernel
from solvers.dispersion.methods.tabu import Search
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.neighbourhood import ascend
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["branch_and_bound"]

#: Updates of gradient entries between two looks at the clock: some 0.1 s, about what a relaxation costs.
_WORK = 20_000_000

#: Tabu moves between two spells of the tree: a few milliseconds.
_BETWEEN = 500

#: Seconds that a relaxation takes, in units of n³: it is left out where the clock does not allow it.
_RELAX = 1.5e-8

#: Up to this many clients the semidefinite relaxation takes a fraction of a second and comes first.
_SMALL = 300


@method(DispersionProblem, "branch-and-bound", kind="exact")
@one_thread
def branch_and_bound(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: float = 3.0,
    moves: int = 3_000,
    largest: int = 2_000,
    memory: Memory | None = None,
) -> None:
    r"""Prove optimality with concave relaxations on the slice and compiled first-order nodes.

    The objective is made concave on :math:`1^\top s = m` by multipliers of the semidefinite relaxation
    (`solvers.dispersion.bounds.semidefinite`), certified in floating point (`solvers.dispersion.bounds.slice_form`).
    A node takes some swaps of weight between clients (pairwise Frank-Wolfe with second-order choice, warm from its
    parent), and any point on the way gives a valid bound: the tangent's m largest entries. Reduced costs and dominance
    fix clients. A depth-first search uses up a fixed amount of work; what it leaves open goes to a queue by bound, and
    an open problem taken from there gets multipliers of its own, with :math:`s_i s_j \ge 0` imposed on the pairs
    that its parent's relaxation violates.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    cuts : float
        Pairs held non-negative per free client, at most; 0 for none.
    moves : int
        Tabu moves made for the incumbent before the tree.
    largest : int
        With more clients only the root bound is computed.
    memory : Memory, optional
        Multipliers and selections of earlier problems over the same clients; this one's are added.

    Raises
    ------
    InvalidOption
        When an option is negative.
    """
    for name, value in (("cuts", cuts), ("moves", moves), ("largest", largest)):
        if not value >= 0:
            raise InvalidOption(f"{name} must not be negative; got {value}")
    if run.bound is None:
        run.tighten(problem.trivial_bound())
    if marginal(problem, run):
        return
    if memory is not None:
        for x in memory.start(problem):
            run.offer(ascend(problem, x, run))
    search = Search.started(problem, run)
    while moves > 0 and not run.expired and (done := search.advance(moves)):
        moves -= done
    try:
        if run.expired or run.proved:
            return
        if problem.n > largest:
            bound_many(problem, run)
            return
        tree = Tree(problem, run, cuts, memory)
        tree.start()
        while tree.open and not run.expired:
            tree.advance()
            if tree.open:
                search.advance(_BETWEEN)
                tree.look()
        tree.report()
    finally:
        if memory is not None:
            memory.keep(problem, run.x)


def marginal(problem: DispersionProblem, run: Run) -> bool:
    """Solve the problem if it chooses one client, all, or all but one; or has nothing to choose by; False if not."""
    n, m = problem.n, problem.size
    if m not in (1, n - 1, n) and problem.scale > 0:
        return False
    x = np.zeros(n, dtype=np.int64)
    if problem.scale == 0:
        x[:m] = 1
    elif m == 1:
        x[problem.costs.argmin()] = 1
    else:
        x[:] = 1
        if m < n:
            reach = problem.distances.sum(axis=1, dtype=np.float64)
            x[(2 * problem.weight * reach - problem.costs).argmin()] = 0
    # One value is known to its rounding; the least of n gains, each a difference, to that of all of them.
    run.tighten(run.offer(x) + (1 if m == n else 2 * n) * problem.rounding)
    return True


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
        self.kernel = kernel("tree", run)
        self.open: list[tuple[float, int, Block, NDArray[np.int8], NDArray[np.float64]]] = []
        self.count = itertools.count()
        self.incumbent = -math.inf
        self.look()
        run.nodes = 0

    def start(self) -> None:
        """Bound the root."""
        if self.kernel is None:
            return
        n = self.problem.n
        known = self.memory is not None and self.memory.diagonal(self.problem) is not None
        small = n <= (_SMALL // 2 if known else _SMALL)
        root = self._block(np.arange(n), np.zeros(0, dtype=np.int64), None, small=small)
        self._push(root.form.tangent(root.x) + root.constant, root, np.zeros(n, dtype=np.int8), root.x)

    def advance(self) -> None:
        """Work on the most promising open problem for a while."""
        bound, _, block, state, point = heapq.heappop(self.open)
        bound = -bound
        free = np.flatnonzero(state == 0)
        if block.ids.size == self.problem.n and not block.relaxed and block.work >= _WORK and self._affordable(block):
            # One relaxation of the whole problem lowers every bound; start again from it.
            block = self._block(block.ids, block.ones, None, small=True)
            self.open.clear()
            state, point = np.zeros(block.ids.size, dtype=np.int8), block.x
            bound = min(bound, block.form.tangent(point) + block.constant)
        elif block.work >= _WORK * max(1.0, (free.size / 200) ** 3) or (free.size <= _SMALL and not block.relaxed):
            fresh = self._refresh(block, state, free)
            if fresh is not None:
                block, state, point = fresh, np.zeros(fresh.ids.size, dtype=np.int8), fresh.x
                bound = min(bound, block.form.tangent(point) + block.constant)
        n = block.ids.size
        states = np.zeros((n + 5, n), dtype=np.int8)
        points, bounds, best = np.zeros((n + 5, n)), np.zeros(n + 5), np.zeros(n, dtype=np.int8)
        states[0], points[0], bounds[0] = state, point, bound - block.constant
        form, order = block.form, block.order
        known = self.incumbent - block.constant
        nodes, work, left, value = self.kernel.explore(  # type: ignore[union-attr]
            form.curved,
            form.exact,
            form.linear,
            form.size,
            block.importance,
            order.above_start,
            order.above,
            order.below_start,
            order.below,
            states,
            points,
            bounds,
            1,
            known,
            self.tolerance,
            form.margin,
            best,
            int(min(_WORK, 1e5 + 1e8 * self.run.remaining)),
            0.2,
        )
        block.work += work
        self.run.nodes += nodes
        if value > known:
            x = np.zeros(self.problem.n, dtype=np.int64)
            x[block.ones] = 1
            x[block.ids[best == 1]] = 1
            self.run.offer(x)
            self.look()
        for k in range(left):
            self._push(bounds[k] + block.constant, block, states[k].copy(), points[k].copy())
        self.report()

    def report(self) -> None:
        """Hand the tree's bound to the run."""
        if self.kernel is None or not math.isfinite(self.incumbent):
            return
        value = self.incumbent + self.settled
        if self.open:
            value = max(value, -self.open[0][0])
        self.run.tighten(self.normal.original(value) + 2 * self.problem.rounding)

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

    def _push(self, bound: float, block: Block, state: NDArray[np.int8], point: NDArray[np.float64]) -> None:
        if bound > self.incumbent + self.tolerance:
            heapq.heappush(self.open, (-bound, next(self.count), block, state, point))

    def _affordable(self, block: Block) -> bool:
        return self.run.remaining > _RELAX * block.ids.size**3

    def _refresh(self, block: Block, state: NDArray[np.int8], free: NDArray[np.intp]) -> Block | None:
        """Multipliers made for this open problem; ``None`` where they would not pay."""
        left = block.form.size - int((state == 1).sum())
        if free.size < 12 or not 2 <= left <= free.size - 2 or not self._affordable(block):
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
        order = dominance(q, linear, m)
        x, violated = np.full(n, m / n), np.zeros((0, 2), dtype=np.int64)
        if small and run.remaining > _RELAX * n**3:
            equal = order.pairs[: 3 * n]
            pairs = self._inherited(parent, ids)
            found = relax(
                q,
                linear,
                m,
                dominated=equal,
                nonnegative=pairs,
                tolerance=self.tolerance / 2,
                incumbent=self.incumbent - constant,
                expired=lambda: run.expired,
            )
            form = apply(q, linear, m, found, equal, pairs)
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
