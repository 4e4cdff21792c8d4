"""Check inclusion probabilities before a draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["CERTAIN", "checked"]

#: From here on a probability is 1, and the client is in every draw.
CERTAIN = 1.0 - 1e-12


def checked(p: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """Probabilities clipped to [0, 1], and their sum, the number of clients to draw.

    Raises
    ------
    InvalidProblem
        When an entry is below 0 or above 1 by more than 1e-9, or the sum is no whole number (to 1e-9 relative).
    """
    array = frozen_array(p, "p")
    if array.size == 0:
        raise InvalidProblem("p must have at least one client; got an empty array")
    low, high = float(array.min()), float(array.max())
    if low < -1e-9 or high > 1 + 1e-9:
        raise InvalidProblem(f"p must lie between 0 and 1; it ranges from {low:g} to {high:g}")
    total = float(array.sum())
    size = round(total)
    if abs(total - size) > 1e-9 * max(1.0, total):
        raise InvalidProblem(f"p must sum to the whole number of clients to draw; got {total:.12g}")
    return np.clip(array, 0.0, 1.0), size
