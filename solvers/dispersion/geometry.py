r"""Geometries: pairwise distances of n clients, stated by a matrix, by points, or by kinds of clients.

Clients are named by place, 0 … n − 1; H is the symmetric matrix of their distances, which `MatrixGeometry` and
`StoredPointGeometry` hold. See docs/mathematics/dispersion.md, *The problem*.

==================  =========================================  =========================
in formulas         here                                       costs, in order
==================  =========================================  =========================
H_ij for i, j ∈ S   ``distances(S)``                           \|S\|² (· d)
H_ij for all j      ``row(i)``                                 n (· d)
sᵀHs                ``pair_sum(S)``                            \|S\|² (· d), or \|S\| + k²
H1                  ``sums()``                                 n² (· d), or n + k²
max H_ij            ``diameter``, which may be larger          once
==================  =========================================  =========================
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import Clock, is_loaded, load

_EPS = float(np.finfo(np.float64).eps)

Reals = NDArray[np.float64]
Clients = NDArray[np.integer[Any]]


class Geometry(ABC):
    """Distances H between n clients: finite, non-negative, symmetric, zero on the diagonal.

    Attributes
    ----------
    n : int
        Number of clients.
    diameter : float
        A number that no distance exceeds.
    """

    n: int
    diameter: float

    @property
    def pairs_are_alike(self) -> bool:
        """Whether it is known at once that all clients are equally far from each other."""
        return self.diameter == 0

    @property
    def has_quick_sums(self) -> bool:
        """Whether `sums` is quick enough for what is called no search."""
        return True

    @abstractmethod
    def distances(self, clients: Clients) -> NDArray[np.floating[Any]]:
        """Return the matrix of distances among some clients."""

    @abstractmethod
    def row(self, client: int | np.integer[Any]) -> Reals:
        """Return the distances from one client to all."""

    @abstractmethod
    def pair_sum(self, clients: Clients) -> float:
        """Add up the distances among some clients, each pair twice."""

    @abstractmethod
    def sums(self) -> tuple[Reals, float]:
        """Return the sum of the distances from each client to all, and a bound on the error of such a sum."""

    def farthest(self, count: int) -> Reals | float:
        """Bound, for each client, the sum of the distances to any ``count`` others; or one number for all of them."""
        return count * self.diameter

    def rounding(self, weight: float, size: int, largest_cost: float) -> float:
        """Bound the floating-point error of ``weight · pair_sum − costs`` for ``size`` clients of costs up to so much.

        Its terms are at most ``weight · diameter · m (m − 1) + m · largest_cost`` in size.
        """
        return 2.0 * self._error(size) * (weight * self.diameter * size * (size - 1) + size * largest_cost)

    @abstractmethod
    def _error(self, size: int) -> float:
        """Half the relative error of that value, for a selection of so many."""

    @staticmethod
    def add(values: Reals) -> float:
        """Add up costs."""
        return math.fsum(values)


class MatrixGeometry(Geometry):
    """Distances stored as they are.

    Parameters
    ----------
    matrix : (n, n) ndarray
        H, in double or single precision; sums are always made in double precision.
    """

    def __init__(self, matrix: NDArray[np.floating[Any]]) -> None:
        self.matrix = matrix
        self.n = len(matrix)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]  # computed once
        """The largest distance."""
        return float(self.matrix.max())

    def distances(self, clients: Clients) -> NDArray[np.floating[Any]]:
        """Return the matrix of distances among some clients."""
        return self.matrix[np.ix_(clients, clients)]

    def row(self, client: int | np.integer[Any]) -> Reals:
        """Return the distances from one client to all."""
        return self.matrix[client].astype(np.float64, copy=False)

    def pair_sum(self, clients: Clients) -> float:
        """Add up the distances among some clients, each pair twice."""
        return float(self.distances(clients).sum(dtype=np.float64))

    def sums(self) -> tuple[Reals, float]:
        """Return the sum of the distances from each client to all, and a bound on the error of such a sum."""
        n = self.n
        return self.matrix.sum(axis=1, dtype=np.float64), n * (n + 4) * _EPS * self.diameter

    def farthest(self, count: int) -> Reals | float:
        """Add up, for each client, the distances to the ``count`` clients farthest from it, in O(n²)."""
        n = self.n
        reach = np.zeros(n)
        rows = max(1, 10**7 // n)  # at a time, so that no copy of a large matrix is made
        for start in range(0, n if count else 0, rows):
            block = np.partition(self.matrix[start : start + rows], n - count, axis=1)
            reach[start : start + rows] = block[:, n - count :].sum(axis=1, dtype=np.float64)
        return reach

    def rounding(self, weight: float, size: int, largest_cost: float) -> float:
        """As for every geometry, for plain sums of m² entries; none for one client, as nothing is added up."""
        if size == 1:
            return 0.0
        return 2.0 * self._error(size) * (weight * self.diameter * (size * size) + size * largest_cost)

    def _error(self, size: int) -> float:
        return (size * size + 4) * _EPS

    @staticmethod
    def add(values: Reals) -> float:
        """Add up costs."""
        return float(values.sum())


class PointGeometry(Geometry):
    """Euclidean distances between points, computed where they are needed.

    Parameters
    ----------
    coordinates : (d, n) ndarray
        One row per axis, as the kernels read it.
    """

    #: Clients between which weight is moved at a time, more where many are fractional; their distances are stored (18
    #: MB).
    at_once = 1_500

    def __init__(self, coordinates: Reals) -> None:
        self.coordinates = coordinates
        self.n = coordinates.shape[1]

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]  # computed once
        """Twice the largest distance from the middle of the points, in O(n·d)."""
        c = self.coordinates
        middle = (c.max(axis=1) / 2 + c.min(axis=1) / 2)[:, None]
        squares = np.zeros(self.n)
        for axis, centre in zip(c, middle, strict=True):
            squares += (axis - centre) ** 2
        return 2 * math.sqrt(float(squares.max())) * (1 + (len(c) + 8) * _EPS)

    @property
    def distance_error(self) -> float:
        """Relative error of one computed distance: d differences, squares and additions, and a root."""
        return (self.coordinates.shape[0] / 2 + 4) * _EPS

    @property
    def has_quick_sums(self) -> bool:
        """Whether there are at most 2 million distances to add up."""
        return self.n**2 <= FEW

    def distances(self, clients: Clients) -> Reals:
        """Return the matrix of distances among some clients."""
        some = np.ascontiguousarray(self.coordinates[:, clients])
        if len(clients) ** 2 > FEW:  # SciPy takes longer for so many
            matrix = np.empty((len(clients), len(clients)))
            load("points").fill_distances(some, matrix)
        else:
            from scipy.spatial.distance import cdist

            matrix = cdist(some.T, some.T)
        matrix.setflags(write=False)
        return matrix

    def row(self, client: int | np.integer[Any]) -> Reals:
        """Return the distances from one client to all."""
        return self.potentials(np.array([client]), np.ones(1))

    def pair_sum(self, clients: Clients) -> float:
        """Add up the distances among some clients, each pair twice, row by row in O(m²·d)."""
        inside = np.ascontiguousarray(self.coordinates[:, clients])
        return math.fsum(potentials(inside, inside, np.ones(clients.size)))

    def sums(self) -> tuple[Reals, float]:
        """Return the sum of the distances from each client to all, and a bound on the error of such a sum."""
        c, n = self.coordinates, self.n
        return potentials(c, c, np.ones(n)), n * (self.distance_error + (n + 4) * _EPS) * self.diameter

    def potentials(self, clients: Clients, weights: Reals, clock: Clock | None = None) -> Reals:
        """Return ``Σ_k weights_k H_ik``, summed over some clients k, for every client i; see `potentials`."""
        return potentials(self.coordinates, np.ascontiguousarray(self.coordinates[:, clients]), weights, clock)

    def _error(self, size: int) -> float:
        return (size + 16) * _EPS + self.distance_error


class StoredPointGeometry(PointGeometry):
    """Euclidean distances between points, computed once: for some thousand points whose gradients are asked for often.

    Parameters
    ----------
    coordinates : (d, n) ndarray
        One row per axis.
    clock : Clock, optional
        A run, whose clock stands still while a kernel is loaded.
    """

    def __init__(self, coordinates: Reals, clock: Clock | None = None) -> None:
        super().__init__(coordinates)
        self.matrix = np.empty((self.n, self.n))
        load("points", clock).fill_distances(coordinates, self.matrix)
        self.matrix.setflags(write=False)
        self.at_once = self.n

    def distances(self, clients: Clients) -> Reals:
        """Return the matrix of distances among some clients, no copy where these are all."""
        return self.matrix if len(clients) == self.n else self.matrix[np.ix_(clients, clients)]

    def potentials(self, clients: Clients, weights: Reals, clock: Clock | None = None) -> Reals:
        """Return ``Σ_k weights_k H_ik``, summed over some clients k, for every client i."""
        if 3 * len(clients) < self.n:
            return np.asarray(weights @ self.matrix[clients])
        everyone = np.zeros(self.n)  # a copy of so many rows takes longer than to read them all
        everyone[clients] = weights
        return np.asarray(everyone @ self.matrix)

    def pair_sum(self, clients: Clients) -> float:
        """Add up the distances among some clients, each pair twice, from those that are stored."""
        return math.fsum(self.potentials(clients, np.ones(len(clients)))[clients])


class KindGeometry(Geometry):
    """Distances between clients of a few kinds.

    Parameters
    ----------
    table : (k, k) ndarray
        Distances between clients of two kinds; on the diagonal between two clients of one kind.
    kinds : (n,) ndarray of int
        The kind of each client.
    """

    def __init__(self, table: Reals, kinds: NDArray[np.int64]) -> None:
        self.table, self.kinds = table, kinds
        self.n, self.k = kinds.size, len(table)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]  # computed once
        """The largest distance."""
        return float(self.table.max())

    @property
    def pairs_are_alike(self) -> bool:
        """Whether there is one kind, or no distance above 0."""
        return self.k == 1 or self.diameter == 0

    def distances(self, clients: Clients) -> Reals:
        """Return the matrix of distances among some clients."""
        kinds = self.kinds[clients]
        matrix = self.table[np.ix_(kinds, kinds)]
        np.fill_diagonal(matrix, 0.0)
        return matrix

    def row(self, client: int | np.integer[Any]) -> Reals:
        """Return the distances from one client to all."""
        distances = self.table[self.kinds[client]][self.kinds]
        distances[client] = 0.0
        return distances

    def pair_sum(self, clients: Clients) -> float:
        """Add up the distances among some clients, each pair twice, from the counts of the kinds in O(m + k²)."""
        counts = np.bincount(self.kinds[clients], minlength=self.k).astype(np.float64)
        some = np.flatnonzero(counts)
        pairs = np.outer(counts[some], counts[some])
        pairs[np.arange(some.size), np.arange(some.size)] -= counts[some]
        return math.fsum((self.table[np.ix_(some, some)] * pairs).ravel())

    def sums(self) -> tuple[Reals, float]:
        """Return the sum of the distances from each client to all, and a bound on the error of such a sum."""
        sums = self.table @ np.bincount(self.kinds, minlength=self.k) - self.table.diagonal()
        return sums[self.kinds], self.n * (self.k + 4) * _EPS * self.diameter

    def _error(self, size: int) -> float:
        return (self.k + 16) * _EPS


# -- sums of distances to points: the one thing that costs time between a million points -------------------------------

#: Distances up to which NumPy is quicker than loading compiled code.
FEW = 2_000_000

#: Distances between two looks at the clock: some tens of milliseconds.
_WORK = 40_000_000

#: Points to a thread, at least.
_SHARE = 4_096


class OutOfTime(Exception):
    """The clock ran out in the middle of something that has no answer yet."""


def potentials(coordinates: Reals, centres: Reals, weights: Reals, clock: Clock | None = None) -> Reals:
    """Return ``Σ_k weights_k ‖p_i − centre_k‖`` for every point i.

    The bits do not depend on the number of threads.

    Parameters
    ----------
    coordinates : (d, n) ndarray
        The points.
    centres : (d, K) ndarray
        The centres.
    weights : (K,) ndarray
        Their weights.
    clock : Clock, optional
        Looked at every few ten milliseconds: a run.

    Raises
    ------
    OutOfTime
        When its time is over while more than 2 million distances are added up; fewer are in any case.
    """
    n, count = coordinates.shape[1], weights.size
    if n * count <= FEW and not is_loaded("points"):
        return _in_numpy(coordinates, centres, weights)
    add_distances, totals = load("points", clock).add_distances, np.zeros(n)
    if n * count <= FEW:  # the same bits, in a tenth of the time
        add_distances(coordinates, np.array(centres, order="C"), np.array(weights), 0, n, totals)
        return totals
    threads = max(1, min(_threads(), n // _SHARE))
    edges = np.linspace(0, n, threads + 1).astype(np.int64)
    together = max(1, _WORK // n)
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, count, together):
            if clock is not None and clock.expired:
                raise OutOfTime
            some = np.ascontiguousarray(centres[:, start : start + together])
            share = np.ascontiguousarray(weights[start : start + together])
            done = [
                pool.submit(add_distances, coordinates, some, share, first, last, totals)
                for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            ]
            for part in done:
                part.result()
    return totals


def _in_numpy(coordinates: Reals, centres: Reals, weights: Reals) -> Reals:
    totals = np.zeros(coordinates.shape[1])
    for centre, weight in zip(centres.T, weights, strict=True):
        squares = (coordinates[0] - centre[0]) ** 2
        for row, middle in zip(coordinates[1:], centre[1:], strict=True):
            squares += (row - middle) ** 2
        totals += weight * np.sqrt(squares)
    return totals


def _threads() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
