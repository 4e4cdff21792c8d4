"""Lagrangian relaxation of the coverage problem: bounds, reduced-cost fixing, and a tree over candidates."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.coverage.problem import CoverageProblem
from solvers.coverage.swaps import ascend
from solvers.run import Run
from solvers.subsets import from_clients

__all__ = ["Subproblem", "Tree"]

_EPS = float(np.finfo(np.float64).eps)

#: Iterations at the root and at other nodes, and those without a better bound after which steps are halved. With 1 000
#: points of a square and 30 selected, 600 iterations leave the root 2 % of its gap; more at nodes cost more
#: than they fix.
_ROOT, _NODE, _STALL = 1500, 40, 30

#: Steps as shares of the gap: the first at the root, the first at other nodes (from their parent's multipliers), and
#: the last that is worth its iteration.
_FIRST_STEP, _NODE_STEP, _LEAST_STEP = 1.0, 0.1, 1e-3

#: Share of the direction before that a direction keeps; 0.8 needs some tenth fewer iterations than 0.5.
_MEMORY = 0.8


class Subproblem(NamedTuple):
    """Candidates that are chosen and free, multipliers of the rows, and the bound that they give."""

    bound: float
    chosen: NDArray[np.int64]
    free: NDArray[np.int64]
    multipliers: NDArray[np.float64]
    branch: int


class Entries:
    """Similarities above a floor of each row, of the candidates that are left: all that matter while u is above it.

    Parameters
    ----------
    columns : (n, N) ndarray
        Similarities, candidates in rows.
    candidates : ndarray of int
        Those that are left.
    multipliers : (N,) ndarray
        Present multipliers.
    reach : float
        How far below these the floor lies.
    """

    def __init__(
        self,
        columns: NDArray[np.float64],
        candidates: NDArray[np.int64],
        multipliers: NDArray[np.float64],
        reach: float,
    ) -> None:
        self.floor = multipliers - reach
        table = columns[candidates]
        places, self.rows = np.nonzero(table > self.floor)
        self.values = table[places, self.rows]
        self.candidates = candidates[places]

    def keep(self, candidates: NDArray[np.int64], n: int) -> None:
        """Forget the candidates that are not among these."""
        is_left = np.zeros(n, dtype=bool)
        is_left[candidates] = True
        kept = is_left[self.candidates]
        self.rows, self.values, self.candidates = self.rows[kept], self.values[kept], self.candidates[kept]


class Tree:
    r"""Best-first tree over the candidates, each node bounded by subgradient steps from its parent's multipliers.

    With a multiplier :math:`u_i` for "row i is represented once", candidate j is worth
    :math:`\rho_j = \sum_i \max(0, s_{ij} - u_i)`, and

    .. math:: L(u) = \sum_i u_i + \text{sum of the m largest } \rho_j

    bounds every selection, whatever u is. Its terms are rounded to a few units each, so that the margin added is
    2 (N + m + 8) units of the sum of their absolute values.

    Parameters
    ----------
    problem : CoverageProblem
        The problem.
    run : Run
        Holds an incumbent already.
    """

    def __init__(self, problem: CoverageProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        # Candidates in rows, so that a candidate's similarities lie beside each other.
        self.columns = np.ascontiguousarray(problem.similarity.T, dtype=np.float64)
        self.reach = 0.1 * problem.scale / self.columns.shape[1]
        self.units = 2.0 * (self.columns.shape[1] + problem.size + 8) * _EPS

    @property
    def target(self) -> float:
        """Value that a node must exceed to be looked at: half of what counts as proved is given up at once."""
        assert self.run.objective is not None
        return self.run.objective + 0.5 * self.problem.tolerance_at(self.run.objective)

    def search(self, *, root_only: bool = False) -> None:
        """Branch until the bound proves the incumbent, or the time is over."""
        run, problem = self.run, self.problem
        assert run.x is not None
        ranked = np.sort(self.columns[np.flatnonzero(run.x)], axis=0)
        start = ranked[-2] if problem.size > 1 else problem.extremes[0]
        run.nodes = 1
        root = self.bounded(np.zeros(0, np.int64), np.arange(problem.n), start, _ROOT)
        if root is None:
            run.tighten(self.target)
            return
        run.tighten(root.bound)
        queue, count = [(-root.bound, 0, root)], 1
        while queue and not root_only and not run.expired:
            if -queue[0][0] <= self.target:
                break
            node = heapq.heappop(queue)[2]
            rest = node.free[node.free != node.branch]
            for chosen in (np.append(node.chosen, node.branch), node.chosen):
                child = self.bounded(chosen, rest, node.multipliers, _NODE, node.bound)
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

    def bounded(
        self,
        chosen: NDArray[np.int64],
        free: NDArray[np.int64],
        multipliers: NDArray[np.float64],
        iterations: int,
        known: float = np.inf,
    ) -> Subproblem | None:
        """Bound a subproblem by subgradient steps, fixing candidates on the way; None where it is fathomed."""
        problem, run = self.problem, self.run
        u, best, best_u = multipliers, known, multipliers
        step = _FIRST_STEP if np.isinf(known) else _NODE_STEP
        stalled, direction = 0, np.zeros_like(u)
        often = np.zeros(problem.n)
        entries = Entries(self.columns, np.concatenate([chosen, free]), u, self.reach)
        for iteration in range(iterations):
            left = problem.size - chosen.size
            if not 0 < left < free.size:
                break
            if (u < entries.floor).any():
                entries = Entries(self.columns, np.concatenate([chosen, free]), u, self.reach)
            gains = np.maximum(entries.values - u[entries.rows], 0.0)
            worth = np.bincount(entries.candidates, gains, problem.n)
            held, free_worth = float(worth[chosen].sum()), worth[free]
            order = np.argpartition(-free_worth, left)
            top = order[:left]
            most, least = float(free_worth[order[left:]].max()), float(free_worth[top].min())
            taken = float(free_worth[top].sum())
            value = float(u.sum()) + held + taken
            value += self.units * (float(np.abs(u).sum()) + held + taken)
            selection = np.concatenate([chosen, free[top]])
            often[free[top]] += 1
            stalled += 1
            if value < best:
                best, best_u, stalled = value, u, 0
            if best <= self.target:
                return None
            if iteration % 10 == 0:
                self._improve(selection)
            is_selected = np.zeros(problem.n, dtype=bool)
            is_selected[selection] = True
            serves = (gains > 0) & is_selected[entries.candidates]
            direction = 1.0 - np.bincount(entries.rows[serves], minlength=u.size) + _MEMORY * direction
            room = value - self.target
            goes_in = np.zeros(free.size, dtype=bool)
            goes_in[top] = free_worth[top] - most > room
            stays = free_worth - least >= -room
            stays[top] = True
            if goes_in.any() or not stays.all():
                chosen = np.concatenate([chosen, free[goes_in]])
                free = free[stays & ~goes_in]
                entries.keep(np.concatenate([chosen, free]), problem.n)
            length = float(direction @ direction)
            if stalled == _STALL:
                step, stalled, u = step / 2, 0, best_u
            if length == 0 or run.expired or step < _LEAST_STEP:
                break
            move = step * (value - float(run.objective or 0.0)) / length * direction
            self.reach = 4.0 * float(np.abs(move).max())
            u = u - move
        left = problem.size - chosen.size
        if left in (0, free.size):
            run.offer(from_clients(np.concatenate([chosen, free]) if left else chosen, problem.n))
        if not 0 < left < free.size:
            return None
        return Subproblem(best, chosen, free, best_u, self._branch(free, best_u, often))

    def _branch(self, free: NDArray[np.int64], u: NDArray[np.float64], often: NDArray[np.float64]) -> int:
        """Choose a candidate that the iterates chose about as often as not; of these the one of most worth."""
        share = often[free] / max(1.0, float(often[free].max()))
        worth = np.maximum(self.columns[free] - u, 0.0).sum(axis=1)
        return int(free[np.lexsort((-worth, np.abs(share - 0.5).round(1)))[0]])

    def _improve(self, clients: NDArray[np.int64]) -> None:
        """Offer a selection of the relaxation, improved by swaps where it is nearly as good as the incumbent."""
        value = float(self.columns[clients].max(axis=0).sum())
        incumbent = float(self.run.objective or 0.0)
        if value >= incumbent - 0.01 * self.problem.scale / self.problem.size:
            self.run.offer(from_clients(clients, self.problem.n))
            ascend(self.problem, self.run, clients, sweeps=2)
