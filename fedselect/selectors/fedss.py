"""Selector ``fedss``: stratified sampling from groups of similar clients (Tang & Wong, INFOCOM 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Rates,
    SelectorBase,
    availability_rates,
    check_federation,
    check_size,
    check_solving,
    positive_rates,
    solved,
)
from fedselect.selectors.constraints import RoundConstraints, constraints_of, describe, feasible_set
from solvers import Solution
from solvers.allocation import AllocationProblem, group_clients
from solvers.constraints import Quota
from solvers.errors import InvalidProblem


class FedSS(SelectorBase):
    r"""Draw from every group of similar clients, and give each group its weight in the population.

    With S_k of the A_k available clients of group k drawn uniformly without replacement, Eq. 9 is

    .. math:: a_n = W_k \frac{D_n}{\sum_{j \in S_k} D_j}, \qquad W_k = \frac{\sum_{n \in k} D_n}{\sum_n D_n},

    W over all clients, present or not. For equal D this is unbiased over availability and draw together when the
    clients of a group are exchangeable and every group has one drawn (Lemma 2); *given* who is available it estimates
    the mean over those present. For unequal D the inner ratio adds a bias of order 1/S_k.

    How many to draw solves a `solvers.allocation.AllocationProblem` in whole clients, at least one per group present
    and at most the available ones, which the closed form (19) does not know: FedSS-O with the deviations H_k, FedSS-P
    in proportion to group sizes. A group without an available client gets nothing, and without ``presence`` the W of
    the others are scaled up to sum to 1 (a bias; ``selection.solution.problem.covered`` is the share of clients that
    belongs to groups present).

    :math:`H_k` (Eq. 11) is estimated online, which the paper asks for without a formula: the sample variance of the
    updates of a group's clients that returned (two at least), :math:`\sum_n \|\Delta_n - \bar\Delta\|^2 / (S_k - 1)`,
    smoothed over rounds; where the engine passes no updates on, the variance of their norms, which is a lower bound.
    The common factor between updates and gradients cancels in the allocation. A group not measured yet counts as the
    largest of those that were (all are equal at first, where FedSS-O is FedSS-P), and no group counts as less than a
    twentieth of the mean of :math:`H^2`, so that an estimate of 0 does not confirm itself. With as many groups as
    clients to draw, all of them there, both variants draw one of each, and there is nothing to measure. FedSS-P
    measures nothing.

    Parameters
    ----------
    size : int
        Clients to draw, S; all of the available if they are fewer.
    groups : (N,) array-like of int
        Group of each client, 0 … K − 1, none empty; at most as many as clients to draw.
    variant : {"optimal", "proportional"}
        FedSS-O or FedSS-P.
    method : str, optional
        A method of the allocation problem that gives whole clients, instead of ``"auto"`` (exact) for FedSS-O and
        ``"proportional"`` for FedSS-P.
    smoothing : float
        Share in (0, 1] that a new measurement of :math:`H_k^2` has in the estimate.
    bound_by : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.base.solved`.
    presence : (K,) array-like, or callable ``round -> (K,)``, optional
        Probability π in (0, 1] that a group has a client there, for weights that make up for absent groups.
    constraints : RoundConstraints, optional
        Side constraints of every round. Every group gets a number of clients that they leave possible, and of all
        selections with these numbers that of the largest sum of random keys is drawn, which without constraints is a
        uniform draw from each group. Where constraints leave no such selection (a budget), every group has one client
        if that can be, those of a stratified draw are preferred, and the record says how many were allocated.
        Clients of a group may then differ in their probability, so that Lemma 2 need not hold; `Selection.inclusion`
        is None.
    """

    state_names: ClassVar[tuple[str, ...]] = ("variances",)

    #: Least estimate of a group's H², as a share of the mean over groups.
    LEAST = 0.05

    def __init__(
        self,
        size: int,
        *,
        groups: ArrayLike,
        variant: Literal["optimal", "proportional"] = "optimal",
        method: str | None = None,
        smoothing: float = 0.2,
        bound_by: str | None = None,
        presence: Rates | None = None,
        constraints: RoundConstraints | None = None,
    ) -> None:
        self.size, self.presence = check_size(size), presence
        self.variant = check_choice("variant", variant, "optimal", "proportional")
        self.method = method or ("auto" if variant == "optimal" else "proportional")
        self.bound_by = bound_by
        check_solving(AllocationProblem, self.method, bound_by)
        self.smoothing = check_number("smoothing", smoothing, 0, 1, open_low=True)
        labels = np.array(groups)
        if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in "iu" or labels.min() < 0:
            raise ConfigError("groups must be one whole number, from 0, for each client")
        self.groups, self.n_clients = labels.astype(np.int64), labels.size
        self.group_sizes = np.bincount(self.groups)
        if (self.group_sizes == 0).any():
            raise ConfigError(f"group {int(self.group_sizes.argmin())} has no client; number the groups without gaps")
        if self.group_sizes.size > self.size:
            raise ConfigError(
                f"there are {self.group_sizes.size} groups and only {self.size} clients to draw; each group needs one "
                "(merge groups, or cap their number when grouping)"
            )
        self.constraints = constraints
        if constraints is not None:
            constraints.check_clients(self.groups.size)
            self.state_names = ("variances", "constraints")  # type: ignore[misc]  # how long clients have waited
        self._order = np.argsort(self.groups, kind="stable")
        #: Smoothed sample variance of each group's updates; NaN until there is one.
        self.variances = np.full(self.group_sizes.size, np.nan)

    @classmethod
    def of(
        cls, federation: Federation, size: int, *, largest: int | None = None, seed: int = 0, **options: Any
    ) -> Self:
        """Build the selector; clients are grouped by their label distributions, unless ``groups`` are given.

        Parameters
        ----------
        federation, size, **options
            As for `fedselect.selectors.base.SelectorBase.of`.
        largest : int, optional
            Groups at most; as many as clients to draw by default.
        seed : int
            Of the grouping, `solvers.allocation.group_clients`.
        """
        if "groups" not in options:
            check_federation(cls, federation)
            options["groups"] = _groups_of(federation, check_size(size), largest, seed)
        return super().of(federation, size, **options)

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Estimates of H_k, shape (K,), over the root of the mean of H² (only their ratios matter)."""
        known = ~np.isnan(self.variances)
        mean = 0.0
        if known.any():
            mean = float(np.average(self.variances[known], weights=self.group_sizes[known]))
        if mean == 0.0:
            return np.ones(self.group_sizes.size)
        largest = float(self.variances[known].max())
        squares = np.maximum(np.where(known, self.variances, largest) / mean, self.LEAST)
        return np.sqrt(squares)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        if self.constraints is not None:
            return self._constrained(round, present, self.constraints)
        present = self._order[round.available[self._order]]  # sorted by group
        counts = np.bincount(self.groups[present], minlength=self.group_sizes.size)
        drawn, solution = self._allocated(
            AllocationProblem.fedss(self.group_sizes, self.deviations, counts, self.size), round
        )
        strata = np.split(present, np.cumsum(counts)[:-1])
        samples = [
            round.rng.choice(members, size=m, replace=False, shuffle=False)
            for members, m in zip(strata, drawn.tolist(), strict=True)
        ]
        clients = np.sort(np.concatenate(samples))
        share = np.divide(drawn, counts, out=np.zeros(counts.size), where=counts > 0)
        inclusion = np.where(round.available, share[self.groups], 0.0)
        return Selection(clients, self._weights(round, clients, counts > 0), inclusion, solution=solution)

    def _allocated(self, problem: AllocationProblem, round: RoundContext) -> tuple[NDArray[np.int64], Solution]:
        """Return how many clients of each group to draw."""
        x, solution = solved(problem, self.method, round, bound_by=self.bound_by)
        if not problem.integral(x):
            raise ConfigError(
                f"method {self.method!r} allots fractions of clients; use one of whole clients, like 'greedy'"
            )
        return x.astype(np.int64), solution

    def _constrained(self, round: RoundContext, present: NDArray[np.int64], constraints: RoundConstraints) -> Selection:
        """Draw under side constraints: the largest sum of random keys among what has the allocation and keeps them."""
        n, size, stated, gave_way = self.groups.size, *constraints.of_round(round, self.size)
        feasible = feasible_set(present, size, stated, n)
        groups = self.groups[present] == np.arange(self.group_sizes.size)[:, None]
        # How many of each group a selection can have at least and at most, but for budgets and groups that cross.
        least, most = (np.array([g @ feasible.core.best(sign * g) for g in groups]) for sign in (-1.0, 1.0))
        least, keys, solution = np.maximum(least, most > 0), round.rng.random(present.size), None
        tries: list[list[tuple[NDArray[np.bool_], int, int | None]]]
        tries = [[(g, 0, int(low)) for g, low in zip(groups, least, strict=True)], []]
        if least.sum() <= size:
            problem = AllocationProblem.fedss(self.group_sizes, self.deviations, most, size, least)
            drawn, solution = self._allocated(problem, round)
            tries = [
                [(g, count, count) for g, count in zip(groups, drawn.tolist(), strict=True)],
                [(g, int(low), None) for g, low in zip(groups, least, strict=True)],
                [],
            ]
        for number, strata in enumerate(tries):
            quotas = [
                Quota(present[g].tolist(), low, high, f"fedss group {k}") for k, (g, low, high) in enumerate(strata)
            ]
            try:
                within = feasible_set(present, size, stated | {"quotas": [*stated["quotas"], *quotas]}, n)
                x = within.round(keys)
                break
            except InvalidProblem:
                if solution is not None and number == 0:
                    gave_way = gave_way | {"allocation": drawn.tolist()}
                    for g, count in zip(groups, drawn.tolist(), strict=True):  # those of a stratified draw come first
                        keys[np.flatnonzero(g)[np.argsort(-keys[g])[:count]]] += 1.0
        clients = present[x == 1]
        weights = self._weights(round, clients, np.bincount(self.groups[clients], minlength=len(groups)) > 0)
        notes = {"constraints": describe(feasible.constraints, x, stated, gave_way)}
        return Selection(clients, weights, solution=solution, notes=notes)

    def update(self, feedback: RoundFeedback) -> None:
        """Measure the deviations within the groups that had two returns or more (FedSS-O), and count waits."""
        if self.constraints is not None:
            self.constraints.update(feedback)
        known = feedback.updates or feedback.norms
        if self.variant == "proportional" or not known:
            return
        returned = np.flatnonzero(feedback.outcomes == Outcome.RETURNED)
        labels = self.groups[returned]
        for k in np.flatnonzero(np.bincount(labels, minlength=1) >= 2).tolist():
            variance = _sample_variance(known[i] for i in returned[labels == k].tolist())
            old = self.variances[k]
            self.variances[k] = variance if np.isnan(old) else old + self.smoothing * (variance - old)

    def _weights(
        self, round: RoundContext, clients: NDArray[np.int64], present: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        sizes, k = round.sizes, self.group_sizes.size
        population = np.bincount(self.groups, sizes, minlength=k)
        sampled = np.bincount(self.groups[clients], sizes[clients], minlength=k)
        labels = self.groups[clients]
        shares = population / population[present].sum()
        if self.presence is not None:
            shares = population / population.sum()
            shares[present] /= positive_rates(self.presence, round.round, np.flatnonzero(present))
        return shares[labels] * sizes[clients] / sampled[labels]


def _sample_variance(vectors: Iterable[ArrayLike]) -> float:
    """Sum of squared distances from the mean over n − 1, one vector in memory at a time (Welford)."""
    mean: Any = 0.0
    total, n = 0.0, 0
    for n, vector in enumerate(vectors, start=1):
        x = np.asarray(vector, dtype=np.float64)
        step = x - mean
        mean = mean + step / n
        total += float(np.sum(step * (x - mean)))
    return total / (n - 1)


@SELECTORS.register("fedss")
def fedss(
    scenario: Scenario,
    *,
    variant: Literal["optimal", "proportional"] = "optimal",
    groups: list[int] | None = None,
    largest: int | None = None,
    method: str | None = None,
    smoothing: float = 0.2,
    bound_by: str | None = None,
    absent: Literal["rescale", "horvitz-thompson"] = "rescale",
    constraints: dict[str, Any] | None = None,
    clients_file: str | None = None,
) -> FedSS:
    """Draw from every group of similar clients, and give each group its weight in the population.

    Clients are grouped by their label distributions (§V-A, `solvers.allocation.group_clients`) into at most
    ``largest`` groups, by default as many as clients to draw, unless ``groups`` lists the group of each client.
    Where a group may be absent, ``absent="horvitz-thompson"`` divides each group's weight by the probability that it
    has a client there, instead of scaling the weights of those present to sum to 1: an oracle, of the true availability
    of clients that are independent of each other within a round. ``constraints`` and ``clients_file`` are those of
    ``fedgs``.
    """
    check_choice("absent", absent, "rescale", "horvitz-thompson")
    if groups is None:
        labels = _groups_of(scenario.federation, scenario.size, largest, scenario.seed)
    else:
        labels = np.array(groups, dtype=np.int64)
        if labels.size != scenario.n_clients:
            raise ConfigError(f"groups must have one entry per client, {scenario.n_clients}; got {labels.size}")
    selector = FedSS(
        scenario.size,
        groups=labels,
        variant=variant,
        method=method,
        smoothing=smoothing,
        bound_by=bound_by,
        constraints=constraints_of(scenario, constraints, clients_file),
    )
    if absent == "horvitz-thompson":
        rates = availability_rates(scenario)
        selector.presence = lambda round: group_presence(rates(round), selector.groups)
    return selector


def _groups_of(federation: Federation, size: int, largest: int | None, seed: int) -> NDArray[np.int64]:
    """Return the group of each client by its label distribution, at most as many groups as clients to draw."""
    most = check_count("the largest number of groups", min(size if largest is None else largest, size))
    return group_clients(federation.label_distributions, most, seed=seed).labels


def group_presence(rates: ArrayLike, groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability that each group has a client there, (K,), where clients (N,) are independent."""
    absent = np.ones(int(groups.max()) + 1)
    np.multiply.at(absent, groups, 1.0 - np.asarray(rates, dtype=np.float64))
    return 1.0 - absent
