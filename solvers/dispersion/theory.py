"""FedGS's argument that weights by data size are nearly unbiased under balanced counts (Eqs. 19 to 23)."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem

__all__ = ["aggregation_factors", "expected_shares"]

#: Subsets that `expected_shares` goes through at most.
_MOST = 2_000_000


def aggregation_factors(sizes: ArrayLike, size: int) -> NDArray[np.float64]:
    r"""Eq. 22: :math:`\gamma_k = 1 / (1 + \frac1M \frac{N-M}{N-1} \frac{n_k - \bar n}{\bar n})`.

    If M of N clients are drawn uniformly and weighed by their data, client k's expected weight is about
    :math:`\gamma_k n_k / n`: 1 for equal sizes or M = N, smaller for clients of more data than the mean. Eq. 20 takes
    the expectation inside the fraction, so that the γ_k n_k / n need not sum to 1; `expected_shares` is exact.

    Parameters
    ----------
    sizes : (N,) array-like
        Samples n_k of each client, positive.
    size : int
        Clients drawn, M, from 1 to N.

    Returns
    -------
    (N,) ndarray
        γ.

    Raises
    ------
    InvalidProblem
        When an argument is out of range.
    """
    n = _checked(sizes, size)
    if n.size == 1:
        return np.ones(1)
    return 1 / (1 + (n.size - size) / (size * (n.size - 1)) * (n - n.mean()) / n.mean())


def expected_shares(sizes: ArrayLike, size: int) -> NDArray[np.float64]:
    r"""Exact expected weights :math:`E[1\{k \in S\}\, n_k / \sum_{i \in S} n_i]`, S uniform among the M-subsets.

    Parameters
    ----------
    sizes, size
        As for `aggregation_factors`; at most two million subsets.

    Returns
    -------
    (N,) ndarray
        Sums to 1.

    Raises
    ------
    InvalidProblem
        When an argument is out of range, or there are too many subsets to go through.
    """
    n = _checked(sizes, size)
    count = math.comb(n.size, size)
    if count > _MOST:
        raise InvalidProblem(f"there are {count} subsets of {size} of {n.size} clients; accepted are {_MOST} at most")
    total = np.zeros(n.size)
    for chosen in itertools.combinations(range(n.size), size):
        places = list(chosen)
        total[places] += n[places] / n[places].sum()
    return total / count


def _checked(sizes: ArrayLike, size: int) -> NDArray[np.float64]:
    n = np.asarray(sizes, dtype=np.float64)
    if n.ndim != 1 or n.size == 0 or not (np.isfinite(n) & (n > 0)).all():
        raise InvalidProblem(f"sizes must be one positive number of samples a client; got {sizes!r}")
    if isinstance(size, bool) or not hasattr(size, "__index__") or not 1 <= size <= n.size:
        raise InvalidProblem(f"size must be an integer from 1 to the number of clients, {n.size}; got {size!r}")
    return n
