"""Selectors that rank the available clients by a score and take the largest: losses, rates, variance, confidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability.protocol import check_rates
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    Importance,
    Part,
    Rates,
    SelectorBase,
    aggregate,
    availability_rates,
    check_aggregation,
    check_federation,
    check_importance,
    check_length,
    check_size,
    largest,
    positive_rates,
    rates_at,
    target_importance,
)
from fedselect.selectors.base import losses as probed
from fedselect.selectors.constraints import RoundConstraints, constraints_of, describe, feasible_set


class PowerOfChoice(SelectorBase):
    r"""Draw d candidates in proportion to their data, and select the m with the largest losses.

    pow-d of Cho, Wang and Joshi (2020): the candidates come without replacement with probability proportional to
    :math:`n_k`; each reports the loss of the current global model; the mean of the m selected models follows. Towards
    the clients with large losses it is biased on purpose. d = m is a random draw, d = N is greedy. Of equal losses,
    without constraints, the lower id is selected.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    candidates : int, optional
        d ≥ m; 2m by default (the paper tries several, E3CS does not give its own). Beyond the number of available
        clients all of them are candidates.
    aggregation : {"mean", "samples", "deadline"}
        See `fedselect.selectors.base.aggregate`: the plain ``"mean"`` in the paper and in FedGS's code,
        ``"deadline"`` in E3CS's comparison.
    losses : {"training", "validation"}
        Which samples a client measures the loss on: those it trains on, as in the paper, or those it has held out, as
        in FedGS's code.
    constraints : RoundConstraints, optional
        Side constraints of every round: of the candidates, those of the largest sum of losses that keep them are
        selected. Clients that must come are candidates too.

    Raises
    ------
    ConfigError
        When an argument is out of range, or (in the round) no finite losses can be had or no client can be selected
        under the constraints.
    """

    def __init__(
        self,
        size: int,
        *,
        candidates: int | None = None,
        aggregation: Aggregation = "mean",
        losses: Part = "training",
        constraints: RoundConstraints | None = None,
    ) -> None:
        self.size = check_size(size)
        self.candidates = check_count("the number of candidates", 2 * self.size if candidates is None else candidates)
        if self.candidates < self.size:
            raise ConfigError(
                f"there must be at least as many candidates as clients to select, {size}; got {candidates}"
            )
        self.aggregation = check_aggregation(aggregation)
        self.losses: Part = losses
        check_choice("losses", losses, "training", "validation")
        self.constraints = constraints

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        if self.candidates < present.size:
            share = round.sizes[present] / round.sizes[present].sum()
            present = np.sort(round.rng.choice(present, size=self.candidates, replace=False, p=share))
        if self.constraints is not None:
            return self._constrained(round, present, self.constraints)
        scores = probed(round, present, "power-of-choice", self.losses)
        return aggregate(largest(scores, present, self.size), round.sizes, self.aggregation)

    def _constrained(self, round: RoundContext, present: NDArray[np.int64], constraints: RoundConstraints) -> Selection:
        """Select the largest sum of losses that keeps the constraints."""
        candidates = np.zeros(round.available.size, dtype=np.bool_)
        candidates[present] = True
        candidates |= constraints.awaited(round.available)
        size, stated, gave_way = constraints.of_round(round, self.size, candidates)
        present = np.flatnonzero(candidates)
        scores = probed(round, present, "power-of-choice", self.losses)
        feasible = feasible_set(present, size, stated, round.available.size)
        x = feasible.best(scores)
        selection = aggregate(present[x == 1], round.sizes, self.aggregation)
        return replace(selection, notes={"constraints": describe(feasible.constraints, x, stated, gave_way)})

    def update(self, feedback: RoundFeedback) -> None:
        """Count how long clients wait, where constraints ask for it."""
        if self.constraints is not None:
            self.constraints.update(feedback)

    def state_dict(self) -> dict[str, Any]:
        """Return how long clients have waited, where constraints ask for it."""
        return {} if self.constraints is None else self.constraints.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        if self.constraints is not None:
            self.constraints.load_state_dict(state)


@SELECTORS.register("power-of-choice", "pow-d")
def power_of_choice(
    scenario: Scenario,
    *,
    candidates: int | None = None,
    convention: Literal["paper", "fedgs"] = "paper",
    aggregation: Aggregation = "mean",
    losses: Part | None = None,
    constraints: dict[str, Any] | None = None,
    clients_file: str | None = None,
) -> PowerOfChoice:
    """Select the largest losses among d candidates drawn in proportion to data.

    ``convention="fedgs"`` is what FedGS's authors run: all available clients are candidates, and the default of
    ``losses`` is ``"validation"`` where samples were held out. In all other cases that is ``"training"``.
    ``constraints`` and ``clients_file`` are those of ``fedgs``.
    """
    if convention == "fedgs":
        if candidates is not None:
            raise ConfigError(
                "selector 'power-of-choice': convention 'fedgs' has all clients as candidates; leave candidates"
            )
        candidates = max(scenario.n_clients, scenario.size)
    if losses is None:
        held_out = convention == "fedgs" and scenario.data is not None and bool(scenario.data.validation)
        losses = "validation" if held_out else "training"
    return PowerOfChoice(
        scenario.size,
        candidates=candidates,
        aggregation=aggregation,
        losses=losses,
        constraints=constraints_of(scenario, constraints, clients_file),
    )


class FedCS(SelectorBase):
    """Select the m available clients with the largest true success rates, ties broken by id.

    FedCS as E3CS adapts it to volatile clients (Huang et al., IEEE IoT-J 2022, Appendix A): an oracle that maximises
    the expected number of returns. Of equal rates the lower id wins, so that the same clients are selected in every
    round, as in E3CS's Fig. 3. (The original of Nishio and Yonetani 2019 packs clients under a deadline by their
    latencies; that is `fedselect.selectors.TimedFedCS`, which the selector ``fedcs`` is where there is a clock.)

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    rates : (N,) array-like, or callable ``round -> (N,)``
        True success rates ρ.
    aggregation : {"deadline", "samples", "mean"}
        See `fedselect.selectors.base.aggregate`; ``"deadline"`` in E3CS's comparison.
    """

    def __init__(self, size: int, *, rates: Rates, aggregation: Aggregation = "deadline") -> None:
        self.rates, self.size, self.n_clients = rates, check_size(size), None
        if not callable(rates):
            self.rates = check_rates(rates, "rates")
            self.n_clients = self.rates.size
        self.aggregation = check_aggregation(aggregation)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        scores = check_rates(rates_at(self.rates, round.round), "rates")[present]
        return aggregate(largest(scores, present, self.size), round.sizes, self.aggregation)


class CSUCBQ(SelectorBase):
    r"""Select the m available clients with the largest :math:`(1 - \beta)\, \hat y_k + \beta\, Q_k`.

    CS-UCB-Q (Xia et al., IEEE TWC 19(11), 2020), FedSS's baseline. In round t (from 1), with z the times selected
    and ȳ the mean reward so far, :math:`\hat y = \min(\bar y + \sqrt{2 \ln t / z},\, 1)`, 1 for z = 0; the queue
    :math:`Q \leftarrow \max(Q + c - b,\, 0)` grows by the fraction c of rounds a client is owed, available or not,
    and b = 1 after a round in which it was selected. Ties are broken at random.

    The paper could not be consulted; this follows three public codes where they agree, except that only the available
    are ranked (as the abstract says, and as none of these codes does). FedSS gives no latencies for the reward
    :math:`1 - \tau / \tau_{\max}`; here a client that returns earns 1, and one that misses the deadline 0. When all
    return, ŷ = 1 for all and, with β > 0, the longest queue is served first: a fair rotation.

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
    """

    state_names = ("times", "reward", "queue")

    def __init__(
        self, size: int, *, fractions: ArrayLike, beta: float = 0.5, aggregation: Aggregation = "samples"
    ) -> None:
        self.fractions = check_rates(fractions, "fractions").copy()
        self.size, self.n_clients = check_size(size), self.fractions.size
        self.beta = check_number("beta", beta, 0, 1)
        self.aggregation = check_aggregation(aggregation)
        self.times = np.zeros(self.fractions.size, dtype=np.int64)
        self.reward = np.zeros(self.fractions.size)
        self.queue = self.fractions.copy()  # what Q = 0 becomes in the first round

    @classmethod
    def of(cls, federation: Federation, size: int, *, owed: float = 0.5, **options: Any) -> Self:
        r"""Build the selector; client k is owed :math:`\min(1, \varphi\, m\, n_k / \sum_i n_i)`, φ = ``owed``."""
        check_federation(cls, federation)
        options.setdefault("fractions", _owed(federation.sizes, check_size(size), owed))
        return super().of(federation, size, **options)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        z = np.maximum(self.times[present], 1)
        bonus = np.sqrt(2.0 * np.log(round.round + 1.0) / z)
        estimate = np.where(self.times[present] > 0, np.minimum(self.reward[present] + bonus, 1.0), 1.0)
        index = (1.0 - self.beta) * estimate + self.beta * self.queue[present]
        clients = largest(index, present, self.size, ties=round.rng.random(present.size))
        return aggregate(clients, round.sizes, self.aggregation)

    def update(self, feedback: RoundFeedback) -> None:
        """Record the rewards, and let the queues grow."""
        selected = feedback.outcomes >= Outcome.RETURNED
        gained = (feedback.outcomes == Outcome.RETURNED).astype(np.float64)
        self.times += selected
        self.reward += np.where(selected, (gained - self.reward) / np.maximum(self.times, 1), 0.0)
        self.queue = np.maximum(self.queue + self.fractions - selected, 0.0)


@SELECTORS.register("cs-ucb-q")
def cs_ucb_q(
    scenario: Scenario, *, beta: float = 0.5, owed: float = 0.5, aggregation: Aggregation = "samples"
) -> CSUCBQ:
    r"""Select by an upper confidence bound on the reward beside a fairness queue (FedSS's baseline).

    The fraction owed to client k is :math:`\min(1, \varphi\, m\, n_k / \sum_i n_i)`, φ = ``owed`` in [0, 1].
    """
    fractions = _owed(scenario.sizes, scenario.size, owed)
    return CSUCBQ(scenario.size, fractions=fractions, beta=beta, aggregation=aggregation)


def _owed(sizes: NDArray[np.int64], size: int, owed: float) -> NDArray[np.float64]:
    """Return the fraction of rounds that each client is owed, (N,)."""
    return np.minimum(1.0, check_number("owed", owed, 0, 1) * size * sizes / sizes.sum())


class F3AST(SelectorBase):
    r"""Select the m available clients with the largest :math:`\alpha_k^2 / r_k^2`, r the learnt rate of selection.

    F3AST (Ribero, Vikalo and de Veciana, 2022): these are the steepest components of :math:`-\nabla H(r)`,
    :math:`H(r) = \sum_k \alpha_k^2 / r_k`, the variance of the aggregate. Then :math:`r \leftarrow (1 - \beta) r +
    \beta\, 1\{k \in S\}`, and the updates weigh :math:`\alpha_k / r_k` with the updated r. Of equal values the lower
    id is selected.

    The authors' code also divides the aggregate by m; that is a factor of the server learning rate, and is left to it.
    It starts at r = α, which sums to 1 and not to m: the weights of the first rounds are then about m times too large
    (which the division hides). The start here is a rate that can be reached, :math:`\min(1, m \alpha_k)`, unless
    ``start`` says otherwise. Dividing by a rate that has just moved with the selection itself leaves a bias of order
    :math:`\beta / r_k` in the long run.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    importance : (N,) array-like
        Target importance α; sums to 1.
    beta : float
        β in (0, 1], how fast r follows; 0.01 in the authors' code.
    start : (N,) array-like, optional
        Initial r, in (0, 1].
    """

    state_names = ("rate",)

    def __init__(self, size: int, *, importance: ArrayLike, beta: float = 0.01, start: ArrayLike | None = None) -> None:
        self.importance = check_importance(importance)
        self.size, self.n_clients = check_size(size), self.importance.size
        self.beta = check_number("beta", beta, 0, 1, open_low=True)
        rate = np.minimum(1.0, self.size * self.importance) if start is None else np.array(start, dtype=np.float64)
        if rate.shape != self.importance.shape or not ((rate > 0) & (rate <= 1)).all():
            raise ConfigError(
                f"start must be one rate in (0, 1] for each of {self.importance.size} clients; got {rate}"
            )
        self.rate = rate

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        clients = largest((self.importance / self.rate)[present], present, self.size)
        return Selection(clients, self.importance[clients] / self._moved(clients)[clients])

    def update(self, feedback: RoundFeedback) -> None:
        """Move the rates towards the selected clients."""
        self.rate = self._moved(feedback.selection.clients)

    def _moved(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        rate = (1.0 - self.beta) * self.rate
        rate[clients] += self.beta
        return rate


class OracleF3AST(SelectorBase):
    r"""F3AST as CA-Fed's authors code it for their comparison: the rates are the true availabilities.

    :math:`r_k = (1 - b) \pi_k + b\, 1\{k \in A\}`, and the m available clients with the largest :math:`\alpha_k^2 /
    r_k^2` weigh :math:`\alpha_k / r_k`. As π is read afresh each round, r never accumulates, so it is neither the rate
    of selection nor does it make the aggregate unbiased when fewer than the available are selected.

    Parameters
    ----------
    size : int
        Clients to select; 12 of 24 in their scripts.
    importance : (N,) array-like
        Target importance α; sums to 1.
    rates : (N,) array-like, or callable ``round -> (N,)``
        True availability π.
    beta : float
        b in [0, 1]; one over the number of rounds in their code.
    """

    def __init__(self, size: int, *, importance: ArrayLike, rates: Rates, beta: float = 0.0) -> None:
        self.importance = check_importance(importance)
        self.size, self.n_clients = check_size(size), self.importance.size
        self.rates = check_length(rates, self.n_clients)
        self.beta = check_number("beta", beta, 0, 1)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        weights = np.zeros(round.available.size)
        rate = (1.0 - self.beta) * positive_rates(self.rates, round.round, present) + self.beta
        weights[present] = self.importance[present] / rate
        clients = largest(weights[present], present, self.size)
        return Selection(clients, weights[clients])


@SELECTORS.register("f3ast")
def f3ast(
    scenario: Scenario,
    *,
    convention: Literal["paper", "code", "ca-fed"] = "paper",
    beta: float | None = None,
    importance: Importance = "samples",
) -> F3AST | OracleF3AST:
    """Select the clients whose selection lowers the sampling variance most.

    ``convention="ca-fed"`` is what CA-Fed's authors compare with: the true availability (an oracle) stands for the
    learnt rate of selection. ``beta`` is 0.01 as published and 1/T there. ``convention="code"`` starts from the
    importance, as F3AST's own code does, and ``"paper"`` from rates that can be reached.
    """
    alpha = target_importance(scenario, importance)
    if convention == "ca-fed":
        beta = 1.0 / scenario.rounds if beta is None else beta
        return OracleF3AST(scenario.size, importance=alpha, rates=availability_rates(scenario), beta=beta)
    initial = alpha if convention == "code" else None
    return F3AST(scenario.size, importance=alpha, beta=0.01 if beta is None else beta, start=initial)
