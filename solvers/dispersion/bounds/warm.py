"""What a relaxation leaves to those over fewer clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.integrality import Cuts

__all__ = ["Warm", "conditioned"]

#: A relaxed decision as near as this to what a client was fixed to told so already.
_SURE = 1e-3


@dataclass(frozen=True)
class Warm:
    """A relaxation to start another one from, in half the memory.

    Attributes
    ----------
    ids : (n,) ndarray of int
        Clients that its rows stand for.
    products, slack : (n, n) ndarray of float32
        X and the matrix whose smallest eigenvalue counts, τ included.
    level, diagonal : float and (n,) ndarray
        τ and d.
    cuts, weights : Cuts and (k,) ndarray
        The cuts at work and their multipliers t.
    penalty : float
        Of the augmented Lagrangian.
    forbidden : (n, n) ndarray of bool
        Pairs that no better selection contains.
    """

    ids: NDArray[np.int64]
    products: NDArray[np.float32]
    slack: NDArray[np.float32]
    level: float
    diagonal: NDArray[np.float64]
    cuts: Cuts
    weights: NDArray[np.float64]
    penalty: float
    forbidden: NDArray[np.bool_]


def conditioned(
    products: NDArray[np.float64], kept: NDArray[np.int64], chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The products of ``kept``, given that of the others ``chosen`` are chosen, as if the decision were normal."""
    mean = products.diagonal().copy()
    covariance = products - np.outer(mean, mean)
    value = np.zeros(mean.size)
    value[chosen] = 1.0
    for client in np.setdiff1d(np.arange(mean.size), kept):
        if abs(value[client] - mean[client]) < _SURE:
            continue
        # An unfinished X need not be positive semidefinite; without what that implies errors would multiply.
        own = max(float(covariance[client, client]), 0.0)
        room = np.sqrt(np.maximum(covariance.diagonal(), 0.0) * own)
        row = np.clip(covariance[client], -room, room)
        share = row / (own + _SURE)
        mean = np.clip(mean + share * (value[client] - mean[client]), 0.0, 1.0)
        covariance -= np.outer(share, row)
    mean = mean[kept]
    return covariance[np.ix_(kept, kept)] + np.outer(mean, mean)
