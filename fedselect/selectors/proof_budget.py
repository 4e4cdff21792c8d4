"""Decision of a round in milliseconds, and a proof of it as far as the time of the run so far pays for it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, ClassVar

from fedselect.rounds.protocol import RoundContext
from fedselect.selectors.base import Stateful, solved, uninterrupted
from solvers import Solution, solve
from solvers.dispersion import DispersionProblem

#: Share of the run's time that pays for proofs: with it a run of FedGS takes at most 1.1 times what its decisions and
#: training take, and one attempt. Each attempt in a row that proves nothing halves it: 1.2 times, mostly for these, was
#: what 100 rounds of 10 of 1 000 clients took of which none can be proved (2026-11-23).
_SHARE = 0.1

#: Seconds that the budget begins with. 2026-11-23: with 2 s, 100 rounds of 10 of 1 000 clients, 8 s of swap search,
#: took half as long again.
_GRANT = 0.5

#: Seconds of a proof that cost nothing of the budget: a round of 100 clients is proved in a twentieth of a second
#: (2026-11-22, digits and letters), one of 300 in some seconds or not at all. Of so many clients or more, what the swap
#: search would have taken: 20 ms for the 130 of 1 000 that are there, whose proofs took up to three times as long.
_CHEAP, _LARGE, _SWAPS = 0.5, 500, 0.02

#: A round of so many times the clients of the smallest one that was not proved is as hard as that one.
_AS_HARD = 0.9

#: Tabu moves after the swap ascents: 4 ms for 1 000 clients, where these take 75. 2026-11-23: five times as many found
#: nothing better in rounds of 10 of 1 000 clients, and took 9 ms.
_MOVES = 100


class ProofBudget(Stateful):
    """Time for proofs in proportion to the run: what rounds that are not proved cheaply may cost.

    A round is given to ``auto`` while there is budget. Where that proves its decision within half a second (in a
    federation of 500 clients or more: within the 20 ms that swaps would take), nothing is charged; what takes longer is
    charged with the rest, what is not proved with all. The budget begins with half a second and grows by a tenth of the
    time that passes; by half of that after an attempt that proved nothing, by a quarter after two in a row, and so on.
    When it is spent, rounds of about as many clients as could not be proved are decided by swaps and tabu search with a
    fixed number of moves, in milliseconds and independently of the clock, until it has grown to twice what the last
    attempt took: attempts become longer, and rarer, until one is long enough.

    Parameters
    ----------
    n_clients : int
        Clients of the federation.
    """

    state_names: ClassVar[tuple[str, ...]] = ("budget", "price", "smallest", "failed")

    def __init__(self, n_clients: int = 0) -> None:
        self.free = _SWAPS if n_clients >= _LARGE else _CHEAP  #: seconds of a proof that are not charged
        self.budget = _GRANT  #: seconds that are left
        self.price = 0.0  #: seconds that the next proof is expected to take
        self.smallest = 0  #: clients of the smallest round that was not proved; 0 where all were
        self.failed = 0  #: attempts in a row that proved nothing
        self._last: float | None = None

    def solve(self, problem: DispersionProblem, round: RoundContext, **options: Any) -> Solution:
        """Decide a round; prove it where the budget allows that.

        Parameters
        ----------
        problem : DispersionProblem
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
        self._earn()
        limit = self._limit(problem, round)
        if limit is None:
            return _decided(problem, int(round.rng.integers(2**31)), None)
        began = time.perf_counter()
        _, solution = solved(problem, "auto", round, limit, **options)
        seconds = time.perf_counter() - began
        proved = solution.status == "optimal"
        self.failed = 0 if proved else self.failed + 1
        if not proved or seconds > self.free:
            self.budget -= max(0.0, solution.seconds - (self.free if proved else 0.0))
            self.price = solution.seconds if proved else 2 * solution.seconds
        if proved:
            return solution
        self.smallest = min(self.smallest, problem.n) if self.smallest else problem.n
        return _decided(problem, solution.seed, solution)

    def _earn(self) -> None:
        """Add what has passed since the last round to the budget."""
        now = time.perf_counter()
        if self._last is not None:
            self.budget += _SHARE * 0.5**self.failed * (now - self._last)
        self._last = now

    def _limit(self, problem: DispersionProblem, round: RoundContext) -> float | None:
        """Return the seconds that a proof may take now; None where none is tried."""
        most = float("inf") if round.time_limit is None else round.time_limit
        is_hard = self.smallest and problem.n >= _AS_HARD * self.smallest
        if (is_hard or self.price > self.free) and self.budget < min(self.price, most):
            return None
        return min(most, max(self.budget, self.free))


def _decided(problem: DispersionProblem, seed: int, tried: Solution | None) -> Solution:
    """Decide by swaps and tabu search, no worse than ``tried``, whose bound the decision keeps."""
    start = None if tried is None else tried.x
    ascended = uninterrupted(solve(problem, "local-search", seed=seed, start=start))
    found = uninterrupted(solve(problem, "tabu", seed=seed, start=ascended.x, moves=_MOVES))
    seconds = ascended.seconds + found.seconds
    if tried is None:
        return replace(found, seconds=seconds).with_bound(problem.trivial_bound(), proof_seconds=0.0)
    if tried.objective is not None and tried.objective >= (found.objective or 0.0):
        found = tried
    details = {**found.details, "proof_seconds": tried.seconds}
    return replace(found, seconds=seconds + tried.seconds, details=details).with_bound(tried.bound)
