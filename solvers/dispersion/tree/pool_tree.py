"""First-order branch and bound that goes on until the k best selections are found, and how it prunes.

A node is fathomed where no selection below it reaches the worst member of the pool (`solvers.search.Incumbents`), ties
with it among them: at the pool's threshold less what rounding may hide. Where the pool has lost ties, only better ones
are searched for. Of what the tree does for a single best selection

* bounds, reduced costs and the constraints' consequences are valid for any threshold;
* dominance and symmetry are not: a selection that is no better than another one may be a member beside it;
* attainable values are not, as long as ties are wanted: the question is the threshold, not the next value above it;
* a node with one selection left is evaluated unless it is fathomed, and its selection offered where it may be a member.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.kernels.tree_data import Stack
from solvers.dispersion.policy import Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.tree.first_order import FirstOrderTree, Subproblem
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["PoolRun", "PoolTree"]

_EPS = float(np.finfo(np.float64).eps)


class PoolRun(Run):
    """Run of a search for a pool: the whole run's clock, its ``objective`` the value to reach, bounds on all others.

    Parameters
    ----------
    problem : DispersionProblem
        The problem, or the same with its matrix of distances.
    whole : Run
        The run on the whole problem, which has a pool.
    slack : float
        What the objectives of one selection in the two problems differ by, at most.
    """

    def __init__(self, problem: DispersionProblem, whole: Run, slack: float) -> None:
        super().__init__(problem, whole.method, None, whole.seed, halt=whole.halt)
        assert whole.pool is not None
        self.whole, self.slack, self.incumbents = whole, slack, whole.pool
        self.rng, self.details = whole.rng, whole.details
        self.objective = self.incumbents.threshold

    @property
    def remaining(self) -> float:
        """Seconds left to the whole run."""
        return self.whole.remaining

    @property
    def counts_work(self) -> bool:
        """As `Run.counts_work`, of the whole run."""
        return self.whole.counts_work

    def spend(self, entries: float) -> None:
        """As `Run.spend`, of the whole run."""
        self.whole.spend(entries)

    @property
    def is_cancelled(self) -> bool:
        """Whether the whole run is ended from outside."""
        return self.whole.is_cancelled

    @contextmanager
    def loading(self, *, is_interruptible: bool = False) -> Iterator[None]:
        """As `Run.loading`, for the whole run's clock, which is the one that counts."""
        with self.whole.loading(is_interruptible=is_interruptible):
            yield

    def log(self, text: str) -> None:
        """As `Run.log`, in the whole run's log."""
        self.whole.log(text)

    def offer(self, x: ArrayLike) -> float:
        """Offer a selection to the whole run."""
        value = self.whole.offer(x)
        self.objective = self.incumbents.threshold
        return value

    def tighten(self, bound: float | Fraction, error: float | Fraction = 0.0, *, is_claimed: bool = False) -> None:
        """State a bound on every selection that has not been offered."""
        self.incumbents.tighten(float(bound) + float(error) + self.slack)

    def infeasible(self) -> None:
        """State that every selection has been offered."""
        self.incumbents.close()


class PoolTree(FirstOrderTree):
    """`FirstOrderTree` with the threshold of a pool.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : PoolRun
        Its run.
    cuts, policy
        As for `FirstOrderTree`.
    """

    run: PoolRun

    def __init__(self, problem: DispersionProblem, run: PoolRun, cuts: float, policy: Policy) -> None:
        super().__init__(problem, run, cuts, policy=policy)

    def refresh_incumbent(self) -> None:
        """Take over the pool's threshold, less what rounding may hide and a tolerance for the relaxations.

        What is pruned is bounded by ``incumbent + prune_tolerance``, which is below the threshold by ``margin``: more
        than objectives, values of nodes and translations between units are off by.
        """
        problem, run, scaled = self.problem, self.run, self.scaled
        if run.incumbents.has_lost_ties:  # further ties need not be found: only what is better
            super().refresh_incumbent()
            return
        if run.objective is None:
            self.incumbent, self.prune_tolerance, self.fathom_margin = -math.inf, 0.0, 0.0
            self.optimality_tolerance = 0.5 * OPTIMALITY_GAP
            return
        self.optimality_tolerance = problem.tolerance_at(run.objective, 0.5 * OPTIMALITY_GAP)
        self.prune_tolerance = self.fathom_margin = self.optimality_tolerance * scaled.factor
        self.incumbent = scaled.value(run.objective) - self.margin - self.prune_tolerance

    @property
    def margin(self) -> float:
        """Most that rounding hides of the difference between a node's bound and a member's objective, in these units.

        Values of nodes add up m² terms of about 1/m each in double precision, which 1e-9 covers up to 2 000 clients.
        """
        problem, incumbents = self.problem, self.run.incumbents
        costs = 8 * _EPS * problem.size * float(np.abs(problem.costs).max())
        return (2 * incumbents.near + 2 * self.run.slack + costs) * self.scaled.factor + 4 * self.scaled.error + 1e-9

    def solve(self) -> None:
        """Search until no selection is left that may be a member, or the time is over."""
        run = self.run
        if self.ones.size == self.problem.size:
            self._offer(self.problem.feasible.decision(self.ones))
            run.infeasible()
            return
        self.start(relax=False)
        while self.open and not run.expired:
            self.advance()
        self.report()

    def _explore(
        self, subproblem: Subproblem, stack: Stack, known: float, best: NDArray[np.int8], left: int = 1
    ) -> int:
        """Search for a spell, beyond selections that are found on the way, each of which is offered."""
        until = self.work.nodes + self.policy.spell
        while left and self.work.nodes < until and not self.run.expired:
            best[:] = 0
            left = super()._explore(subproblem, stack, self.incumbent - subproblem.constant, best, left)
            if not best.any():
                break
            self._take(subproblem, best)
        best[:] = 0
        return left

    def _ordered(
        self, q: NDArray[np.float64], linear: NDArray[np.float64], m: int, ids: NDArray[np.int64], ones: object
    ) -> Dominance:
        """No dominance: both clients of a pair may be in members of their own."""
        return Dominance.of(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=bool), ids.size)
