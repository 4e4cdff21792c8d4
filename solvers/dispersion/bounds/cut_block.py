"""Cuts and their multipliers, as a block of the alternating direction method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.integrality import Cuts
from solvers.dispersion.kernels import load

__all__ = ["CutBlock"]

#: Times that coordinate descent goes through the multipliers in an iteration.
_SWEEPS = 3


class CutBlock:
    """Cuts with multipliers t ≥ 0.

    Attributes
    ----------
    cuts, weights : Cuts and (k,) ndarray
        The cuts and t.
    sum : (n, n) ndarray
        ``Tᵀt``.
    """

    def __init__(self, cuts: Cuts, weights: NDArray[np.float64]) -> None:
        self.cuts, self.weights = cuts, weights.astype(np.float64)
        self.sum = np.zeros((cuts.n, cuts.n))
        if len(cuts) == 0:
            return
        self._cut, self._row, self._column, self._value = cuts.entries()
        self._start = np.searchsorted(self._cut, np.arange(len(cuts) + 1))
        self._limits = cuts.limits
        self._place = self._row * cuts.n + self._column
        # In the inner product of symmetric matrices.
        self._twice = self._value * np.where(self._row == self._column, 1.0, 2.0)
        self._mirror = self._column * cuts.n + self._row
        self._norm = np.add.reduceat(self._value * self._twice, self._start[:-1])
        self.sum = self._spread(self.weights)

    def __len__(self) -> int:
        return len(self.cuts)

    def move(self, residual: NDArray[np.float64], penalty: float) -> None:
        """Come nearer to the least ``‖residual + Tᵀt‖²/2 + penalty · limitsᵀt``; ``residual`` may be overwritten."""
        pattern = (self._start, self._place, self._mirror, self._value, self._twice, self._norm)
        load("cuts").move(residual, *pattern, self._limits, self.weights, self.sum, penalty, _SWEEPS)

    @property
    def constant(self) -> float:
        """``limitsᵀt``."""
        return float(self._limits @ self.weights) if len(self.cuts) else 0.0

    @property
    def rounding(self) -> float:
        """A bound on the error of an entry of ``Tᵀt``, in units of eps."""
        if len(self.cuts) == 0:
            return 0.0
        most = int(np.bincount(self._place).max())
        return most * float(np.bincount(self._place, abs(self._value) * self.weights[self._cut]).max())

    def homogeneous(self) -> NDArray[np.float64]:
        """``Tᵀt`` of the cuts whose right-hand side is 0."""
        return self._spread(np.where(self.cuts.homogeneous, self.weights, 0.0)) if len(self.cuts) else self.sum

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        n = self.cuts.n
        upper = np.bincount(self._place, self._value * weights[self._cut], n * n).reshape(n, n)
        return np.asarray(upper + np.triu(upper, 1).T, dtype=np.float64)
