"""What clients set aside of their own samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError

__all__ = ["hold_out"]


def hold_out(
    parts: Sequence[NDArray[np.int64]], fraction: float, rng: np.random.Generator
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Set a random share of each client's indices aside, rounded down, leaving at least one for training.

    Parameters
    ----------
    parts : sequence of ndarray of int
        Sample indices of each client.
    fraction : float
        Share in [0, 1).
    rng : numpy.random.Generator
        Source of randomness; untouched where the share is 0.

    Returns
    -------
    kept, held : list of ndarray of int
        Sorted; ``held`` is an empty list where the share is 0.

    Raises
    ------
    DataError
        When the share is out of range.
    """
    if not 0 <= fraction < 1:
        raise DataError(f"validation_fraction must lie in [0, 1); got {fraction}")
    if fraction == 0:
        return list(parts), []
    kept, held = [], []
    for part in parts:
        order = rng.permutation(part)
        count = min(int(fraction * part.size + 1e-9), part.size - 1)
        held.append(np.sort(order[:count]))
        kept.append(np.sort(order[count:]))
    return kept, held
