"""Decision of a round by heuristics, and a proof of it as far as the rounds of the run so far pay for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from fedselect.rounds.protocol import RoundContext
from fedselect.selectors.base import Stateful, solved, uninterrupted
from solvers import Solution, solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem

#: Entries of the matrix that a round earns for proofs, some 20 ms of work, and the share of what its decision took that
#: it earns as well. What is spent is then a matter of the rounds alone and of no clock: training of a fifth of a second
#: a round takes at most 1.1 times as long. Each attempt in a row that proves nothing halves it. 2026-11-24.
_EARNED, _SHARE = 2_000_000, 0.1

#: Entries that the budget begins with, some half a second. 2026-11-23: with four times as much, 100 rounds of 10 of
#: 1 000 clients, 8 s of swap search, took half as long again.
_GRANT = 40_000_000

#: Entries of a proof that cost nothing of the budget, some half a second: a round of 100 clients is proved with a tenth
#: of them (digits and letters), one of 300 with ten times as many or not at all. Of so many clients or more, what the
#: swap search would have taken, some 20 ms: for the 130 of 1 000 that are there, whose proofs took up to three times
#: as long. 2026-11-22.
_CHEAP, _LARGE, _SWAPS = 40_000_000, 500, 2_000_000

#: A round of so many times the clients of the smallest one that was not proved is as hard as that one.
_AS_HARD = 0.9

#: Tabu moves after the swap ascents: 4 ms for 1 000 clients, where these take 75. 2026-11-23: five times as many found
#: nothing better in rounds of 10 of 1 000 clients, and took 9 ms.
_MOVES = 100


class ProofBudget(Stateful):
    """Work for proofs in proportion to the rounds: what those that are not proved cheaply may cost.

    A round is given to ``auto`` while there is budget. Where that proves its decision with the work of about half a
    second (in a federation of 500 clients or more: of about 20 ms), nothing is charged; what takes more is charged with
    the rest, what is not proved with all. The budget begins with about half a second's work and grows by that of 20 ms
    in every round, and by a tenth of the decision's; by half of that after an attempt that proved nothing, by a quarter
    after two in a row, and so on. When it is spent, rounds are decided without a proof until it has grown to twice what
    the last attempt took, or to as much where that proved its decision. That is done by swaps and tabu search with a
    fixed number of moves or, between points without side constraints, by ``tangent``.

    Work is counted (``work_limit`` of `solvers.solve`, here in entries of the matrix): what is proved, and with it the
    decision, is a function of the rounds and the seed. Seconds enter where the round itself has a time limit.

    Parameters
    ----------
    n_clients : int
        Clients of the federation.
    """

    state_names: ClassVar[tuple[str, ...]] = ("budget", "price", "smallest", "failed")

    def __init__(self, n_clients: int = 0) -> None:
        self.free = _SWAPS if n_clients >= _LARGE else _CHEAP  #: entries of a proof that are not charged
        self.budget = float(_GRANT)  #: entries that are left
        self.price = 0.0  #: entries that the next proof is expected to take
        self.smallest = 0  #: clients of the smallest round that was not proved; 0 where all were
        self.failed = 0  #: attempts in a row that proved nothing

    def solve(
        self, problem: DispersionProblem | PointDispersionProblem, round: RoundContext, **options: Any
    ) -> Solution:
        """Decide a round; prove it where the budget allows that.

        Parameters
        ----------
        problem : DispersionProblem or PointDispersionProblem
            The round's problem.
        round : RoundContext
            Gives the randomness, and the most seconds that a proof may take.
        **options
            Of ``auto``.

        Returns
        -------
        Solution
            Of a round that is not proved, ``details["proof_seconds"]`` says what the attempt took; 0 where none was
            made.
        """
        solution = self._solved(problem, round, **options)
        used = (solution.work or 0) * problem.n
        self.budget += (_EARNED + _SHARE * used) * 0.5**self.failed
        return solution

    def _solved(
        self, problem: DispersionProblem | PointDispersionProblem, round: RoundContext, **options: Any
    ) -> Solution:
        limit = self._limit(problem)
        if limit is None:
            return _decided(problem, int(round.rng.integers(2**31)), None)
        _, solution = solved(problem, "auto", round, work_limit=max(1.0, limit / problem.n), **options)
        used = (solution.work or 0) * problem.n
        proved = solution.status == "optimal"
        self.failed = 0 if proved else self.failed + 1
        if not proved or used > self.free:
            self.budget -= max(0.0, used - (self.free if proved else 0.0))
            self.price = used if proved else 2 * used
        if proved:
            return solution
        self.smallest = min(self.smallest, problem.n) if self.smallest else problem.n
        return _decided(problem, solution.seed, solution)

    def _limit(self, problem: DispersionProblem | PointDispersionProblem) -> float | None:
        """Return the entries that a proof may read now; None where none is tried."""
        is_hard = self.smallest and problem.n >= _AS_HARD * self.smallest
        if (is_hard or self.price > self.free) and self.budget < self.price:
            return None
        return max(self.budget, self.free)


def _decided(problem: DispersionProblem | PointDispersionProblem, seed: int, tried: Solution | None) -> Solution:
    """Decide by swaps and tabu search, no worse than ``tried``, whose bound the decision keeps.

    Between points the concave relaxation comes first, whose point the swaps start from and whose bound is nearly tight.
    """
    start = None if tried is None else tried.x
    if isinstance(problem, PointDispersionProblem) and not problem.is_constrained:
        found = uninterrupted(solve(problem, "tangent", seed=seed, start=start))
        seconds, work = found.seconds, found.work or 0
    else:
        ascended = uninterrupted(solve(problem, "local-search", seed=seed, start=start))
        found = uninterrupted(solve(problem, "tabu", seed=seed, start=ascended.x, moves=_MOVES))
        seconds, work = ascended.seconds + found.seconds, (ascended.work or 0) + (found.work or 0)
    if tried is None:
        bound = problem.trivial_bound() if found.bound is None else found.bound
        return replace(found, seconds=seconds).with_bound(bound, work=work, proof_seconds=0.0)
    if tried.objective is not None and tried.objective >= (found.objective or 0.0):
        found = tried
    details = {**found.details, "work": work + (tried.work or 0), "proof_seconds": tried.seconds}
    return replace(found, seconds=seconds + tried.seconds, details=details).with_bound(tried.bound)
