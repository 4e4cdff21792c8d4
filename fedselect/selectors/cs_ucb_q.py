"""Selector ``cs-ucb-q``: an upper confidence bound on the reward beside a fairness queue (Xia et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    Described,
    aggregate,
    check_choice,
    check_number,
    check_size,
    nobody,
)

__all__ = ["CSUCBQ"]


class CSUCBQ(Described):
    r"""Select the m available clients with the largest :math:`(1 - \beta)\, \hat y_k + \beta\, Q_k`.

    CS-UCB-Q (Xia et al., IEEE TWC 19(11), 2020), FedSS's baseline. In round t (from 1), with z the times selected
    and ȳ the mean reward so far, :math:`\hat y = \min(\bar y + \sqrt{2 \ln t / z},\, 1)`, 1 for z = 0; the queue
    :math:`Q \leftarrow \max(Q + c - b,\, 0)` grows by the fraction c of rounds a client is owed, available or not,
    and b = 1 after a round in which it was selected. Ties are broken at random.

    The paper could not be consulted; this follows three public codes where they agree, except that only the available
    are ranked (as the abstract says, and as none of these codes does). FedSS gives no latencies for the reward
    :math:`1 - \tau / \tau_{\max}`; here a client that returns earns 1, and one that misses the deadline 0. When all
    return, ŷ = 1 for everybody and the longest queue is served first: a fair rotation.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    fractions : (N,) array-like
        c in [0, 1]: the share of rounds each client is owed; feasible only when they sum to at most m and each is at
        most the client's availability.
    beta : float
        β in [0, 1], the queue against the reward.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`; ``"samples"`` is FedSS's Eq. 3.

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(
        self, size: int, *, fractions: ArrayLike, beta: float = 0.5, aggregation: Aggregation = "samples"
    ) -> None:
        self.fractions = np.array(fractions, dtype=np.float64)
        if self.fractions.ndim != 1 or not ((self.fractions >= 0) & (self.fractions <= 1)).all():
            raise ConfigError(f"fractions must be one number in [0, 1] for each client; got {fractions!r}")
        self.size = check_size(size)
        self.beta = check_number("beta", beta, 0, 1)
        self.aggregation: Aggregation = aggregation
        check_choice("aggregation", aggregation, ("samples", "mean", "deadline"))
        self.times = np.zeros(self.fractions.size, dtype=np.int64)
        self.reward = np.zeros(self.fractions.size)
        self.queue = self.fractions.copy()  # what Q = 0 becomes in the first round

    def select(self, round: RoundContext) -> Selection:
        """Serve the largest indices."""
        present = np.flatnonzero(round.available)
        if present.size == 0:
            return nobody()
        z = np.maximum(self.times[present], 1)
        bonus = np.sqrt(2.0 * np.log(round.round + 1.0) / z)
        estimate = np.where(self.times[present] > 0, np.minimum(self.reward[present] + bonus, 1.0), 1.0)
        index = (1.0 - self.beta) * estimate + self.beta * self.queue[present]
        order = np.lexsort((round.rng.random(present.size), -index))
        return aggregate(np.sort(present[order[: self.size]]), round.sizes, self.aggregation)

    def update(self, feedback: RoundFeedback) -> None:
        """Record the rewards, and let the queues grow."""
        selected = feedback.outcomes >= Outcome.RETURNED
        gained = (feedback.outcomes == Outcome.RETURNED).astype(np.float64)
        self.times += selected
        self.reward += np.where(selected, (gained - self.reward) / np.maximum(self.times, 1), 0.0)
        self.queue = np.maximum(self.queue + self.fractions - selected, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return times selected, mean rewards and queues."""
        return {"times": self.times.copy(), "reward": self.reward.copy(), "queue": self.queue.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore times selected, mean rewards and queues."""
        self.times = np.array(state["times"], dtype=np.int64)
        self.reward = np.array(state["reward"], dtype=np.float64)
        self.queue = np.array(state["queue"], dtype=np.float64)


@SELECTORS.register("cs-ucb-q")
def cs_ucb_q(
    scenario: Scenario, *, beta: float = 0.5, owed: float = 0.5, aggregation: Aggregation = "samples"
) -> CSUCBQ:
    r"""Select by an upper confidence bound on the reward beside a fairness queue (FedSS's baseline).

    The fraction owed to client k is :math:`\min(1, \varphi\, m\, n_k / \sum_i n_i)`, φ = ``owed`` in [0, 1].
    """
    check_number("owed", owed, 0, 1)
    sizes = scenario.sizes
    fractions = np.minimum(1.0, owed * scenario.size * sizes / sizes.sum())
    return CSUCBQ(scenario.size, fractions=fractions, beta=beta, aggregation=aggregation)
