"""Selector ``divfl``: clients whose updates stand for those of all others (Balakrishnan et al., ICLR 2022)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Importance,
    SelectorBase,
    aggregate,
    check_importance,
    check_size,
    check_solving,
    solved,
    target_importance,
)
from fedselect.selectors.constraints import RoundConstraints, check_constraints, constraints_of, describe, over
from fedselect.selectors.updates import UpdateStore
from graphs.reproducible import gram
from solvers import Solution
from solvers.coverage import CoverageProblem

#: Weights of the selected: importance of the clients that each stands for, or one of the house's aggregations.
Weighing = Literal["represented", "samples", "mean", "deadline"]


class DivFL(SelectorBase):
    r"""Select the clients whose updates represent all best: :math:`\min_S \sum_k \min_{i \in S} \|g_k - g_i\|`.

    Each round solves a `solvers.coverage.CoverageProblem`: rows are all clients that were heard, columns those of them
    that are available, :math:`s_{ki} = \max d - d_{ki}`. Distances are between the latest updates; those of clients
    that do not train stay as they are, the paper's variant without further communication. A client that was not heard
    cannot be compared: those are selected first, at random, until all have been; with ``warmup`` they all train at
    once in the first rounds, are compared and discarded (the authors' code compares all clients' gradients in round 0).

    The derivation replaces :math:`\sum_k \nabla F_k` by :math:`\sum_{i \in S} \gamma_i \nabla F_i`, where client i
    stands for γ clients, itself among them: ``aggregation="represented"``. The authors' code averages by samples.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    importance : (N,) array-like
        Target importance α, which the weights of the represented add up; sums to 1.
    features : (N, d) array-like, optional
        What clients are compared by for the whole run (label distributions, say) instead of their updates.
    method : str
        Any method registered for the coverage problem; the default ``"greedy"`` as published.
    bound_by : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.base.solved`.
    warmup : int
        Rounds in which every available client that was not heard trains for the comparison alone; none with
        ``features``.
    aggregation : {"represented", "samples", "mean", "deadline"}
        Weights of the selected.
    constraints : RoundConstraints, optional
        Side constraints of every round, for a method that keeps them; in the warm-up, budgets over the run alone.
        Clients that were not heard come first as far as these allow.

    Raises
    ------
    ConfigError
        When an argument is out of range or, in a round, the engine has no updates.
    UnknownMethod, InvalidOption
        For ``method`` and ``bound_by``, as `fedselect.selectors.base.check_solving` has it.
    """

    def __init__(
        self,
        size: int,
        *,
        importance: ArrayLike,
        features: ArrayLike | None = None,
        method: str = "greedy",
        bound_by: str | None = None,
        warmup: int = 0,
        aggregation: Weighing = "represented",
        constraints: RoundConstraints | None = None,
    ) -> None:
        self.size = check_size(size)
        self.importance = check_importance(importance)
        self.n_clients = self.importance.size
        self.method, self.bound_by = method, bound_by
        check_solving(CoverageProblem, method, bound_by)
        self.warmup = check_count("warmup", warmup, least=0)
        self.aggregation: Weighing = aggregation
        check_choice("aggregation", aggregation, "represented", "samples", "mean", "deadline")
        self.store: UpdateStore | None = None
        self.constraints = constraints
        if constraints is not None:
            check_constraints(constraints, self.importance.size, CoverageProblem, method)
        kept = {"store": features is None, "constraints": constraints is not None}
        self.state_names = tuple(name for name in kept if kept[name])  # type: ignore[misc]  # what decisions depend on
        if features is None:
            self.store = UpdateStore(self.importance.size, "divfl")
        elif warmup:
            raise ConfigError(f"warmup must be 0 where features are given: nobody trains to be compared; got {warmup}")
        else:
            try:
                rows = np.asarray(features, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                raise ConfigError(
                    f"features must be one row of numbers for each client; got {features!r:.80}"
                ) from None
            if rows.ndim != 2 or len(rows) != self.importance.size or not np.isfinite(rows).all():
                raise ConfigError(f"features must be one row of numbers for each client; got shape {rows.shape}")
            products = gram(rows)  # to the same bits on every processor
            squares = products.diagonal()
            self._distances = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * products, 0.0))

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        known = np.ones(round.available.size, dtype=np.bool_) if self.store is None else self.store.known
        fresh = present[~known[present]]
        if round.round < self.warmup:
            return Selection(fresh, np.zeros(fresh.size))
        if self.constraints is not None:
            return self._constrained(round, present, known, self.constraints)
        m = min(self.size, present.size)
        first = np.sort(round.rng.choice(fresh, min(m, fresh.size), replace=False))
        rows, columns, solution = np.flatnonzero(known), present[known[present]], None
        clients = first
        if first.size < m:
            problem = CoverageProblem(self._similarity(rows, columns), m - first.size)
            _, solution = solved(problem, self.method, round, bound_by=self.bound_by)
            clients = np.sort(np.concatenate([first, columns[solution.selected]]))
        return self._weighted(round, clients, first, rows, columns, solution)

    def _similarity(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        d = self._distances[:, columns] if self.store is None else self.store.distances(rows, columns)
        return d.max() - d

    def _constrained(
        self,
        round: RoundContext,
        present: NDArray[np.int64],
        known: NDArray[np.bool_],
        constraints: RoundConstraints,
    ) -> Selection:
        """Select under side constraints: clients that were not heard are included as far as these allow."""
        fresh = round.rng.permutation(present[~known[present]])
        size, stated, gave_way = constraints.of_round(round, self.size, wanted=fresh.tolist())
        rows, columns = np.flatnonzero(known), present[known[present]]
        similarity = np.zeros((max(rows.size, 1), present.size))  # of a client that was not heard: the least
        if columns.size:
            similarity[:, known[present]] = self._similarity(rows, columns)
        problem = CoverageProblem(similarity, size, **over(present, stated, known.size))
        _, solution = solved(problem, self.method, round, bound_by=self.bound_by)
        assert solution.x is not None
        clients = present[solution.selected]
        first = clients[~known[clients]]
        # Weights speak of those that were compared: all columns have a row, those not heard stand for themselves.
        found = self._weighted(round, clients, first, rows, present, solution if rows.size else None)
        notes = {"constraints": describe(problem.constraints, solution.x, stated, gave_way)}
        return replace(found, solution=solution, notes=notes)

    def _weighted(
        self,
        round: RoundContext,
        clients: NDArray[np.int64],
        first: NDArray[np.int64],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        solution: Solution | None,
    ) -> Selection:
        if self.aggregation != "represented":
            plain = aggregate(clients, round.sizes, self.aggregation)
            return Selection(clients, plain.weights, None, plain.on_failure, solution)
        return Selection(
            clients, self._represented(clients, first, rows, columns, solution), None, "renormalise", solution
        )

    def _represented(
        self,
        clients: NDArray[np.int64],
        first: NDArray[np.int64],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        solution: Solution | None,
    ) -> NDArray[np.float64]:
        """Add up the importance that each selected client stands for, its own among it; they sum to 1."""
        total = np.zeros(self.importance.size)
        total[first] = self.importance[first]
        if solution is not None:
            problem = solution.problem
            assert isinstance(problem, CoverageProblem)
            assert solution.x is not None
            owner = columns[problem.representatives(solution.x)]
            stands = np.isin(rows, clients)
            owner[stands] = rows[stands]  # of equal clients, each selected one stands for itself
            np.add.at(total, owner, self.importance[rows])
        return total[clients] / total[clients].sum()

    def update(self, feedback: RoundFeedback) -> None:
        """Keep the updates that came; in the warm-up, those of all that trained. Count how long clients wait."""
        if self.constraints is not None:
            (self.constraints.update if feedback.round >= self.warmup else self.constraints.spend)(feedback)
        if self.store is not None and (feedback.outcomes == Outcome.RETURNED).any():
            self.store.observe(feedback)


@SELECTORS.register("divfl")
def divfl(
    scenario: Scenario,
    *,
    features: Literal["updates", "labels"] = "updates",
    method: str = "greedy",
    bound_by: str | None = None,
    warmup: int = 0,
    aggregation: Weighing = "represented",
    importance: Importance = "samples",
    constraints: dict[str, Any] | None = None,
    clients_file: str | None = None,
) -> DivFL:
    """Select the clients whose updates (or label distributions) represent those of all best.

    ``method="auto"`` proves each round's selection unless the time limit ends it; ``"greedy"`` is as published.
    ``features="labels"`` compares what the server does not know (an oracle).
    ``constraints`` and ``clients_file`` are those of ``fedgs``; of the toolkit's methods all but
    ``"stochastic-greedy"`` keep them.
    """
    check_choice("features", features, "updates", "labels")
    return DivFL(
        scenario.size,
        importance=target_importance(scenario, importance),
        features=scenario.federation.label_distributions if features == "labels" else None,
        method=method,
        bound_by=bound_by,
        warmup=warmup,
        aggregation=aggregation,
        constraints=constraints_of(scenario, constraints, clients_file),
    )
