"""Selector ``fedcor``: a Gaussian process over the changes of the clients' losses (Tang et al., CVPR 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.options import check_count, check_number
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    SelectorBase,
    aggregate,
    check_aggregation,
    check_importance,
    check_size,
    losses,
)


def loss_factors(changes: NDArray[np.float64], rank: int, noise: float) -> tuple[NDArray[np.float64], float]:
    r"""Fit :math:`\Sigma = X^\top X + \sigma^2 I` to changes of losses by maximum likelihood, in closed form.

    With a linear kernel the Gaussian process over clients' embeddings is probabilistic principal component analysis
    (Tipping and Bishop 1999): the embeddings are the leading eigenvectors of the sample covariance. The authors' code
    takes gradient steps on the likelihood instead. Changes that were not measured count as the mean.

    Parameters
    ----------
    changes : (G, N) ndarray
        Changes of the losses over a round, one row per round; NaN where a client was not measured.
    rank : int
        Largest dimension of the embeddings.
    noise : float
        Least σ², as a share of the mean variance.

    Returns
    -------
    ndarray, float
        Embeddings X, (d, N) with d ≤ rank, and σ².
    """
    seen = ~np.isnan(changes)
    mean = np.where(seen, changes, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen, changes - mean, 0.0) / np.sqrt(max(1, len(changes)))
    _, values, vectors = np.linalg.svd(centred, full_matrices=False)
    squares = values**2
    d = min(rank, squares.size)
    average = float(squares.sum()) / changes.shape[1]
    left = float(squares[d:].sum()) / max(1, changes.shape[1] - d)
    floor = max(left, noise * average) or 1.0  # nothing was measured: all are alike
    return np.sqrt(np.maximum(squares[:d] - floor, 0.0))[:, None] * vectors[:d], floor


def correlated_choice(
    factors: NDArray[np.float64],
    noise: float,
    weights: NDArray[np.float64],
    discount: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    size: int,
) -> NDArray[np.int64]:
    r"""Choose clients one after the other by the decrease of all losses that each promises (Eqs. 9-12).

    :math:`\arg\max_k \; a_k \sum_i p_i \Sigma_{ik} / \sqrt{\Sigma_{kk}}`, and :math:`\Sigma \leftarrow \Sigma -
    \Sigma_k \Sigma_k^\top / \Sigma_{kk}` once k is known. Σ is never stated: O(N (d + m)) for each client chosen.

    Parameters
    ----------
    factors : (d, N) ndarray
        Embeddings X.
    noise : float
        σ² of :math:`\Sigma = X^\top X + \sigma^2 I`.
    weights : (N,) ndarray
        Importance p.
    discount : (N,) ndarray
        :math:`a_k`, smaller for clients chosen lately.
    allowed : (N,) ndarray of bool
        Clients that can be chosen; the losses of the others count all the same.
    size : int
        Clients to choose, m; at most as many as are allowed.

    Returns
    -------
    (m,) ndarray of int
        In the order of the choice.
    """
    variance = (factors**2).sum(axis=0) + noise
    promise = factors.T @ (factors @ weights) + noise * weights  # Σ p
    known = np.zeros((size, weights.size))
    free = allowed.copy()
    chosen = np.empty(size, dtype=np.int64)
    for place in range(size):
        score = np.where(free, discount * promise / np.sqrt(np.maximum(variance, 1e-12 * noise)), -np.inf)
        k = int(score.argmax())
        chosen[place], free[k] = k, False
        column = factors.T @ factors[:, k] - known[:place].T @ known[:place, k]
        column[k] += noise
        column /= np.sqrt(max(column[k], 1e-12 * noise))
        known[place] = column
        promise = promise - column * float(column @ weights)
        variance = variance - column**2
    return chosen


@SELECTORS.register("fedcor")
class FedCor(SelectorBase):
    r"""Select clients whose losses' changes tell most about all clients' (a Gaussian process; it probes all losses).

    In the first ``warmup`` rounds, and later in those whose number is a multiple of ``interval``, clients are drawn
    uniformly and the losses of all available ones are measured before and after; their changes fit the covariance
    (`loss_factors`), from which clients are chosen one after the other (`correlated_choice`). A client chosen c times
    since the last measurement is discounted by :math:`\beta^c`.

    Its cost: every available client evaluates the model in every round of the warm-up, and before and after each
    uniform round later, a message of each; O(G² N) operations for the fit to G measured changes and O(N m (d + m)) for
    a selection. In the paper the uniform rounds after the warm-up are simulated beside the selected ones and discarded;
    here they are rounds.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    importance : (N,) array-like
        Importance p of the clients' losses; sums to 1.
    warmup : int
        Rounds of uniform selection at the start, at least 1; 15 and 20 in the paper.
    interval : int
        Rounds between measurements afterwards, at least 2; 10 to 100 in the paper.
    discount : float
        β in (0, 1]; 0.9 to 0.99 in the paper.
    rank : int
        Largest dimension of the embeddings; 15 in the paper.
    history : int
        Changes kept for the fit; the latest.
    noise : float
        See `loss_factors`.
    aggregation : {"mean", "samples", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    state_names = ("changes", "before", "chosen")

    def __init__(
        self,
        size: int,
        *,
        importance: ArrayLike,
        warmup: int = 15,
        interval: int = 10,
        discount: float = 0.95,
        rank: int = 15,
        history: int = 50,
        noise: float = 0.01,
        aggregation: Aggregation = "samples",
    ) -> None:
        self.size = check_size(size)
        self.importance = check_importance(importance)
        self.n_clients = self.importance.size
        self.warmup = check_count("warmup", warmup)
        self.interval = check_count("interval", interval, least=2)
        self.discount = check_number("discount", discount, 0, 1, open_low=True)
        self.rank, self.history = check_count("rank", rank), check_count("history", history)
        self.noise = check_number("noise", noise, open_low=True)
        self.aggregation = check_aggregation(aggregation)
        n = self.importance.size
        self.changes = np.zeros((0, n))
        self.before = np.full(n, np.nan)  #: losses measured before the last round, where clients were drawn uniformly
        self.chosen = np.zeros(n, dtype=np.int64)

    def _is_uniform(self, round: int) -> bool:
        return round < self.warmup or round % self.interval == 0

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        measured = np.full(self.importance.size, np.nan)
        uniform = self._is_uniform(round.round)
        if uniform or not np.isnan(self.before).all():
            measured[present] = losses(round, present, "fedcor")
        if (both := ~np.isnan(measured - self.before)).any():
            row = np.where(both, measured - self.before, np.nan)
            self.changes = np.vstack([self.changes, row])[-self.history :]
            self.chosen[:] = 0
        self.before = measured if uniform else np.full(self.importance.size, np.nan)
        m = min(self.size, present.size)
        if uniform or not len(self.changes):
            clients = np.sort(round.rng.choice(present, m, replace=False))
        else:
            factors, noise = loss_factors(self.changes, self.rank, self.noise)
            discount = np.power(self.discount, self.chosen, dtype=np.float64)
            clients = np.sort(correlated_choice(factors, noise, self.importance, discount, round.available, m))
        return aggregate(clients, round.sizes, self.aggregation)

    def update(self, feedback: RoundFeedback) -> None:
        """Count the clients chosen since the last measurement."""
        if not self._is_uniform(feedback.round):
            self.chosen += feedback.outcomes >= Outcome.RETURNED
