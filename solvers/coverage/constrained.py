r"""Lagrangian tree of the coverage problem under side constraints: multipliers of the rows beside those of the clients.

As `solvers.coverage.lagrangian`, with the sum of the m largest :math:`\rho_j` replaced by a bound on the largest
:math:`\rho^\top s` over the selections that keep the constraints: exact over disjoint and nested groups, by prices y of
all other rows (`solvers.constrained_set.ConstrainedSelections.at_prices`). Subgradient steps change u and y together;
the bound holds whatever they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import FREE, ONE, ZERO
from solvers.coverage.lagrangian import Subproblem, Tree
from solvers.coverage.problem import CoverageProblem
from solvers.coverage.swaps import ascend
from solvers.run import Run
from solvers.subsets import from_clients

__all__ = ["ConstrainedTree"]

_EPS = float(np.finfo(np.float64).eps)

#: Iterations at the root and at other nodes, those without a better bound after which steps are halved, the first
#: steps as shares of the gap, and the least. As without constraints, where they were tried; not tuned here.
_ROOT, _STALL, _FIRST_STEP, _NODE_STEP, _LEAST_STEP = 600, 30, 1.0, 0.1, 1e-3

#: Share of the direction before that a direction keeps, and iterations between looks at what can be fixed.
_MEMORY, _LOOK = 0.8, 5


class _Bounded(NamedTuple):
    """Bound at one iterate: its value, the relaxation's selection over the free clients, reduced worth, subgradient."""

    value: float
    x: NDArray[np.int64]
    reduced: NDArray[np.float64]
    direction: NDArray[np.float64]


