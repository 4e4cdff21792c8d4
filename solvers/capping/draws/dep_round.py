"""Draw ``dep-round``: dependent rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.capping.draws.probabilities import CERTAIN, checked

__all__ = ["dep_round"]


def dep_round(p: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw exactly Σp clients, client i with probability p_i exactly, negatively correlated; O(K).

    Two fractional probabilities are played against each other so that one of them becomes 0 or 1, their sum kept
    (Gandhi et al. 2006; the draw of Exp3.M). If the sum s is at most 1, one takes it all, i with probability p_i / s;
    otherwise one is lifted to 1, i with probability (1 − p_j) / (2 − s). Each step keeps every expectation. All pairs
    of a random matching play at once, so about half of the fractional clients remain after each round.

    (Public code often swaps the two probabilities; (0.9, 0.6, 0.5) then turns into (0.60, 0.90, 0.50).)

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
