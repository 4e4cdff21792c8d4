"""The simplest way to concavity on the slice: one shift for all clients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["uniform_shift"]


def uniform_shift(quadratic: NDArray[np.float64]) -> float:
    """The largest eigenvalue of JQJ on ``1ᵀz = 0`` (negative for distances of negative type), up to rounding."""
    n = len(quadratic)
    means = quadratic.mean(axis=0)
    centred = quadratic - means - means[:, None] + means.mean()
    # The direction 1 has eigenvalue 0; move it below all others.
    centred -= 2 * float(np.abs(quadratic).sum(axis=1).max()) / n
    return float(linalg.eigh(centred, subset_by_index=[n - 1, n - 1], eigvals_only=True)[0])
