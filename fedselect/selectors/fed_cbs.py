"""Selector ``fed-cbs``: clients whose labels together are balanced (Zhang et al., ICML 2023)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import DataError
from fedselect.options import check_number
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
from fedselect.selectors.constraints import RoundConstraints, check_constraints, describe, over
from solvers import InvalidProblem
from solvers.balance import BalanceProblem


@SELECTORS.register("fed-cbs")
class FedCBS(SelectorBase):
    r"""Draw clients whose labels together are balanced, exploring the seldom drawn; ``method="auto"`` proves the best.

    Fed-CBS takes the clients' label counts, of which the server learns inner products alone in the paper, under
    homomorphic encryption. Each round states a `solvers.balance.BalanceProblem` over the available clients. As
    published, clients are drawn in proportion to :math:`1 / \mathrm{QCID}^{\beta_k}`, where the first has
    :math:`\lambda \sqrt{3 \ln t / (2 T_i)}` added: t is the round, from 1, and T one more than the times that it was
    selected (`solvers.balance.draw_fed_cbs`). Other methods decide without exploration: ``"auto"`` proves the most
    balanced selection unless the time limit ends it.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    label_counts : (N, B) array-like of int
        Samples of each class that each client has.
    exploration : float
        λ ≥ 0; 10 in the paper's experiments.
    method : str
        Any method registered for the balance problem; ``"fed-cbs"`` as published.
    bound_by : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.base.solved`.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    constraints : RoundConstraints, optional
        Side constraints of every round, for a method that keeps them: not ``"fed-cbs"``, which draws.

    Raises
    ------
    ConfigError, DataError
        When an argument is out of range, or the label counts are none.
    UnknownMethod, InvalidOption
        For ``method`` and ``bound_by``, as `fedselect.selectors.base.check_solving` has it.
    """

    state_names: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(
        self,
        size: int,
        *,
        label_counts: ArrayLike,
        exploration: float = 10.0,
        method: str = "fed-cbs",
        bound_by: str | None = None,
        aggregation: Aggregation = "samples",
        constraints: RoundConstraints | None = None,
    ) -> None:
        self.size = check_size(size)
        try:
            self.label_counts = BalanceProblem(np.asarray(label_counts), 1).label_counts
        except InvalidProblem as error:
            raise DataError(f"Fed-CBS cannot select by these label counts: {error}") from error
        self.exploration = check_number("exploration", exploration)
        self.method, self.bound_by = method, bound_by
        check_solving(BalanceProblem, method, bound_by)
        self.aggregation = check_aggregation(aggregation)
        self.n_clients = len(self.label_counts)
        self.counts = np.zeros(self.n_clients, dtype=np.int64)
        self.constraints = constraints
        if constraints is not None:
            check_constraints(constraints, self.counts.size, BalanceProblem, method)
            self.state_names = ("counts", "constraints")  # type: ignore[misc]  # how long clients have waited

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        size, stated, gave_way = min(self.size, present.size), dict[str, Any](), dict[str, Any]()
        here = stated
        if self.constraints is not None:
            size, stated, gave_way = self.constraints.of_round(round, self.size)
            here = over(present, stated, self.counts.size)
        problem = BalanceProblem(self.label_counts[present], size, **here)
        options: dict[str, Any] = {}
        if self.method == "fed-cbs":
            turns = self.counts[present] + 1
            options["bonus"] = self.exploration * np.sqrt(1.5 * np.log(round.round + 1.0) / turns)
        _, solution = solved(problem, self.method, round, bound_by=self.bound_by, **options)
        clients = present[solution.selected]
        plain = aggregate(clients, round.sizes, self.aggregation)
        notes = {}
        if self.constraints is not None and solution.x is not None:
            notes["constraints"] = describe(problem.constraints, solution.x, stated, gave_way)
        return Selection(clients, plain.weights, None, plain.on_failure, solution, notes=notes)

    def update(self, feedback: RoundFeedback) -> None:
        """Count the selected clients, and how long others wait where constraints ask for it."""
        self.counts += feedback.outcomes >= Outcome.RETURNED
        if self.constraints is not None:
            self.constraints.update(feedback)
