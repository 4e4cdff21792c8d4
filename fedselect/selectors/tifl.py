"""Selector ``tifl``: one tier of clients of similar latency per round."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_count
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import SELECTORS, Aggregation, SelectorBase, aggregate, check_aggregation, check_size


class TiFL(SelectorBase):
    r"""Select uniformly in a tier of clients of similar latency, so that none waits for a straggler of another.

    TiFL (Chai et al., HPDC 2020). Clients are sorted by the latency that profiling finds (the clock's expected duration
    of a round) into tiers of equal size, or larger by one, fastest first. A round draws a tier, and m of its available
    clients. The adaptive rule (Algorithm 2) gives each tier credits, one of which a selection costs, and every
    ``interval`` rounds, where the tier selected has not become better, deals probabilities anew by accuracy: the n
    tiers in ascending order of it get :math:`(n - i) / (n (n - 1) / 2)`, i = 1..n. The paper tests the model on each
    tier's clients; here a tier is as good as the mean loss of the received model at its clients when they last trained
    is low. Tiers of one loss share their probabilities, and those whose loss is not known yet are the worst: where
    nobody trains, as in `fedselect.rounds.simulate`, all tiers stay equally likely.

    Tiers of which nobody is available are left out of the draw, as are those without credits while others have some.

    Parameters
    ----------
    size : int
        Clients to select, m; fewer where the tier has fewer available.
    latencies : (N,) array-like, optional
        Seconds that each client takes; those that the clock of the first round expects, if left out.
    n_tiers : int
        Number of tiers; 5 in the paper. More than N are refused in the first round.
    credits : int, optional
        Rounds in which each tier may be selected; no limit by default.
    interval : int
        Rounds between two looks at the probabilities, I.
    is_adaptive : bool
        False keeps the probabilities equal, the paper's "uniform" policy.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    state_names = ("shares", "credits", "losses", "previous", "tier")

    def __init__(
        self,
        size: int,
        *,
        latencies: ArrayLike | None = None,
        n_tiers: int = 5,
        credits: int | None = None,
        interval: int = 20,
        is_adaptive: bool = True,
        aggregation: Aggregation = "samples",
    ) -> None:
        self.size = check_size(size)
        n_tiers = check_count("n_tiers", n_tiers)
        self.interval, self.is_adaptive = check_count("interval", interval), is_adaptive
        self.aggregation = check_aggregation(aggregation)
        #: Tier of each client, 0 for the fastest; known from the first round on.
        self.tiers = np.empty(0, dtype=np.int64)
        self._latencies = None if latencies is None else _seconds(latencies)
        self.shares = np.full(n_tiers, 1.0 / n_tiers)
        limit = math.inf if credits is None else check_count("credits", credits)
        self.credits = np.full(n_tiers, limit, dtype=np.float64)
        self.losses = np.full(n_tiers, math.inf)  # of the tiers' clients, when they last trained
        self.previous = np.full(n_tiers, math.inf)  # those of the last look
        self.tier = 0

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        if not self.tiers.size:
            self._deal(round)
        if self.is_adaptive and round.round and round.round % self.interval == 0:
            self._look()
        there = np.bincount(self.tiers[present], minlength=self.shares.size) > 0
        able = there & (self.credits > 0)
        able = able if able.any() else there
        shares = np.where(able, self.shares, 0.0)
        shares = shares if shares.sum() > 0 else able.astype(np.float64)
        self.tier = int(round.rng.choice(shares.size, p=shares / shares.sum()))
        self.credits[self.tier] = max(self.credits[self.tier] - 1.0, 0.0)
        members = present[self.tiers[present] == self.tier]
        clients = np.sort(round.rng.choice(members, size=min(self.size, members.size), replace=False))
        return aggregate(clients, round.sizes, self.aggregation)

    def _deal(self, round: RoundContext) -> None:
        """Deal the clients into tiers by their latencies."""
        if self._latencies is None and round.clock is None:
            raise ConfigError(
                "selector 'tifl' sorts clients by the durations of their rounds, and this round has no clock"
            )
        seconds = np.asarray(round.clock.expected if self._latencies is None and round.clock else self._latencies)
        if seconds.size != round.available.size or self.shares.size > seconds.size:
            raise ConfigError(
                f"selector 'tifl': {round.available.size} clients cannot be of {self.shares.size} tiers by "
                f"{seconds.size} latencies"
            )
        self.n_clients = seconds.size
        self.tiers = np.empty(seconds.size, dtype=np.int64)
        for tier, members in enumerate(np.array_split(np.argsort(seconds, kind="stable"), self.shares.size)):
            self.tiers[members] = tier

    def _look(self) -> None:
        """Deal the probabilities by loss where the tier selected last has not become better."""
        if self.losses[self.tier] >= self.previous[self.tier]:
            n = self.shares.size
            worst_first = np.argsort(-self.losses, kind="stable")
            self.shares = np.ones(1) if n == 1 else np.empty(n)
            if n > 1:
                self.shares[worst_first] = np.arange(n - 1, -1, -1) / (n * (n - 1) / 2)
                tie = np.unique(self.losses, return_inverse=True)[1]
                self.shares = (np.bincount(tie, self.shares) / np.bincount(tie))[tie]
        self.previous = self.losses.copy()

    def update(self, feedback: RoundFeedback) -> None:
        """Note how well the model served the clients of the tier."""
        if feedback.received_losses:
            self.losses[self.tier] = float(np.mean(list(feedback.received_losses.values())))


def _seconds(latencies: ArrayLike) -> NDArray[np.float64]:
    """Return latencies, (N,); raise `ConfigError` for others."""
    try:
        seconds = np.asarray(latencies, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        seconds = np.array(np.nan)
    if seconds.ndim != 1 or not (seconds >= 0).all():
        raise ConfigError(f"latencies must be one number of seconds, from 0, for each client; got {latencies!r:.80}")
    return seconds


@SELECTORS.register("tifl")
def tifl(
    scenario: Scenario,
    *,
    n_tiers: int = 5,
    credits: int | None = None,
    interval: int = 20,
    is_adaptive: bool = True,
    aggregation: Aggregation = "samples",
) -> TiFL:
    """Select uniformly in a tier of clients of similar latency; the tier is drawn adaptively. It needs a clock."""
    if scenario.clock is None:
        raise ConfigError("selector 'tifl' sorts clients by the durations of their rounds: give the run a [clock]")
    return TiFL(
        scenario.size,
        n_tiers=n_tiers,
        credits=credits,
        interval=interval,
        is_adaptive=is_adaptive,
        aggregation=aggregation,
    )
