"""Weights of selected clients' updates, where a paper leaves them to the aggregation."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import Selection

__all__ = ["Aggregation", "aggregate", "data_weights", "nobody"]

#: How the updates of selected clients are weighted where a paper leaves it to the aggregation; see `aggregate`.
Aggregation = Literal["samples", "mean", "deadline"]


def nobody() -> Selection:
    """The selection of a round in which nobody is available."""
    return Selection(np.empty(0, dtype=np.int64), np.empty(0))


def data_weights(sizes: NDArray[np.int64], clients: NDArray[np.int64]) -> NDArray[np.float64]:
    r""":math:`n_k / \sum_{i \in S} n_i` for the selected clients, shape (m,) (FedGS Eq. 18)."""
    chosen = sizes[clients].astype(np.float64)
    return chosen / chosen.sum() if clients.size else chosen


def aggregate(
    clients: NDArray[np.int64],
    sizes: NDArray[np.int64],
    aggregation: Aggregation,
    inclusion: NDArray[np.float64] | None = None,
) -> Selection:
    r"""Weigh selected clients in one of the ways that the papers' baselines share.

    Parameters
    ----------
    clients : (m,) ndarray of int
        Selected clients, sorted.
    sizes : (N,) ndarray of int
        Training samples n of each client.
    aggregation : {"samples", "mean", "deadline"}
        ``"samples"``: :math:`n_k / \sum_{i \in S} n_i`, over those that return (FedGS Eq. 18, FedSS Eq. 3).
        ``"mean"``: 1/m, over those that return. ``"deadline"``: :math:`n_k / \sum_{\text{all}} n_i`, whoever does
        not return keeps the global model in its place (E3CS Eq. 5), so that fewer returns make a smaller step.
    inclusion : (N,) ndarray, optional
        Inclusion probabilities, passed on.

    Returns
    -------
    Selection
        With ``on_failure="keep"`` for ``"deadline"``, ``"renormalise"`` for the others.
    """
    if aggregation == "deadline":
        return Selection(clients, sizes[clients] / sizes.sum(), inclusion, on_failure="keep")
    weights = data_weights(sizes, clients) if aggregation == "samples" else np.full(clients.size, 1 / clients.size)
    return Selection(clients, weights, inclusion, on_failure="renormalise")
