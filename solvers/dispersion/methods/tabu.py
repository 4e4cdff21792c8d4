"""Method ``tabu``: iterated tabu search over swaps."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.neighbourhood import incumbent, load_swaps, local_ascent
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import units
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run


@method(DispersionProblem, "tabu", kind="heuristic", constraints=True, work=True)
def tabu(
    problem: DispersionProblem,
    run: Run,
    *,
    moves: Annotated[int, AtLeast(0)] | None = None,
    non_improving_moves: Annotated[int, AtLeast(1)] | None = None,
    stall: Annotated[int, AtLeast(1)] | None = None,
) -> None:
    """Iterated tabu search over swaps (Palubeckis 2007), compiled.

    The best admissible swap is made even when it makes things worse; clients that left or entered are held for a
    tenure drawn anew for each swap (`kernels.swaps.tabu`).
    After ``non_improving_moves`` moves without a new local best, the best selection is perturbed by random swaps, every
    eighth time since it was found beyond recognition. It starts from ``start`` or the greedy selection, improved by
    swaps. Under side constraints it passes through selections that miss some, at a price that rises while it does.

    Parameters
    ----------
    moves : int, optional
        Swaps to make; by default until a limit of time or work, or ``stall``, ends it, or 200 000 without a limit.
    non_improving_moves : int, optional
        Moves without improvement that end a descent; by default 200 or 2n, whichever is larger.
    stall : int, optional
        Moves without a better selection after which the search ends before its time; by default 100 000 or 2000 n,
        whichever is larger, where ``moves`` is left out, and never where it is given.
    """
    search = Search.started(problem, run, non_improving_moves)
    if stall is None and moves is None:
        stall = max(100_000, 2000 * problem.n)
    if moves is None:
        moves = DEFAULT_POLICY.endless_moves if not run.is_limited else np.iinfo(np.int64).max
    best, idle = run.objective, 0
    while moves > 0 and not run.expired:
        done = search.advance(moves)
        if done == 0:
            return
        moves -= done
        best, idle = run.objective, idle + done if run.objective == best else 0
        if stall is not None and idle >= stall:
            run.stop("iterations", f"no better selection in {idle} moves")
            return


class Search:
    """A tabu search that can be continued.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Where it starts from (``run.x``), its randomness, and where better selections are offered.
    non_improving_moves : int, optional
        As for `tabu`.
    policy : Policy
        How much is done in one call.
    """

    def __init__(
        self,
        problem: DispersionProblem,
        run: Run,
        non_improving_moves: int | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        self.problem, self.run, self.policy = problem, run, policy
        self.non_improving_moves = max(200, 2 * problem.n) if non_improving_moves is None else non_improving_moves
        self.state = run.rng.integers(1, 2**63, size=1, dtype=np.uint64)
        self.begin(incumbent(run))

    @classmethod
    def started(
        cls,
        problem: DispersionProblem,
        run: Run,
        non_improving_moves: int | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> Search:
        """A search from ``start`` or the greedy selection, improved by swaps."""
        local_ascent(problem, run)
        return cls(problem, run, non_improving_moves, policy)

    def begin(self, x: NDArray[np.int64]) -> None:
        """Begin anew from a selection, and forget what was found."""
        n = self.problem.n
        self.order: NDArray[np.int64] = np.argsort(-x, kind="stable")
        self.local, self.best = self.order.copy(), self.order.copy()
        self.values = np.full(2, -np.inf)
        self.until = np.zeros(n, dtype=np.int64)
        self.clock = np.zeros(3, dtype=np.int64)
        self.price = np.array([1.0, 0.0])

    def advance(self, moves: int) -> int:
        """Make at most ``moves`` swaps, some 10 ms of them or 50 in a call; return how many (0: nothing to choose)."""
        problem = self.problem
        if problem.feasible.is_single:
            return 0
        looks = self.policy.looks_to_update if problem.is_constrained else 1
        moves = min(moves, max(50, self.policy.tabu_work // (problem.n * looks + problem.size)))
        self.run.spend(moves * self.policy.move_work * problem.n * (problem.n if problem.is_constrained else 1))
        steps = moves * (self.policy.move_steps + problem.n // 4 + 30 * problem.size)
        swaps, rows = load_swaps(problem, self.run, steps)
        factor, _, linear = units(problem)
        known = self.values[1]
        swaps.tabu(
            problem.distances,
            2 * problem.weight * factor,
            linear,
            problem.size,
            self.order,
            self.local,
            self.best,
            self.values,
            self.until,
            self.clock,
            moves,
            self.non_improving_moves,
            1e-13 * problem.size,
            self.state,
            rows,
            self.price,
        )
        if self.values[1] > known:
            self.run.offer(self.found())
        return moves

    def found(self) -> NDArray[np.int64]:
        """The best selection since the beginning."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        x[self.best[: self.problem.size]] = 1
        return x
