"""Lagrangian relaxation of the coverage problem: bounds, reduced-cost fixing, and a tree over candidates."""

from __future__ import annotations

import heapq
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.coverage.problem import CoverageProblem
from solvers.coverage.swaps import Service, kernel
from solvers.run import Run
from solvers.subsets import from_clients

__all__ = ["Lists", "Subproblem", "Tree"]

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
    :math:`\rho_j = \sum_i \max(0, s_{ij} - u_i)`, and

    .. math:: L(u) = \sum_i u_i + \text{sum of the m largest } \rho_j

    bounds every selection, whatever u is. Its terms are rounded to a few units each, so that the margin added is
    2 (N + m + 8) units of the sum of their absolute values. A row's multiplier is never below the last similarity of
    its list, so that lists that end early leave nothing out.

    Parameters
    ----------
    problem : CoverageProblem
        The problem.
    run : Run
        Holds an incumbent already.
    """

    def __init__(self, problem: CoverageProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.kernel = kernel(problem, run, steps=1000.0 * problem.similarity.size)
        self.lists = Lists.of(problem.similarity)
        whole = self.lists.values.shape[1] == problem.n
        self.floor = np.full(len(self.lists.values), -np.inf) if whole else self.lists.values[:, -1].copy()
        self.units = 2.0 * (problem.similarity.shape[0] + problem.size + 8) * _EPS
        self.improved: set[bytes] = set()
        #: Iterations from one that fixes candidates to the next.
        self.every = 1

    @property
    def target(self) -> float:
        """Value that a node must exceed to be looked at: half of what counts as proved is given up at once."""
        assert self.run.objective is not None
        return self.run.objective + 0.5 * self.problem.tolerance_at(self.run.objective)

    def search(self, *, root_only: bool = False) -> None:
        """Branch until the bound proves the incumbent, or the time is over."""
        run, problem = self.run, self.problem
        assert run.x is not None
        ranked = np.sort(problem.similarity[:, np.flatnonzero(run.x)].astype(np.float64), axis=1)
        self._search(ranked[:, -2].copy() if problem.size > 1 else problem.extremes[0].copy(), root_only)

    def _search(self, start: NDArray[np.float64], root_only: bool) -> None:
        run = self.run
        run.nodes = 1
        root = self.bounded(np.zeros(0, np.int64), self._different(), start, _ROOT)
        if root is None:
            run.tighten(self.target)
            return
        run.tighten(root.bound)
        self._keep(np.concatenate([root.chosen, root.free]))
        queue, count = [(-root.bound, 0, root)], 1
        while queue and not root_only and not run.expired:
            if -queue[0][0] <= self.target:
                break
            node = heapq.heappop(queue)[2]
            rest = node.free[node.free != node.branch]
            for is_with, chosen in ((True, np.append(node.chosen, node.branch)), (False, node.chosen)):
                child = self._child(node, is_with, chosen, rest)
                run.nodes += 1
                if child is not None:
                    heapq.heappush(queue, (-child.bound, count, child))
                    count += 1
                if run.expired:
                    # The other child was not looked at: its parent's bound stands for it.
                    heapq.heappush(queue, (-node.bound, count, node))
                    break
            run.tighten(max(self.target, -queue[0][0] if queue else self.target))
        if not queue or -queue[0][0] <= self.target:
            run.tighten(self.target)

    def _different(self) -> NDArray[np.int64]:
        """Return one of the candidates that are alike everywhere, where enough are left; all under side constraints.

        Constraints may tell equal columns apart, or ask for several of them.
        """
        first: dict[bytes, int] = {}
        if not self.problem.is_constrained:
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
        u, best, best_u = multipliers, known, multipliers
        is_root = np.isinf(known)
        step, until_halved = _FIRST_STEP, _STALL if is_root else _NODE_STALL
        stalled, direction, worth = 0, np.zeros_like(u), np.empty(problem.n)
        often = np.zeros(problem.n)
        lists, listed = self._restricted(np.concatenate([chosen, free])), chosen.size + free.size
        for iteration in range(iterations):
            left = problem.size - chosen.size
            if not 0 < left < free.size:
                break
            kernel.appraise(*lists, u, worth)
            held, free_worth = float(worth[chosen].sum()), worth[free]
            order = np.argpartition(-free_worth, left)
            top = order[:left]
            most, least = float(free_worth[order[left:]].max()), float(free_worth[top].min())
            taken = float(free_worth[top].sum())
            value = float(u.sum()) + held + taken
            value += self.units * (float(np.abs(u).sum()) + held + taken)
            selection = np.concatenate([chosen, free[top]])
            often *= _MEMORY
            often[selection] += 1
            stalled += 1
            if value < best:
                best, best_u, stalled = value, u, 0
            if best <= self.target:
                self._used(best_u)
                return None
            if iteration % _IMPROVED == 0 if is_root else iteration == _IMPROVED - 1:
                self._improve(selection, lists)
            is_selected = np.zeros(problem.n, dtype=bool)
            is_selected[selection] = True
            length = kernel.direct(*lists, u, is_selected, _MEMORY, direction)
            room = value - self.target
            goes_in = np.zeros(free.size, dtype=bool)
            goes_in[top] = free_worth[top] - most > room
            stays = free_worth - least >= -room
            stays[top] = True
            if iteration % self.every == 0 and (goes_in.any() or not stays.all()):
                self._used(u)
                chosen = np.concatenate([chosen, free[goes_in]])
                free = free[stays & ~goes_in]
                if free.size + chosen.size < 0.9 * listed:
                    lists, listed = self._restricted(np.concatenate([chosen, free]), lists), chosen.size + free.size
            if stalled == until_halved:
                step, stalled, u = step / 2, 0, best_u
            if length == 0 or run.expired or step < _LEAST_STEP:
                break
            u = np.maximum(u - step * (value - float(run.objective or 0.0)) / length * direction, self.floor)
        left = problem.size - chosen.size
        if left in (0, free.size):
            run.offer(from_clients(np.concatenate([chosen, free]) if left else chosen, problem.n))
        if not 0 < left < free.size:
            return None
        return Subproblem(best, chosen, free, best_u, self._branch(free, often))

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
        is_selected = from_clients(clients, problem.n).astype(bool)
        service = Service.of(len(problem.similarity))
        gain, saved, lost = np.empty(problem.n), np.empty((problem.size, problem.n)), np.empty(problem.size)
        changed = -1
        while problem.size > 1 and not run.expired:  # one alone is the greedy one
            inner.serve(problem.similarity, clients, changed, *service)
            held = (is_selected, service.owner, service.first, service.second)
            improvement, changed, into = inner.exchange(*lists, *held, gain, saved, lost)
            if improvement <= 1e-12 * problem.scale:
                break
            is_selected[clients[changed]], is_selected[into] = False, True
            clients[changed] = into
        run.offer(is_selected.astype(np.int8))
