"""The dispersion problem between kinds: clients that differ in nothing but their costs are one kind."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.fedgs import round_terms
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.selection import Selecting
from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["KindDispersionProblem"]

_EPS = float(np.finfo(np.float64).eps)

#: Up to this many clients `KindDispersionProblem.expanded` makes a matrix (3 GiB at most).
_EXPANDABLE = 20_000


@dataclass(frozen=True, eq=False)
class KindDispersionProblem(Selecting):
    r"""Choose ``size`` of ``n`` clients of ``k`` kinds that are far apart and cheap.

    .. math:: \max_{s \in \{0,1\}^n} \; w \sum_{i \ne j} D_{\kappa(i) \kappa(j)} \, s_i s_j - c^\top s
        \quad \text{s.t.} \quad 1^\top s = m

    With :math:`\nu_a` clients of kind a chosen, which may as well be its cheapest, the objective is a function of the
    counts alone, :math:`w (\nu^\top D \nu - \mathrm{diag}(D)^\top \nu) - \sum_a P_a(\nu_a)`, where :math:`P_a(j)` is
    what the j cheapest clients of kind a cost: k whole numbers, however many clients there are.

    Parameters
    ----------
    distances : (k, k) array-like
        Distances between clients of two kinds, and on the diagonal between two clients of one kind (0 if they are
        equal in every respect). Finite, non-negative, symmetric to 1e-9 of the largest.
    kinds : (n,) array-like of int
        The kind of each client, 0 … k-1; every kind has a client.
    costs : (n,) array-like, optional
        Cost c of each client, of any sign. Zero by default.
    size : int
        Number m of clients to choose, 1 ≤ m ≤ n.
    weight : float
        Weight w ≥ 0 of the distances. Each pair counts twice, as in ``sᵀHs``.
    clients : (n,) array-like of int, optional
        Ids the variables stand for, strictly increasing; ``0 … n-1`` by default.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """

    distances: NDArray[np.float64]
    kinds: NDArray[np.int64]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in __post_init__
    _: KW_ONLY
    size: int = None  # type: ignore[assignment]  # has no default: a missing one is refused
    weight: float = 1.0
    clients: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in __post_init__

    sense: ClassVar[Literal["max"]] = "max"
    family: ClassVar[str] = "dispersion"

    def __post_init__(self) -> None:
        distances = _checked(frozen_array(self.distances, "distances", ndim=2))
        k = len(distances)
        kinds = np.asarray(self.kinds)
        if kinds.ndim != 1 or kinds.dtype.kind not in "iu":
            raise InvalidProblem(f"kinds must be one integer per client; got {kinds.dtype} of shape {kinds.shape}")
        kinds = frozen_array(kinds, "kinds", dtype=np.int64)
        n = kinds.size
        if n == 0 or kinds.min() < 0 or kinds.max() >= k:
            what = f"{kinds.min()} to {kinds.max()}" if n else "no client"
            raise InvalidProblem(f"kinds must lie between 0 and {k - 1}, as distances has {k} rows; got {what}")
        empty = np.flatnonzero(np.bincount(kinds, minlength=k) == 0)
        if empty.size:
            raise InvalidProblem(f"kind {empty[0]} has no client; leave its row and column out of distances")
        object.__setattr__(self, "distances", distances)
        object.__setattr__(self, "kinds", kinds)
        largest = float(distances.max())
        self._settle(n, largest, f"distances up to {largest:g}")

    @classmethod
    def fedgs(
        cls,
        distances: ArrayLike,
        kinds: ArrayLike,
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Literal["pairs", "paper"] = "pairs",
    ) -> KindDispersionProblem:
        """FedGS's selection step for one round (Eqs. 14-17), with distances between kinds in the place of H.

        Parameters
        ----------
        distances : (k, k) array-like
            Distances between the kinds; kinds of whom nobody is available are left out.
        kinds : (N,) array-like of int
            The kind of each of the N clients.
        counts, available, size, alpha, scale
            As for `DispersionProblem.fedgs`.

        Returns
        -------
        KindDispersionProblem
            Over the available clients alone; its ``clients`` are their ids among the N.

        Raises
        ------
        InvalidProblem
            When shapes disagree, nobody is available, or a value is out of range.
        """
        d, all_kinds = np.asarray(distances, dtype=np.float64), np.asarray(kinds)
        if all_kinds.ndim != 1 or all_kinds.dtype.kind not in "iu":
            raise InvalidProblem(f"kinds must be one integer per client; got shape {all_kinds.shape}")
        terms = round_terms(all_kinds.size, counts, available, size, alpha, scale)
        present = all_kinds[terms.ids]
        if d.ndim != 2 or present.min() < 0 or present.max() >= min(d.shape):
            raise InvalidProblem(f"distances of shape {d.shape} have no row and column for kind {present.max()}")
        there = np.flatnonzero(np.bincount(present, minlength=len(d)))
        number = np.zeros(len(d), dtype=np.int64)
        number[there] = np.arange(there.size)
        return cls(
            d[np.ix_(there, there)],
            number[present],
            terms.costs,
            size=terms.size,
            weight=terms.weight,
            clients=terms.ids,
        )

    @property
    def n(self) -> int:
        """Number of clients to choose from."""
        return self.kinds.shape[0]

    @property
    def k(self) -> int:
        """Number of kinds."""
        return self.distances.shape[0]

    @cached_property
    def diameter(self) -> float:
        """The largest distance."""
        return float(self.distances.max())

    @property
    def pairs_are_alike(self) -> bool:
        """Whether every selection has the same distances among its clients, so that costs decide alone."""
        return self.k == 1 or super().pairs_are_alike

    def reach(self) -> tuple[NDArray[np.float64], float]:
        """Sum of the distances from each client to all, and a bound on the error of such a sum."""
        sums = self.distances @ np.bincount(self.kinds, minlength=self.k) - self.distances.diagonal()
        return sums[self.kinds], self.n * (self.k + 4) * _EPS * self.diameter

    @cached_property
    def rounding(self) -> float:
        """A bound on the floating-point error of one evaluation of the objective, in its units."""
        m = self.size
        magnitude = self.weight * self.diameter * m * (m - 1) + m * float(np.abs(self.costs).max())
        return 2.0 * (self.k + 16) * _EPS * magnitude

    def objective(self, x: ArrayLike) -> float:
        """``weight · Σ_{i≠j} D(kind of i, kind of j) x_i x_j − costsᵀx``, from the counts in O(n + k²)."""
        chosen = np.flatnonzero(self.decision(x))
        counts = np.bincount(self.kinds[chosen], minlength=self.k).astype(np.float64)
        some = np.flatnonzero(counts)
        pairs = np.outer(counts[some], counts[some])
        pairs[np.arange(some.size), np.arange(some.size)] -= counts[some]
        return self.weight * math.fsum((self.distances[np.ix_(some, some)] * pairs).ravel()) - math.fsum(
            self.costs[chosen]
        )

    def trivial_bound(self) -> float:
        """A valid upper bound in O(n): all pairs as far apart as can be, and the cheapest clients."""
        m = self.size
        cheapest = float(np.partition(self.costs, m - 1)[:m].sum())
        return self.weight * self.diameter * m * (m - 1) - cheapest + (m + 2) * self.rounding

    def expanded(self) -> DispersionProblem:
        """The same problem with a row for every client.

        Raises
        ------
        InvalidProblem
            When there are more than 20 000 clients, whose matrix takes more than 3 GiB.
        """
        if self.n > _EXPANDABLE:
            raise InvalidProblem(
                f"the matrix of {self.n} clients takes {8 * self.n**2 / 2**30:.3g} GiB; expanded() makes one for up to "
                f"{_EXPANDABLE} clients (solve the kinds as they are)"
            )
        h = self.distances[np.ix_(self.kinds, self.kinds)]
        np.fill_diagonal(h, 0.0)
        return DispersionProblem(h, self.costs, size=self.size, weight=self.weight, clients=self.clients)


def _checked(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square, non-negative and exactly symmetric, or a sentence."""
    k = distances.shape[0]
    if distances.shape != (k, k) or k == 0:
        raise InvalidProblem(f"distances must be a square matrix of at least one kind; got {distances.shape}")
    if (smallest := float(distances.min())) < 0:
        raise InvalidProblem(f"distances must be non-negative; the smallest is {smallest:g}")
    asymmetry = np.abs(distances - distances.T)
    i, j = (int(entry) for entry in np.unravel_index(asymmetry.argmax(), asymmetry.shape))
    if asymmetry[i, j] > 1e-9 * float(distances.max()):
        raise InvalidProblem(
            f"distances must be symmetric; entry ({i}, {j}) is {distances[i, j]:g} "
            f"but entry ({j}, {i}) is {distances[j, i]:g}"
        )
    if asymmetry[i, j] > 0:
        distances = (distances + distances.T) / 2
    distances = np.ascontiguousarray(distances)
    distances.setflags(write=False)
    return distances
