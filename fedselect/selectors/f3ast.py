"""Selector ``f3ast``: the clients whose selection lowers the sampling variance most (Ribero et al. 2022)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Described,
    Stateless,
    check_importance,
    check_number,
    check_size,
    nobody,
    target_importance,
)
from fedselect.selectors.oracle import Rates, availability_rates, positive_rates

__all__ = ["F3AST", "OracleF3AST"]


class F3AST(Described):
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

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(self, size: int, *, importance: ArrayLike, beta: float = 0.01, start: ArrayLike | None = None) -> None:
        self.importance = check_importance(importance)
        self.size = check_size(size)
        self.beta = check_number("beta", beta, 0, 1, open_low=True)
        rate = np.minimum(1.0, self.size * self.importance) if start is None else np.array(start, dtype=np.float64)
        if rate.shape != self.importance.shape or not ((rate > 0) & (rate <= 1)).all():
            raise ConfigError(
                f"start must be one rate in (0, 1] for each of {self.importance.size} clients; got {rate}"
            )
        self.rate = rate

    def select(self, round: RoundContext) -> Selection:
        """Select the largest variance reductions; weigh by the rates that result."""
        clients = _largest(self.importance / self.rate, round.available, self.size)
        if clients.size == 0:
            return nobody()
        return Selection(clients, self.importance[clients] / self._moved(clients)[clients])

    def update(self, feedback: RoundFeedback) -> None:
        """Move the rates towards who was selected."""
        self.rate = self._moved(feedback.selection.clients)

    def state_dict(self) -> dict[str, Any]:
        """Return the learnt rates."""
        return {"rate": self.rate.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the learnt rates."""
        self.rate = np.array(state["rate"], dtype=np.float64)

    def _moved(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        rate = (1.0 - self.beta) * self.rate
        rate[clients] += self.beta
        return rate


class OracleF3AST(Stateless):
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

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(self, size: int, *, importance: ArrayLike, rates: Rates, beta: float = 0.0) -> None:
        self.importance = check_importance(importance)
        self.size, self.rates = check_size(size), rates
        self.beta = check_number("beta", beta, 0, 1)

    def select(self, round: RoundContext) -> Selection:
        """Select the largest ratios of importance to rate."""
        present = np.flatnonzero(round.available)
        if present.size == 0:
            return nobody()
        rate = np.ones(round.available.size)
        rate[present] = (1.0 - self.beta) * positive_rates(self.rates, round.round, present) + self.beta
        clients = _largest(self.importance / rate, round.available, self.size)
        return Selection(clients, self.importance[clients] / rate[clients])


def _largest(score: NDArray[np.float64], available: NDArray[np.bool_], size: int) -> NDArray[np.int64]:
    """Ids of the ``size`` available clients of the largest score, sorted; lower ids first among equals."""
    present = np.flatnonzero(available)
    return np.sort(present[np.argsort(-score[present], kind="stable")[:size]])


@SELECTORS.register("f3ast")
def f3ast(
    scenario: Scenario,
    *,
    convention: Literal["paper", "code", "ca-fed"] = "paper",
    beta: float | None = None,
    importance: Literal["samples", "equal"] = "samples",
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
