"""What the three statements of the dispersion problem share: a decision chooses ``size`` of the clients."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.feasible_set import Hypersimplex
from solvers.dispersion.fedgs import as_integer
from solvers.errors import InvalidProblem
from solvers.problem import Problem, frozen_array
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Selecting"]


#: Numbers that rounding errors can be told from: products with 2⁻⁵² neither vanish nor overflow by a wide margin.
_SMALLEST, _LARGEST = 1e-280, 1e280


class Selecting(Problem):
    """The decisions of a problem that chooses ``size`` of ``n`` clients, whose ids are ``clients``."""

    costs: NDArray[np.float64]
    size: int
    weight: float
    clients: NDArray[np.int64]

    def _settle(self, n: int, largest: float, what: str) -> None:
        """Check, fill in and freeze costs, size, weight and clients of a problem of n clients.

        No distance is above ``largest``; ``what`` names it in the sentence about overflows.
        """
        costs = frozen_array(np.zeros(n) if self.costs is None else self.costs, "costs")
        if costs.shape != (n,):
            raise InvalidProblem(f"costs must have one entry per client, {n}; got {costs.shape[0]}")
        if self.size is None:
            raise InvalidProblem(f"size is missing: say how many of the {n} clients to choose, as in size={min(n, 10)}")
        size = as_integer(self.size, "size")
        if not 1 <= size <= n:
            raise InvalidProblem(f"size must lie between 1 and the number of clients, {n}; got {size}")
        weight = float(self.weight)
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidProblem(f"weight must be finite and non-negative; got {weight}")
        _check_range(weight, largest, what, float(np.abs(costs).max()), size)
        clients = frozen_array(np.arange(n) if self.clients is None else self.clients, "clients", dtype=np.int64)
        if clients.shape != (n,) or (np.diff(clients) <= 0).any():
            raise InvalidProblem(f"clients must be {n} strictly increasing ids; got {clients}")
        for name, value in (("costs", costs), ("size", size), ("weight", weight), ("clients", clients)):
            object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of clients."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """A number no distance exceeds."""

    @property
    def pairs_are_alike(self) -> bool:
        """Whether every selection has the same distances among its clients, so that costs decide alone."""
        return self.weight * self.diameter == 0

    @property
    def can_reach(self) -> bool:
        """Whether there is time for `reach`."""
        return True

    @abstractmethod
    def reach(self) -> tuple[NDArray[np.float64], float]:
        """Sum of the distances from each client to all, and a bound on the error of such a sum."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """A bound on the floating-point error of one evaluation of the objective, in its units."""

    @cached_property
    def feasible(self) -> Hypersimplex:
        """The feasible set, relaxed to fractional decisions."""
        return Hypersimplex(self.n, self.size)

    @cached_property
    def common_cost(self) -> float:
        """The median cost: a constant under ``1ᵀs = m`` that would only spend digits."""
        return float(np.median(self.costs))

    @cached_property
    def linear(self) -> NDArray[np.float64]:
        """What clients are worth by themselves, ``common_cost − costs``."""
        return self.common_cost - self.costs

    @cached_property
    def spread(self) -> float:
        """Largest difference of a cost from their common part."""
        return float(np.abs(self.linear).max())

    @property
    def terms(self) -> float:
        """Largest absolute sum of the objective's terms, with the costs' common part left out."""
        m = self.size
        return self.weight * self.diameter * m * (m - 1) + m * self.spread

    @cached_property
    def scale(self) -> float:
        """As `terms`, but never so small that a bound could not be told from the objective for rounding."""
        return max(self.terms, 4 * self.rounding / OPTIMALITY_GAP)

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
        return self.feasible.violation(self.decision(x))


def _check_range(weight: float, largest: float, what: str, dearest: float, size: int) -> None:
    """Raise `InvalidProblem` where terms of the objective are so large or small that rounding cannot be bounded."""
    if not weight * largest * size * size < _LARGEST:
        raise InvalidProblem(f"weight {weight:g} times {what} overflows; rescale them")
    if not dearest * size < _LARGEST:
        raise InvalidProblem(f"costs up to {dearest:g} overflow; rescale them")
    if 0 < largest < _SMALLEST:
        raise InvalidProblem(
            f"{what} are too small to be computed with (accepted: 0, or from {_SMALLEST:g}); rescale them"
        )
    unit = max(weight * largest, dearest)
    if unit < _SMALLEST and (dearest > 0 or (weight > 0 and largest > 0)):
        raise InvalidProblem(
            f"weight times distances and costs are at most {unit:g}, too small to be computed with "
            f"(accepted: 0, or from {_SMALLEST:g}); rescale them"
        )
