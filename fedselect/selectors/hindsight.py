"""Selectors that know availability ahead: ``clairvoyant``, an oracle, and ``rolling``, some rounds or a forecast."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.availability import Availability
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    SelectorBase,
    aggregate,
    check_aggregation,
    check_size,
    check_solving,
    solved,
)
from solvers import solve
from solvers.schedule import ScheduleProblem


@SELECTORS.register("clairvoyant")
class Clairvoyant(SelectorBase):
    """Select by the fairest schedule in hindsight: an oracle, which takes all of the run's availability.

    Where availability is as foreseen, no rule that selects as many clients in each of the T rounds has a smaller
    variance of the counts. The first round solves a `solvers.schedule.ScheduleProblem` of all of them, exactly and
    whatever time it takes; a round in which others are available than foreseen (clients that are not connected, say)
    solves one of those that are left.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    n_clients : int
        Number of clients N.
    availability : Availability
        The run's own: what it says of later rounds is known.
    rounds : int
        Rounds planned, T; those after them are planned T at a time.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    state_names = ("counts", "plan", "planned_from")

    def __init__(
        self,
        size: int,
        n_clients: int,
        *,
        availability: Availability,
        rounds: int,
        aggregation: Aggregation = "samples",
    ) -> None:
        self.size, self.n_clients = check_size(size), check_count("the number of clients", n_clients)
        self.availability = availability
        self.rounds = check_count("the number of rounds", rounds)
        self.aggregation = check_aggregation(aggregation)
        self.counts = np.zeros(n_clients, dtype=np.int64)
        self.plan = np.zeros((0, n_clients), dtype=np.bool_)
        self.planned_from = 0

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        place, solution = round.round - self.planned_from, None
        is_planned = 0 <= place < len(self.plan)
        if not is_planned or not np.array_equal(self.availability.available(round.round), round.available):
            end = max(self.rounds, round.round + 1) if round.round < self.rounds else round.round + self.rounds
            later = [self.availability.available(t) for t in range(round.round + 1, end)]
            problem = ScheduleProblem(np.array([round.available, *later]), self.size, self.counts)
            solution = solve(problem)
            if solution.stopped == "interrupted":
                raise KeyboardInterrupt
            assert solution.x is not None
            self.plan, self.planned_from, place = solution.x.astype(np.bool_), round.round, 0
        clients = np.flatnonzero(self.plan[place])
        plain = aggregate(clients, round.sizes, self.aggregation)
        return Selection(clients, plain.weights, None, plain.on_failure, solution)

    def update(self, feedback: RoundFeedback) -> None:
        """Count the selected clients."""
        self.counts += feedback.outcomes >= Outcome.RETURNED


#: What is expected of the rounds to come: the truth, what is so now, or draws from how often each client was there.
Forecast = Literal["known", "persistent", "rates"]


@SELECTORS.register("rolling")
class Rolling(SelectorBase):
    """Plan the fairest schedule of some rounds ahead on a forecast, select by it, and plan anew in the next round.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    n_clients : int
        Number of clients N.
    horizon : int
        Rounds planned, the present one among them; 1 takes the clients of the fewest turns.
    forecast : {"rates", "persistent", "known"}
        Availability of the rounds after the present one: drawn from how often each client was there so far, as it is
        now, or the truth (an oracle).
    availability : Availability, optional
        The run's own, which ``"known"`` needs.
    method : str
        Any method registered for the schedule problem.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    state_names = ("counts", "seen", "played")

    def __init__(
        self,
        size: int,
        n_clients: int,
        *,
        horizon: int = 10,
        forecast: Forecast = "rates",
        availability: Availability | None = None,
        method: str = "auto",
        aggregation: Aggregation = "samples",
    ) -> None:
        self.size, self.horizon = check_size(size), check_count("horizon", horizon)
        self.n_clients = check_count("the number of clients", n_clients)
        self.forecast = check_choice("forecast", forecast, "known", "persistent", "rates")
        if forecast == "known" and availability is None:
            raise ConfigError("forecast 'known' looks the rounds to come up in the run's availability: give it, too")
        self.availability = availability
        self.method, self.aggregation = method, check_aggregation(aggregation)
        check_solving(ScheduleProblem, method)
        self.counts = np.zeros(n_clients, dtype=np.int64)
        self.seen = np.zeros(n_clients, dtype=np.int64)
        self.played = 0

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        problem = ScheduleProblem(np.array([round.available, *self._expected(round)]), self.size, self.counts)
        x, solution = solved(problem, self.method, round)
        clients = np.flatnonzero(x[0])
        plain = aggregate(clients, round.sizes, self.aggregation)
        return Selection(clients, plain.weights, None, plain.on_failure, solution)

    def _expected(self, round: RoundContext) -> list[NDArray[np.bool_]]:
        """Availability of the rounds of the horizon after the present one."""
        later = range(round.round + 1, round.round + self.horizon)
        if self.forecast == "persistent":
            return [round.available for _ in later]
        if self.availability is not None and self.forecast == "known":
            return [self.availability.available(t) for t in later]
        rates = (self.seen + round.available) / (self.played + 1)
        return [round.rng.random(rates.size) < rates for _ in later]

    def update(self, feedback: RoundFeedback) -> None:
        """Count who was selected, and who was there."""
        self.counts += feedback.outcomes >= Outcome.RETURNED
        self.seen += feedback.outcomes != Outcome.UNAVAILABLE
        self.played += 1
