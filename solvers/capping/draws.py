"""Random draws of k clients with given inclusion probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import vector
from solvers.errors import InvalidProblem

#: From here on a probability is 1, and the client is in every draw of ``madow`` and ``dep-round``.
CERTAIN = 1.0 - 1e-12


def checked(p: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """Return probabilities clipped to [0, 1], and their sum, the number of clients to draw.

    Raises
    ------
    InvalidProblem
        When ``p`` is no vector of numbers, an entry is below 0 or above 1 by more than 1e-9, or the sum is no whole
        number (to 1e-9 relative).
    """
    array = vector(p, "p")
    low, high = float(array.min()), float(array.max())
    if low < -1e-9 or high > 1 + 1e-9:
        raise InvalidProblem(f"p must lie between 0 and 1; it ranges from {low:g} to {high:g}")
    total = float(array.sum())
    size = round(total)
    if abs(total - size) > 1e-9 * max(1.0, total):
        raise InvalidProblem(f"p must sum to the whole number of clients to draw; got {total:.12g}")
    return np.clip(array, 0.0, 1.0), size


def madow(p: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw Σp clients, client i with probability p_i; O(K + k log k).

    The probabilities are laid end to end in random order, and the clients under u, u + 1, u + 2, … are taken, u
    uniform on [0, 1) (Madow 1949).

    Parameters
    ----------
    p : (K,) array-like
        Inclusion probabilities in [0, 1] with a whole sum. Clients with p = 1 are always drawn.
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
    certain = np.flatnonzero(array >= CERTAIN)
    wanted = size - certain.size
    if wanted <= 0:
        return certain
    others = rng.permutation(np.flatnonzero((array > 0) & (array < CERTAIN)))
    ends = np.cumsum(array[others])
    ends *= wanted / ends[-1]
    ends[-1] = wanted
    while True:
        chosen = np.searchsorted(ends, rng.random() + np.arange(wanted), side="right")
        # Rounding can make an interval longer than 1 by an ulp, and u can fall into it: draw u again.
        if np.all(np.diff(chosen) > 0):
            return np.sort(np.concatenate([certain, others[chosen]]))


def dep_round(p: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw Σp clients, client i with probability p_i, negatively correlated; O(K).

    Two fractional probabilities are played against each other so that one of them becomes 0 or 1, their sum kept
    (Gandhi et al. 2006; the draw of Exp3.M). If the sum s is at most 1, one takes it all, i with probability p_i / s;
    otherwise one is lifted to 1, i with probability (1 − p_j) / (2 − s). Each step keeps every expectation.

    Parameters, result and errors are those of `madow`.
    """
    array, _ = checked(p)
    array = np.where(array >= CERTAIN, 1.0, array)
    open_ = rng.permutation(np.flatnonzero((array > 0) & (array < 1)))
    while open_.size > 1:
        half = open_.size // 2
        i, j = open_[:half], open_[half : 2 * half]
        a, b = array[i], array[j]
        s = a + b
        small = s <= 1
        chance = np.where(small, a, 1.0 - b) / np.where(small, s, 2.0 - s)
        first = rng.random(half) < chance
        high, low = np.where(small, s, 1.0), np.where(small, 0.0, s - 1.0)
        array[i], array[j] = np.where(first, high, low), np.where(first, low, high)
        open_ = open_[(array[open_] > 0) & (array[open_] < 1)]
    # The sum is whole, so a single fractional entry left over is 0 or 1 up to rounding.
    return np.flatnonzero(array > 0.5)


#: Clients over which `successive_inclusion` enumerates subsets.
LARGEST = 20


def successive(p: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw Σp clients one after the other in proportion to p, without replacement: the paper's "multinomialNR".

    This is ``torch.multinomial(p, k, replacement=False)``, which E3CS uses (§V-C) and takes to include client i with
    probability p_i. It does so only for k = 1, or where all positive p are equal. Otherwise large p are drawn too
    rarely (a client with p = 1 is not certain), small p too often. Inclusion probabilities (`successive_inclusion`):

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

    Parameters, result and errors are those of `madow`; at least k probabilities must be positive.
    """
    array, size = checked(p)
    if (positive := np.count_nonzero(array)) < size:  # only by the rounding that `checked` accepts
        raise InvalidProblem(f"p must be positive for at least {size} clients; it is for {positive}")
    return race(array, size, rng)


def race(weights: NDArray[np.float64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw ``size`` of those with a positive weight, one after the other in proportion to it; sorted ids."""
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


#: ``draw(p, rng)`` -> sorted client ids.
Draw = Callable[[ArrayLike, np.random.Generator], NDArray[np.int64]]

#: The draws by name. ``madow`` and ``dep-round`` include client i with probability p_i exactly; ``successive``, the
#: paper's torch.multinomial, does not (see `solvers.capping.draws`).
DRAWS: dict[str, Draw] = {
    "madow": madow,
    "dep-round": dep_round,
    "successive": successive,
}
