"""What the three statements of the dispersion problem share: a decision chooses ``size`` of the clients."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.problem import Problem

__all__ = ["Selecting"]


class Selecting(Problem):
    """The decisions of a problem that chooses ``size`` of ``n`` clients, whose ids are ``clients``."""

    size: int
    clients: NDArray[np.int64]

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of clients."""

    def decision(self, x: ArrayLike) -> NDArray[np.int64]:
        """``x`` as a vector of n integers; raises `ValueError` for another shape or fractional entries."""
        array = np.asarray(x)
        if array.shape != (self.n,):
            raise ValueError(f"x must have one entry per client, {self.n}; got shape {array.shape}")
        integers = array.astype(np.int64)
        if not np.array_equal(integers, array):
            raise ValueError("x must be a 0/1 vector; it has fractional entries (round a solver's answer first)")
        return integers

    def selected(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted client ids that ``x`` selects."""
        return self.clients[np.flatnonzero(self.decision(x))]

    def violation(self, x: ArrayLike) -> float:
        """Largest of: excess over 0/1, and distance of ``1ᵀx`` from ``size``."""
        s = self.decision(x)
        return float(max(abs(int(s.sum()) - self.size), s.max(initial=0) - 1, -s.min(initial=0)))
