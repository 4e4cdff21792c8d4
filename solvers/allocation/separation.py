"""FedSS's Proposition 2 in numbers: how far apart groups' gradients must be for stratifying to pay."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["Dissimilarity", "dissimilarity", "separation_threshold"]


@dataclass(frozen=True, eq=False)
class Dissimilarity:
    """How unlike clients' gradients are, within groups and overall (FedSS, Eqs. 11 and 21).

    Attributes
    ----------
    sizes : (K,) ndarray of int
        Clients N_k of each group.
    within : (K,) ndarray
        H_k², squared distance from the group's mean gradient, divisor N_k − 1; 0 for a group of one.
    overall : float
        H², the same over all clients.
    separation : float
        Smallest distance between two groups' mean gradients; infinite where there is one group.
    """

    sizes: NDArray[np.int64]
    within: NDArray[np.float64]
    overall: float
    separation: float

    @property
    def advantage(self) -> float:
        """H² − Σ N_k H_k² / N: positive where proportional strata beat a plain draw (Corollary 1, Proposition 2)."""
        return self.overall - float(self.sizes @ self.within) / float(self.sizes.sum())


def dissimilarity(gradients: ArrayLike, groups: ArrayLike) -> Dissimilarity:
    """Measure H_k² and H² on clients' gradients (or updates) at one model.

    Parameters
    ----------
    gradients : (N, d) array-like
        One vector a client, N ≥ 2.
    groups : (N,) array-like of int
        Group of each client, 0 to K − 1; none is empty.

    Returns
    -------
    Dissimilarity

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """
    vectors, labels = np.asarray(gradients, dtype=np.float64), np.asarray(groups)
    if vectors.ndim != 2 or len(vectors) < 2 or not np.isfinite(vectors).all():
        raise InvalidProblem(f"gradients must be finite, one row for each of two clients or more; got {vectors.shape}")
    if labels.shape != (len(vectors),) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise InvalidProblem(f"groups must be one integer from 0 for each of {len(vectors)} clients; got {groups!r}")
    sizes = np.bincount(labels)
    if (sizes == 0).any():
        raise InvalidProblem(f"group {int(np.argmin(sizes))} has no client; number groups from 0 without gaps")
    means = np.stack([vectors[labels == k].mean(axis=0) for k in range(sizes.size)])
    apart = ((vectors - means[labels]) ** 2).sum(axis=1)
    within = np.bincount(labels, weights=apart) / np.maximum(sizes - 1, 1)
    overall = float(((vectors - vectors.mean(axis=0)) ** 2).sum()) / (len(vectors) - 1)
    between = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(between, np.inf)
    return Dissimilarity(sizes, within, overall, float(between.min()))


def separation_threshold(sizes: ArrayLike, within: ArrayLike) -> float:
    r"""A χ with which Proposition 2 holds: gradients of any two groups farther apart than χ make its claim true.

    The paper proves that there is one. With the means :math:`\bar h_k` of the groups,

    .. math:: H^2 - \sum_k \frac{N_k}{N} H_k^2 = \frac{1}{N - 1} \Big[ \sum_{k < l} \frac{N_k N_l}{N} \|\bar h_k -
              \bar h_l\|^2 - \sum_k \big(1 - \frac{N_k}{N}\big) H_k^2 \Big],

    and the means lie in the convex hulls, so that :math:`\chi^2 = N \sum_k (1 - N_k / N) H_k^2 / \sum_{k<l} N_k N_l`
    serves. For two groups it is the smallest that does.

    Parameters
    ----------
    sizes : (K,) array-like of int
        N_k ≥ 1, of two groups or more.
    within : (K,) array-like
        H_k² ≥ 0.

    Returns
    -------
    float
        χ, in the unit of the gradients.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """
    n, spread = frozen_array(sizes, "sizes"), frozen_array(within, "within")
    if n.ndim != 1 or n.size < 2 or n.min() < 1:
        raise InvalidProblem(f"sizes must be positive numbers of clients of two groups or more; got {sizes!r}")
    if spread.shape != n.shape or spread.min() < 0:
        raise InvalidProblem(f"within must be one number of 0 or more for each of {n.size} groups; got {within!r}")
    total = float(n.sum())
    pairs = (total**2 - float(n @ n)) / 2
    return math.sqrt(total * float((1 - n / total) @ spread) / pairs)
