"""Selectors that draw by what clients' last training said: ``afl`` by losses, ``delta`` by diversity of the updates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.options import check_count, check_number
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    SelectorBase,
    aggregate,
    check_aggregation,
    check_importance,
    check_size,
    largest,
    losses,
)
from fedselect.selectors.updates import returned_updates


@SELECTORS.register("afl")
class AFL(SelectorBase):
    r"""Draw clients by the losses that they last trained from, some uniformly (Active Federated Learning).

    Goetz et al., 2019, Algorithm 1, with valuations :math:`v_k = \sqrt{n_k}\, F_k(w)`: the α₁ share of the available
    clients with the smallest valuations is left out; (1 − α₃) m are drawn without replacement in proportion to
    :math:`e^{\alpha_2 v}`, the others uniformly from all that are left. Both numbers are rounded down, and fewer are
    left out where too few would remain. A valuation changes when its client returns, to the loss of the model it
    received (its mean loss where that is not known). A client that has none yet is asked for its loss when it is first
    available, one more message (FedCor's code, whose AFL this agrees with, evaluates all clients before the first
    round). A public reimplementation keeps the α₁ share and leaves the others out, and has the mean loss without
    :math:`\sqrt{n_k}`.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    n_clients : int
        Number of clients N.
    excluded, temperature, uniform : float
        α₁ in [0, 1), α₂ ≥ 0 and α₃ in [0, 1]; 0.75, 0.01 and 0.1 in the paper.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    state_names = ("valuations",)

    def __init__(
        self,
        size: int,
        n_clients: int,
        *,
        excluded: float = 0.75,
        temperature: float = 0.01,
        uniform: float = 0.1,
        aggregation: Aggregation = "samples",
    ) -> None:
        self.size = check_size(size)
        self.excluded = check_number("excluded", excluded, 0, 1, open_high=True)
        self.temperature = check_number("temperature", temperature)
        self.uniform = check_number("uniform", uniform, 0, 1)
        self.aggregation = check_aggregation(aggregation)
        self.n_clients = check_count("the number of clients", n_clients)
        self.valuations = np.full(n_clients, np.nan)
        self._roots = np.ones(n_clients)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        self._roots = np.sqrt(round.sizes.astype(np.float64))
        fresh = present[np.isnan(self.valuations[present])]
        if fresh.size:
            self.valuations[fresh] = self._roots[fresh] * losses(round, fresh, "afl")
        m = min(self.size, present.size)
        by_value = int((1.0 - self.uniform) * m + 1e-9)
        dropped = min(int(self.excluded * present.size), present.size - by_value)
        order = np.argsort(self.valuations[present], kind="stable")
        kept = np.sort(present[order[dropped:]])
        # The largest of value plus Gumbel noise are a draw without replacement, client after client.
        keys = self.temperature * self.valuations[kept] + round.rng.gumbel(size=kept.size)
        drawn = largest(keys, kept, by_value)
        rest = np.setdiff1d(present, drawn)
        clients = np.sort(np.concatenate([drawn, round.rng.choice(rest, m - by_value, replace=False)]))
        return aggregate(clients, round.sizes, self.aggregation)

    def update(self, feedback: RoundFeedback) -> None:
        """Revalue those that returned by the loss they began with, or by their mean loss where that is not known."""
        for client, loss in (feedback.losses | feedback.received_losses).items():
            self.valuations[client] = self._roots[client] * loss


@SELECTORS.register("delta")
class Delta(SelectorBase):
    r"""Draw clients whose updates differ most from the mean more often, and weigh them down for it.

    DELTA (Wang et al., NeurIPS 2023) in its practical form draws m times in proportion to
    :math:`\alpha_k \sqrt{\zeta_k^2 + \sigma^2}`: :math:`\zeta_k = \|\Delta_k - \bar\Delta\|` is of the client's last
    round in which others returned too, :math:`\bar\Delta` the mean update of that round; one that was not heard counts
    as the most diverse. A client drawn c times weighs :math:`c\, \alpha_k / (m p_k)`, unbiased over those available.

    The paper's second term is the variance :math:`\sigma_k^2` of a client's own stochastic gradients, which no message
    of federated averaging carries: here it is the same for all, a multiple of the mean of ζ². The authors' code for
    LEAF has no such term either: it measures ζ by an epoch of every client in every round, adds a multiple of
    :math:`\sqrt{n_k / n}`, and draws without replacement.

    Parameters
    ----------
    size : int
        Number of draws m.
    importance : (N,) array-like
        Target importance α; sums to 1.
    smoothing : float
        σ² over the mean of ζ², at least 0; the larger, the nearer to drawing by importance.
    """

    state_names = ("diversity",)

    def __init__(self, size: int, *, importance: ArrayLike, smoothing: float = 0.1) -> None:
        self.size = check_size(size)
        self.importance = check_importance(importance)
        self.smoothing = check_number("smoothing", smoothing)
        self.n_clients = self.importance.size
        self.diversity = np.full(self.n_clients, np.nan)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        alpha = self.importance[present] / self.importance[present].sum()
        known = self.diversity[~np.isnan(self.diversity)]
        most = float(known.max()) if known.size and known.max() > 0 else 1.0
        relative = np.where(np.isnan(self.diversity[present]), 1.0, self.diversity[present] / most)
        # No client's chance is 0: an update that equals the mean once need not do so again.
        noise = self.smoothing * float((relative**2).mean()) + 1e-12
        p = alpha * np.sqrt(relative**2 + noise)
        p /= p.sum()
        counts = round.rng.multinomial(self.size, p)
        inclusion = np.zeros(round.available.size)
        inclusion[present] = -np.expm1(self.size * np.log1p(-np.minimum(p, 1.0 - 1e-16)))
        drawn = np.flatnonzero(counts)
        weights = counts[drawn] * alpha[drawn] / (self.size * p[drawn])
        return Selection(present[drawn], weights, inclusion)

    def update(self, feedback: RoundFeedback) -> None:
        """Measure how far each update that returned is from the mean of all that did."""
        clients, rows = returned_updates(feedback, "delta")
        if clients.size > 1:  # a single update is its own mean
            rows = rows.astype(np.float64)
            self.diversity[clients] = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