class ConstrainedTree(Tree):
    """Best-first tree over the candidates; multipliers are those of the similarities' rows, then of the constraints."""

    def __init__(self, problem: CoverageProblem, run: Run) -> None:  # has no lists
        self.problem, self.run = problem, run
        # Candidates in rows, so that a candidate's similarities lie beside each other.
        self.columns = np.ascontiguousarray(problem.similarity.T, dtype=np.float64)
        self.units = 2.0 * (self.columns.shape[1] + problem.size + 8) * _EPS
        self.rows = self.columns.shape[1]
        largest = [float(row.coefficients.max(initial=0)) or 1.0 for row in problem.constraints.rows]
        #: Units of the constraints' multipliers, in which a step moves them as much as all rows of similarity together.
        self.units_of = self.rows / problem.size / np.array(largest).reshape(-1)
        self.highest = float(problem.extremes[1].sum()) + problem.rounding

    @property
    def target(self) -> float:
        """Value that a node must exceed; minus infinity as long as no selection is known."""
        return -np.inf if self.run.objective is None else super().target

    def search(self, *, root_only: bool = False) -> None:
        """Branch until the bound proves the incumbent, nothing is left, or the time is over."""
        start = np.zeros(self.rows + len(self.problem.constraints.rows))
        start[: self.rows] = np.median(self.columns, axis=0)
        self.run.tighten(self.highest)
        self._search(start, root_only)
        if self.run.x is None and not self.run.expired and not root_only:
            self.run.infeasible()

    def bounded(
        self,
        chosen: NDArray[np.int64],
        free: NDArray[np.int64],
        multipliers: NDArray[np.float64],
        iterations: int,
        known: float = np.inf,
    ) -> Subproblem | None:
        """Bound a subproblem by subgradient steps, fixing candidates on the way; None where it is fathomed."""
        n, best, best_at, at = self.problem.n, known, multipliers, multipliers
        step, stalled = (_FIRST_STEP if np.isinf(known) else _NODE_STEP), 0
        direction, often = np.zeros_like(at), np.zeros(n)
        states = np.full(n, ZERO, dtype=np.int8)
        states[chosen], states[free] = ONE, FREE
        # Included candidates are chosen from the start: their worth is in every bound.
        stated = self.problem.constraints.states
        states = np.where(stated == FREE, states, stated)
        for iteration in range(min(iterations, _ROOT)):
            places, left = self.problem.constraints.restricted(states)
            inner = ConstrainedSelections.of(left)
            if inner.contradiction() is not None:
                return None
            if inner.is_single:
                x = (states == ONE).astype(np.int64)
                x[places] = 1 if left.size else 0
                if self.problem.violation(x) == 0:
                    self.run.offer(x)
                return None
            found = self._at(states, places, inner, at)
            often[places] += found.x
            stalled += 1
            if found.value < best:
                best, best_at, stalled = found.value, at, 0
            if best <= self.target:
                return None
            x = (states == ONE).astype(np.int64)
            x[places] = found.x
            if iteration % 10 == 0 and self.problem.violation(x) == 0:
                self._offer(np.flatnonzero(x))
            if iteration % _LOOK == 0 and self.run.objective is not None:
                gone = inner.core.losses(found.reduced, found.x) > found.value - self.target
                states[places[gone]] = np.where(found.x[gone] == 1, ONE, ZERO)
            direction = found.direction + _MEMORY * direction
            length = float(direction @ direction)
            if stalled == _STALL:
                step, stalled, at = step / 2, 0, best_at
            if length == 0 or self.run.expired or step < _LEAST_STEP:
                break
            aim = float(self.problem.extremes[0].sum()) if self.run.objective is None else self.run.objective
            move = step * (found.value - aim) / length * direction
            move[self.rows :] *= self.units_of
            at = at - move
        free = np.flatnonzero(states == FREE)
        if not free.size:
            x = (states == ONE).astype(np.int64)
            if self.problem.violation(x) == 0:
                self.run.offer(x)
            return None
        return Subproblem(best, np.flatnonzero(states == ONE), free, best_at, self._branch(free, often))

    def _keep(self, candidates: NDArray[np.int64]) -> None:
        """Keep all: nothing is listed by candidate."""

    def _offer(self, clients: NDArray[np.int64]) -> None:
        """Offer a selection of the relaxation, improved by swaps where it is nearly as good as the incumbent."""
        value, known = float(self.columns[clients].max(axis=0).sum()), self.run.objective
        if known is None or value >= known - 0.01 * self.problem.scale / self.problem.size:
            self.run.offer(from_clients(clients, self.problem.n))
            ascend(self.problem, self.run, clients, sweeps=2)

    def _at(
        self,
        states: NDArray[np.int8],
        places: NDArray[np.intp],
        inner: ConstrainedSelections,
        at: NDArray[np.float64],
    ) -> _Bounded:
        """Bound the subproblem at multipliers of all rows, and return the direction in which the bound falls."""
        u = at[: self.rows]
        worth = np.maximum(self.columns - u, 0.0)
        held = worth[states == ONE]
        taken = worth[places].sum(axis=1)
        numbers = [k for k in range(len(self.problem.constraints.rows)) if k not in set(inner.core.numbers)]
        prices = at[self.rows :][numbers]
        value, reduced = inner.at_prices(taken, prices)
        x = inner.core.best(reduced)
        sums = float(np.abs(u).sum()) + float(held.sum()) + float(taken[x == 1].sum())
        value += float(u.sum()) + float(held.sum()) + self.units * sums
        served = (held > 0).sum(axis=0) + (worth[places[x == 1]] > 0).sum(axis=0)
        direction = np.zeros_like(at)
        direction[: self.rows] = 1.0 - served
        for k, row, price in zip(numbers, inner.priced, prices.tolist(), strict=True):
            used = row.activity(x)
            if price > 0 or (price == 0 and used > row.high):
                slope = row.high - used
            else:
                slope = row.low - used if price < 0 or used < row.low else 0.0
            direction[self.rows + k] = slope * self.units_of[k] if np.isfinite(slope) else 0.0
        return _Bounded(value, x, reduced, direction)
