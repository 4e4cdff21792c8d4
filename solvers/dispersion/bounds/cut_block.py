"""Cuts and their multipliers, as a block of the alternating direction method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.integrality import Cuts

__all__ = ["CutBlock"]

#: Steps that the multipliers take in an iteration.
_STEPS = 6


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
        self.cuts, self.weights = cuts, weights
        self.sum = np.zeros((cuts.n, cuts.n))
        if len(cuts) == 0:
            return
        self._map = cuts.matrix()
        self._back = self._map.T.tocsr()
        self._limits = cuts.limits
        gram = self._map @ self._back
        self._gram = gram.toarray() if gram.nnz > 0.1 * len(cuts) ** 2 else gram
        self._steps = 1.0 / np.asarray(abs(gram).sum(axis=1)).ravel()  # Diag(row sums of |G|) - G is definite
        self._spread()

    def __len__(self) -> int:
        return len(self.cuts)

    def move(self, residual: NDArray[np.float64], penalty: float) -> None:
        """Take accelerated projected gradient steps on ``‖residual + Tᵀt‖²/2 + penalty · limitsᵀt``."""
        offset = self._map @ residual.ravel() + penalty * self._limits
        old = ahead = self.weights
        for k in range(_STEPS):
            new = np.maximum(ahead - self._steps * (self._gram @ ahead + offset), 0.0)
            ahead = new + (k / (k + 3.0)) * (new - old)
            old = new
        self.weights = old
        self._spread()

    @property
    def constant(self) -> float:
        """``limitsᵀt``."""
        return float(self._limits @ self.weights) if len(self.cuts) else 0.0

    @property
    def rounding(self) -> float:
        """A bound on the error of an entry of ``Tᵀt``, in units of eps."""
        if len(self.cuts) == 0:
            return 0.0
        most = int(np.diff(self._back.indptr).max(initial=0))
        return most * float((abs(self._back) @ self.weights).max(initial=0.0))

    def homogeneous(self) -> NDArray[np.float64]:
        """``Tᵀt`` of the cuts whose right-hand side is 0."""
        if len(self.cuts) == 0:
            return self.sum
        return (self._back @ np.where(self.cuts.homogeneous, self.weights, 0.0)).reshape(self.sum.shape)

    def _spread(self) -> None:
        self.sum = (self._back @ self.weights).reshape(self.sum.shape)
