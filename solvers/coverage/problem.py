"""The coverage problem: every client is represented by the most similar one of those selected (DivFL)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array
from solvers.errors import InvalidProblem
from solvers.problem import OPTIMALITY_GAP
from solvers.subsets import ConstrainedProblem, checked_size

_EPS = float(np.finfo(np.float64).eps)

#: Similarities whose sums neither overflow nor lose their rounding errors by a wide margin.
_SMALLEST, _LARGEST = 1e-280, 1e280


@dataclass(frozen=True, eq=False)
class CoverageProblem(ConstrainedProblem):
    r"""Select ``size`` of n clients so that every client is similar to one of them.

    .. math:: \max_{|S| = m} \; \sum_i \max_{j \in S} s_{ij} - \sum_{j \in S} c_j

    Facility location, or the p-median with similarities for distances: the selection of DivFL (Balakrishnan et al.,
    ICLR 2022), which states it with distances between gradients, :math:`s_{ij} = \text{const} - d_{ij}`. It is
    NP-hard; the objective is submodular, and greedy selection reaches 1 − 1/e of the optimum where similarities are
    non-negative and there are neither costs nor side constraints.

    Parameters
    ----------
    similarity : (N, n) array-like
        How well client i is represented by candidate j, of any sign. Usually square; rows may be all clients and
        columns those that are available. An array of float32 stays one, which halves the memory.
    size : int
        Number m of candidates to select, 1 ≤ m ≤ n.
    costs : (n,) array-like, optional
        Cost of each candidate, of any sign, in the unit of the similarities: counts of earlier selections, say. None
        by default.
    include, exclude, quotas, budgets, conflicts, names : optional
        Side constraints of the candidates, by their numbers, and their names: see `solvers.subsets.ConstrainedProblem`.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, it is seen that no selection keeps all constraints, or similarities or
        costs are so large or small that sums of them overflow or vanish.

    Examples
    --------
    >>> from solvers import solve
    >>> solve(CoverageProblem([[5, 4, 0], [4, 5, 0], [0, 0, 5]], size=2)).selected.tolist()
    [0, 2]
    """

    similarity: NDArray[np.floating[Any]]
    size: int
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in by the constructor

    sense: ClassVar[Literal["max"]] = "max"
    family: ClassVar[str] = "coverage"

    def __post_init__(self) -> None:
        single = getattr(self.similarity, "dtype", None) == np.float32
        similarity = frozen_array(self.similarity, "similarity", ndim=2, dtype=np.float32 if single else np.float64)
        if 0 in similarity.shape:
            raise InvalidProblem(
                f"similarity must have a row and a column for at least one client; got {similarity.shape}"
            )
        if not similarity.flags.c_contiguous:
            similarity = np.ascontiguousarray(similarity)
            similarity.setflags(write=False)
        largest = max(float(similarity.max()), -float(similarity.min()))
        if not largest * similarity.shape[0] < _LARGEST:
            raise InvalidProblem(f"similarities up to {largest:g} overflow; rescale them")
        if 0 < largest < _SMALLEST:
            raise InvalidProblem(
                f"similarities are at most {largest:g}, too small to be computed with (accepted: 0, or from "
                f"{_SMALLEST:g}); rescale them"
            )
        n = similarity.shape[1]
        costs = frozen_array(np.zeros(n) if self.costs is None else self.costs, "costs")
        if costs.shape != (n,):
            raise InvalidProblem(f"costs must have one entry per candidate, {n}; got {costs.size}")
        most = float(np.abs(costs).max())
        if not most * n < _LARGEST or 0 < most < _SMALLEST:
            raise InvalidProblem(f"costs up to {most:g} overflow, or vanish; rescale them and the similarities")
        object.__setattr__(self, "costs", costs)
        object.__setattr__(self, "similarity", similarity)
        object.__setattr__(self, "size", checked_size(self.size, similarity.shape[1]))
        self._complete_constraints(np.arange(self.n), self.size)

    @property
    def n(self) -> int:
        """Number of candidates to select from."""
        return self.similarity.shape[1]

    @cached_property
    def extremes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least and largest similarity of each row."""
        return self.similarity.min(axis=1).astype(np.float64), self.similarity.max(axis=1).astype(np.float64)

    @property
    def rounding(self) -> float:
        """A bound on the floating-point error of a plain sum over the rows; the objective itself is rounded once."""
        least, largest = self.extremes
        terms = self.similarity.shape[0] + self.size + 8
        return 2 * terms * _EPS * (float(np.maximum(np.abs(least), np.abs(largest)).sum()) + self.largest_cost)

    @cached_property
    def has_costs(self) -> bool:
        """Whether a candidate has a cost."""
        return bool(self.costs.any())

    @property
    def largest_cost(self) -> float:
        """A bound on the magnitude of what a selection costs."""
        return self.size * float(np.abs(self.costs).max())

    @cached_property
    def reach(self) -> tuple[float, float]:
        """A value that no selection is below, and one that none exceeds: of the best of each row, and least costs."""
        costs, (least, largest) = np.sort(self.costs), self.extremes
        return float(least.sum() - costs[-self.size :].sum()), float(largest.sum() - costs[: self.size].sum())

    @cached_property
    def scale(self) -> float:
        """What a choice can change of all rows and of its costs, but never so small that rounding would hide it."""
        least, largest = self.extremes
        costs = np.sort(self.costs)
        spread = float((largest - least).sum()) + float(costs[-self.size :].sum() - costs[: self.size].sum())
        return max(spread, 4 * self.rounding / OPTIMALITY_GAP, _SMALLEST)

    def objective(self, x: ArrayLike) -> float:
        """Σᵢ maxⱼ sᵢⱼ over the candidates selected less what they cost, rounded once; −∞ where none is."""
        chosen = self.selected(x)
        if not chosen.size:
            return -np.inf
        return fsum([*self.similarity[:, chosen].max(axis=1).tolist(), *(-self.costs[chosen]).tolist()])

    def representatives(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return the candidate that represents each row: the most similar one selected, ties by id.

        Raises
        ------
        InvalidProblem
            When none is selected.
        """
        chosen = self.selected(x)
        if not chosen.size:
            raise InvalidProblem("x selects no candidate, so that none represents a row")
        return chosen[self.similarity[:, chosen].argmax(axis=1)]
