"""Lagrangian relaxation of the coverage problem: bounds, reduced-cost fixing, and a tree over candidates."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.coverage.problem import CoverageProblem
from solvers.coverage.swaps import Service, ascend, kernel
from solvers.feasible_set import FREE, ONE, ZERO, Hypersimplex
from solvers.run import Run
from solvers.search import BestFirstQueue, NodeOutcome, add_outcomes
from solvers.subsets import from_clients

_EPS = float(np.finfo(np.float64).eps)

#: Iterations at the root and at other nodes, and those without a better bound after which steps are halved. Nodes begin
#: from their parent's multipliers, yet with steps as long as the root's, halved soon: on three sets of 300 to 400
#: points 49 to 79 nodes are left of the 200 to 2 000 that first steps of .1 and 40 iterations at each length need
#: (2026-11-23; 100 iterations, or halving after 15, do as well; halving after 6 takes twice as many nodes).
_ROOT, _NODE, _STALL, _NODE_STALL = 4000, 60, 40, 10

#: The first step and the last that is worth its iteration, as shares of the gap.
_FIRST_STEP, _LEAST_STEP = 1.0, 1e-3

#: Share of the direction before that a direction keeps; 0.9 ends some tenth nearer to the best bound than 0.5.
_MEMORY = 0.9

#: Iterations of the root from one whose selection is improved by swaps to the next. Where a thousand points of a
#: square are represented, these selections end at 0.1 % of the bound, those from the greedy selection at 0.8 %.
_IMPROVED = 25

#: Iterations from one that fixes candidates to the next under side constraints, where that takes a matroid's exchanges.
_EVERY = 5

#: Part of the scale, over m, by which a selection that keeps side constraints may be below the incumbent to be improved
#: by swaps; by hand.
_NEARLY = 0.01

#: Work that sorting an entry of the lists counts as, and an iteration for each row and candidate: ratios of measured
#: times. 2026-11-24.
_SORT_WORK, _ITERATION_WORK = 12, 20

#: Entries of the lists: all of them up to 4 472 clients, 240 megabytes.
_ENTRIES = 20_000_000


class Lists(NamedTuple):
    """Candidates of each row with their similarities, the largest first; the lists may end before the candidates do."""

    values: NDArray[np.float64]
    candidates: NDArray[np.int32]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, similarity: NDArray[np.floating[Any]], entries: int = _ENTRIES) -> Lists:
        """Sort every row, as far as the number of entries allows."""
        rows, n = similarity.shape
        length = max(1, min(n, entries // rows))
        candidates = np.empty((rows, length), dtype=np.int32)
        for i, row in enumerate(similarity):
            longest = np.arange(n) if length == n else np.sort(np.argpartition(-row, length - 1)[:length])
            candidates[i] = longest[np.argsort(-row[longest], kind="stable")]
        values = np.take_along_axis(similarity, candidates, 1).astype(np.float64)
        return cls(values, candidates, np.full(rows, length))


class Subproblem(NamedTuple):
    """Candidates that are chosen and free, multipliers of the rows, and the bound that they give."""

    bound: float
    chosen: NDArray[np.int64]
    free: NDArray[np.int64]
    multipliers: NDArray[np.float64]
    branch: int


class Tree:
    r"""Best-first tree over the candidates, each node bounded by subgradient steps from its parent's multipliers.

    With a multiplier :math:`u_i` for "row i is represented once", candidate j is worth
    :math:`\rho_j = \sum_i \max(0, s_{ij} - u_i) - c_j`, and

    .. math:: L(u) = \sum_i u_i + \text{sum of the m largest } \rho_j

    bounds every selection, whatever u is. Its terms are rounded to a few units each, so that the margin added is
    2 (N + m + 8) units of the sum of their absolute values. A row's multiplier is never below the last similarity of
    its list, so that lists that end early leave nothing out.

    Under side constraints the feasible set bounds :math:`\rho^\top s` in the place of the m largest: exactly over
    disjoint and nested groups, by prices of all other rows, which are multipliers beside those of the similarities.

    Parameters
    ----------
    problem : CoverageProblem
        The problem.
    run : Run
        Holds an incumbent already, unless side constraints leave none in sight.
    """

    def __init__(self, problem: CoverageProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.kernel = kernel(problem, run, steps=1000.0 * problem.similarity.size)
        self.lists = Lists.of(problem.similarity)
        run.spend(_SORT_WORK * problem.similarity.size)
        self.rows = len(self.lists.values)
        whole = self.lists.values.shape[1] == problem.n
        largest = [float(row.coefficients.max(initial=0)) or 1.0 for row in problem.constraints.rows]
        self.floor = np.full(self.rows + len(largest), -np.inf)
        if not whole:
            self.floor[: self.rows] = self.lists.values[:, -1]
        self.units = 2.0 * (self.rows + problem.size + 8) * _EPS
        #: Units of the constraints' multipliers, in which a step moves them as much as all rows of similarity together.
        self.units_of = self.rows / problem.size / np.array(largest).reshape(-1)
        self.improved: set[bytes] = set()
        #: Iterations from one that fixes candidates to the next.
        self.every = _EVERY if problem.is_constrained else 1
        self.outcomes = [0] * len(NodeOutcome)

    @property
    def target(self) -> float:
        """Value that a node must exceed to be looked at: half of what counts as proved is given up at once.

        Minus infinity as long as no selection is known. Where a pool is wanted, what may be a member exceeds it.
        """
        if self.run.pool is not None:
            return self.run.pool.cutoff
        if self.run.objective is None:
            return -np.inf
        return self.run.objective + 0.5 * self.problem.tolerance_at(self.run.objective)

    def search(self, *, root_only: bool = False) -> None:
        """Branch until the bound proves the incumbent, nothing is left, or the time is over."""
        run, problem = self.run, self.problem
        start = np.zeros(self.floor.size)
        if run.x is None:
            run.tighten(problem.reach[1], problem.rounding)
            start[: self.rows] = np.median(problem.similarity, axis=1)
        elif problem.size > 1:
            start[: self.rows] = np.sort(problem.similarity[:, np.flatnonzero(run.x)].astype(np.float64), axis=1)[:, -2]
        else:
            start[: self.rows] = problem.extremes[0]
        try:
            self._search(np.maximum(start, self.floor), root_only)
        finally:
            add_outcomes(run.details, self.outcomes)
        if run.x is None and not run.expired and not root_only:
            run.infeasible()

    def _search(self, start: NDArray[np.float64], root_only: bool) -> None:
        run, states = self.run, self.problem.constraints.states
        run.nodes = 1
        root = self.bounded(np.flatnonzero(states == ONE), self._different(), start, _ROOT)
        if root is None:
            self._tighten(self.target)
            return
        self._tighten(root.bound)
        self._keep(np.concatenate([root.chosen, root.free]))
        queue = BestFirstQueue[Subproblem]()
        queue.push(root.bound, root)
        while queue and not root_only and not run.expired and queue.bound > self.target:
            bound, node = queue.pop()
            rest = node.free[node.free != node.branch]
            for is_with, chosen in ((True, np.append(node.chosen, node.branch)), (False, node.chosen)):
                child = self._child(node, is_with, chosen, rest)
                run.nodes += 1
                if child is not None:
                    queue.push(child.bound, child)
                if run.expired:
                    # The other child was not looked at: its parent's bound stands for it.
                    queue.push(bound, node)
                    break
            else:
                self.outcomes[NodeOutcome.BRANCHED] += 1
            self._tighten(max(self.target, queue.bound))
        if queue.bound <= self.target:
            self.outcomes[NodeOutcome.FATHOMED_BY_BOUND] += len(queue)
            self._tighten(self.target)

    def _tighten(self, bound: float) -> None:
        """Report a bound of all selections, or of those that were not offered where a pool is wanted."""
        run = self.run
        if run.pool is None:
            run.tighten(bound)
            return
        run.pool.tighten(bound)
        if run.objective is not None:
            run.tighten(max(bound, run.objective), self.problem.rounding)

    def _different(self) -> NDArray[np.int64]:
        """Return one of the candidates that are alike everywhere, where that leaves more than ``size``.

        All are returned under side constraints, where a pool is wanted, or where costs differ. Constraints may tell
        equal columns apart, or ask for several of them; a pool counts them one by one.
        """
        if self.problem.is_constrained or self.run.pool is not None:
            return np.flatnonzero(self.problem.constraints.states == FREE)
        if self.problem.costs.min() != self.problem.costs.max():
            return np.arange(self.problem.n)  # a second one covers nothing more, and may still cost least
        first: dict[bytes, int] = {}
        for j in range(self.problem.n):
            first.setdefault(blake2b(self.problem.similarity[:, j].tobytes()).digest(), j)
        return np.array(list(first.values())) if len(first) > self.problem.size else np.arange(self.problem.n)

    def _child(
        self, node: Subproblem, is_with: bool, chosen: NDArray[np.int64], free: NDArray[np.int64]
    ) -> Subproblem | None:
        """Bound what lies below a node, with the candidate that it branches on or without."""
        return self.bounded(chosen, free, node.multipliers, _NODE, node.bound)

    def _used(self, u: NDArray[np.float64]) -> None:
        """Note multipliers that fixed candidates or fathomed a subproblem: nothing, unless these are recorded."""

    def bounded(
        self,
        chosen: NDArray[np.int64],
        free: NDArray[np.int64],
        multipliers: NDArray[np.float64],
        iterations: int,
        known: float = np.inf,
    ) -> Subproblem | None:
        """Bound a subproblem by subgradient steps, fixing candidates on the way; None where it is fathomed."""
        problem, run, kernel = self.problem, self.run, self.kernel
        at, best, best_at = multipliers, known, multipliers
        is_root = np.isinf(known)
        step, until_halved = _FIRST_STEP, _STALL if is_root else _NODE_STALL
        stalled, direction, gross = 0, np.zeros_like(at), np.empty(problem.n)
        often = np.zeros(problem.n)
        lists, listed = self._restricted(np.concatenate([chosen, free])), chosen.size + free.size
        part, n_free = self._part(chosen, free), free.size
        for iteration in range(iterations):
            if part is None:
                self.outcomes[NodeOutcome.INFEASIBLE if free.size == n_free else NodeOutcome.REDUCED] += 1
                return None
            if not 0 < part.size < free.size:
                break
            run.spend(_ITERATION_WORK * (self.rows + listed))
            u = at[: self.rows]
            prices = at[self.rows :]
            if prices.size:
                prices = prices[part.priced_numbers]
            kernel.appraise(*lists, u, gross)
            worth = gross - problem.costs
            held, free_worth = float(worth[chosen].sum()), worth[free]
            most, reduced, top = part.relaxed(free_worth, prices)
            value = float(u.sum()) + held + most
            worths = float(np.abs(u).sum()) + float(gross[chosen].sum()) + float(gross[free][top].sum())
            value += self.units * (worths + problem.largest_cost)
            selection = np.concatenate([chosen, free[top]])
            often *= _MEMORY
            often[selection] += 1
            stalled += 1
            if value < best:
                best, best_at, stalled = value, at, 0
            if best <= self.target:
                self._used(best_at)
                self.outcomes[NodeOutcome.FATHOMED_BY_BOUND] += 1
                return None
            if run.x is None or (iteration % _IMPROVED == 0 if is_root else iteration == _IMPROVED - 1):
                self._improve(selection, lists)
            is_selected = np.zeros(problem.n, dtype=bool)
            is_selected[selection] = True
            length = kernel.direct(*lists, u, is_selected, _MEMORY, direction[: self.rows])
            if direction.size > self.rows:
                length += self._direct_prices(part, top, prices, direction[self.rows :])
            if iteration % self.every == 0:
                gone = part.losses(reduced, top) > value - self.target
                if gone.any():
                    self._used(at)
                    goes_in = np.zeros(free.size, dtype=bool)
                    goes_in[top] = gone[top]
                    chosen = np.concatenate([chosen, free[goes_in]])
                    free = free[~gone]
                    part = self._part(chosen, free)
                    if free.size + chosen.size < 0.9 * listed:
                        lists, listed = self._restricted(np.concatenate([chosen, free]), lists), chosen.size + free.size
            if stalled == until_halved:
                step, stalled, at = step / 2, 0, best_at
            if length == 0 or run.expired or step < _LEAST_STEP:
                break
            at = self._moved(at, step * (value - self._aim) / length * direction)
        if part is None or self._is_decided(part, chosen, free):
            self.outcomes[NodeOutcome.SOLVED if free.size == n_free else NodeOutcome.REDUCED] += 1
            return None
        return Subproblem(best, chosen, free, best_at, self._branch(free, often))

    @property
    def _aim(self) -> float:
        """Value that steps aim at: that of the incumbent, or of the last member of a pool; the least there may be."""
        aim = self.run.objective if self.run.pool is None else self.target
        return self.problem.reach[0] if aim is None or np.isinf(aim) else aim

    def _direct_prices(
        self, part: Hypersimplex, top: NDArray[np.intp], prices: NDArray[np.float64], direction: NDArray[np.float64]
    ) -> float:
        """Replace the direction of the constraints' multipliers as `kernels.direct` does the others."""
        direction *= _MEMORY
        direction[part.priced_numbers] += part.slopes(top, prices) * self.units_of[part.priced_numbers]
        return float(direction @ direction)

    def _moved(self, at: NDArray[np.float64], move: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return multipliers after a step down the direction, those of the constraints in their units."""
        if move.size > self.rows:
            move[self.rows :] *= self.units_of
        return np.maximum(at - move, self.floor)

    def _is_decided(self, part: Hypersimplex, chosen: NDArray[np.int64], free: NDArray[np.int64]) -> bool:
        """Return whether all or none of the free candidates complete a selection, which is offered if it is one."""
        if 0 < part.size < free.size:
            return False
        x = from_clients(np.concatenate([chosen, free]) if part.size else chosen, self.problem.n)
        if self.problem.violation(x) == 0:
            self.run.offer(x)
        return True

    def _part(self, chosen: NDArray[np.int64], free: NDArray[np.int64]) -> Hypersimplex | None:
        """Return the feasible set of what is left to choose; None where it is empty."""
        states = np.full(self.problem.n, ZERO, dtype=np.int8)
        states[chosen], states[free] = ONE, FREE
        part = self.problem.feasible.restricted(states)
        return part if part.contradiction() is None else None

    def _keep(self, candidates: NDArray[np.int64]) -> None:
        """Forget the other candidates."""
        self.lists = self._restricted(candidates)

    def _restricted(self, candidates: NDArray[np.int64], lists: Lists | None = None) -> Lists:
        """Return lists, by default those of the root, with these candidates alone."""
        old = self.lists if lists is None else lists
        is_left = np.zeros(self.problem.n, dtype=bool)
        is_left[candidates] = True
        shape = len(old.values), min(old.values.shape[1], candidates.size)
        kept = Lists(np.empty(shape), np.empty(shape, np.int32), np.empty(shape[0], np.int64))
        self.run.spend(old.values.size)
        self.kernel.restrict(*old, is_left, *kept)
        return kept

    def _branch(self, free: NDArray[np.int64], often: NDArray[np.float64]) -> int:
        """Choose the candidate that the last iterates chose most nearly as often as not."""
        share = often[free] / max(1.0, float(often.max()))
        return int(free[np.abs(share - 0.5).argmin()])

    def _improve(self, selection: NDArray[np.int64], lists: Lists) -> None:
        """Improve a selection of the relaxation by swaps with listed candidates, once."""
        problem, run, inner = self.problem, self.run, self.kernel
        clients = np.sort(selection)
        if (key := clients.tobytes()) in self.improved:
            return
        self.improved.add(key)
        if problem.is_constrained:
            self._improve_in_constraints(clients)
            return
        is_selected = from_clients(clients, problem.n).astype(bool)
        service = Service.of(len(problem.similarity))
        gain, saved, lost = np.empty(problem.n), np.empty((problem.size, problem.n)), np.empty(problem.size)
        changed = -1
        while problem.size > 1 and not run.expired:  # one alone is the greedy one
            run.spend(problem.size * (self.rows + problem.n))
            inner.serve(problem.similarity, clients, changed, *service)
            costs = np.array(problem.costs), problem.costs[clients]
            held = (is_selected, *costs, service.owner, service.first, service.second)
            improvement, changed, into = inner.exchange(*lists, *held, gain, saved, lost)
            if improvement <= 1e-12 * problem.scale:
                break
            is_selected[clients[changed]], is_selected[into] = False, True
            clients[changed] = into
        run.offer(is_selected.astype(np.int8))

    def _improve_in_constraints(self, clients: NDArray[np.int64]) -> None:
        """Offer a selection that keeps all constraints, improved by swaps if it is nearly as good as the incumbent."""
        problem, run = self.problem, self.run
        x, known = from_clients(clients, problem.n), run.objective
        if problem.violation(x) > 0:
            return
        if run.offer(x) >= (-np.inf if known is None else known) - _NEARLY * problem.scale / problem.size:
            ascend(problem, run, clients, sweeps=2)
