"""Draw ``successive``: one client after the other, in proportion to what is left (torch.multinomial)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.capping.draws.probabilities import checked
from solvers.errors import InvalidProblem

__all__ = ["successive", "successive_inclusion"]

#: Clients over which `successive_inclusion` enumerates subsets.
LARGEST = 20


def successive(p: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw Σp clients one after the other in proportion to p, without replacement: the paper's "multinomialNR".

    This is ``torch.multinomial(p, k, replacement=False)``, which E3CS uses (§V-C) and takes to include client i with
    probability p_i. It does not, except when all p are equal: large p are drawn too rarely (a client with p = 1 is
    not certain), small p too often. Exact inclusion probabilities (`successive_inclusion`):

    ====================  ==================================
    p                     drawn with probability
    ====================  ==================================
    1, 0.6, 0.4           0.83929, 0.67500, 0.48571
    0.9, 0.6, 0.5         0.79286, 0.64545, 0.56169
    1, 1, 0.5, 0.5        0.86667, 0.86667, 0.63333, 0.63333
    0.9, 0.7, 0.3, 0.1    0.79540, 0.71655, 0.36139, 0.12666
    ====================  ==================================

    So x / p is no unbiased estimate under this draw. Use ``madow`` or ``dep-round`` unless the paper's own behaviour
    is what is to be reproduced.

    Parameters
    ----------
    p : (K,) array-like
        Probabilities in [0, 1] with a whole sum k; at least k must be positive.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    (k,) ndarray of int
        Sorted client ids.

    Raises
    ------
    InvalidProblem
        When ``p`` is not as described.
    """
    array, size = checked(p)
    if (positive := np.count_nonzero(array)) < size:  # only by the rounding that `checked` accepts
        raise InvalidProblem(f"p must be positive for at least {size} clients; it is for {positive}")
    return race(array, size, rng)


def race(weights: NDArray[np.float64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw ``size`` of those with a positive weight, one after the other in proportion to it; sorted ids.

    Unlike `successive` it asks of the weights nothing but their ratios.
    """
    positive = np.flatnonzero(weights > 0)
    # The k smallest of independent exponentials with rates p come in the order of successive draws. Their logarithms
    # do not overflow where p is tiny.
    arrival = np.log(1.0 - rng.random(positive.size))
    with np.errstate(divide="ignore"):
        arrival = np.log(-arrival) - np.log(weights[positive])
    return np.sort(positive[np.argsort(arrival, kind="stable")[:size]])


def successive_inclusion(p: ArrayLike) -> NDArray[np.float64]:
    """Inclusion probabilities of `successive`, by exact enumeration of the subsets; at most 20 clients.

    Parameters
    ----------
    p : (K,) array-like
        Probabilities in [0, 1] with a whole sum k.

    Returns
    -------
    (K,) ndarray
        Probability that each client is drawn; sums to k.

    Raises
    ------
    InvalidProblem
        When ``p`` is not as described, or there are more than 20 clients.
    """
    array, size = checked(p)
    n = array.shape[0]
    if n > LARGEST:
        raise InvalidProblem(f"successive_inclusion enumerates subsets of at most {LARGEST} clients; got {n}")
    # chance[s]: probability that the first draws were the subset s, summed over their order.
    chance = {0: 1.0}
    for _ in range(size):
        larger: dict[int, float] = {}
        for subset, probability in chance.items():
            outside = [i for i in range(n) if not subset >> i & 1]
            left = float(array[outside].sum())
            for i in outside:
                if array[i] > 0:
                    key = subset | 1 << i
                    larger[key] = larger.get(key, 0.0) + probability * float(array[i]) / left
        chance = larger
    inclusion = np.zeros(n)
    for subset, probability in chance.items():
        inclusion[[i for i in range(n) if subset >> i & 1]] += probability
    return inclusion
