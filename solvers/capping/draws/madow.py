"""Draw ``madow``: systematic sampling in random order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.capping.draws.probabilities import CERTAIN, checked

__all__ = ["madow"]


def madow(p: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw exactly Σp clients, client i with probability p_i exactly; one uniform number and O(K).

    The probabilities are laid end to end in random order, and the clients under u, u + 1, u + 2, … are taken, u
    uniform on [0, 1) (Madow 1949). None is longer than 1, so none is taken twice. Without the random order, some pairs
    would never be drawn together.

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
