"""The dispersion problem between points: distances are computed where they are needed and never stored."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.fedgs import round_terms
from solvers.dispersion.points.sums import FEW, potentials
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.selection import Selecting
from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["PointDispersionProblem"]

_EPS = float(np.finfo(np.float64).eps)

#: Up to this many clients `PointDispersionProblem.expanded` makes a matrix (3 GiB at most).
_EXPANDABLE = 20_000

#: Squares of coordinates must neither overflow nor vanish.
_SMALLEST, _LARGEST = 1e-130, 1e130


@dataclass(frozen=True, eq=False)
class PointDispersionProblem(Selecting):
    r"""Choose ``size`` of ``n`` clients, given as points, that are far apart and cheap.

    .. math:: \max_{s \in \{0,1\}^n} \; w \sum_{i,j} d(p_i, p_j) \, s_i s_j - c^\top s
        \quad \text{s.t.} \quad 1^\top s = m

    The same problem as `DispersionProblem` on the matrix of the points' distances, in O(n·d) memory instead of n².

    Parameters
    ----------
    points : (n, d) array-like
        The clients: embeddings, coordinates, label distributions. Finite; rows of equal points are at distance 0.
    costs : (n,) array-like, optional
        Cost c of each client, of any sign. Zero by default.
    size : int
        Number m of clients to choose, 1 ≤ m ≤ n.
    weight : float
        Weight w ≥ 0 of the distances. Each pair counts twice, as in ``sᵀHs``.
    metric : {"euclidean", "hellinger"}
        ``"euclidean"``: d(p, q) = ‖p − q‖₂. ``"hellinger"``: d(p, q) = ‖√p − √q‖₂ / √2, in [0, 1], for rows that
        are distributions (non-negative, of sum 1 to 1e-6).
    clients : (n,) array-like of int, optional
        Ids the variables stand for, strictly increasing; ``0 … n-1`` by default.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.

    Notes
    -----
    Euclidean distances (and Hellinger's, which are Euclidean between the roots of distributions) are of negative
    type: :math:`z^\top H z \le 0` whenever :math:`1^\top z = 0` (Schoenberg 1938). On the slice
    :math:`1^\top s = m` the objective is therefore concave as it stands. A tangent at any point of the slice bounds
    it from above without the diagonal shift that a general matrix needs, and one row of H is all it takes to move the
    point: that is why a million points are easier than a hundred arbitrary distances.
    """

    points: NDArray[np.float64]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in __post_init__
    _: KW_ONLY
    size: int = None  # type: ignore[assignment]  # has no default: a missing one is refused
    weight: float = 1.0
    metric: Literal["euclidean", "hellinger"] = "euclidean"
    clients: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in __post_init__

    sense: ClassVar[Literal["max"]] = "max"
    family: ClassVar[str] = "dispersion"

    def __post_init__(self) -> None:
        points = frozen_array(self.points, "points", ndim=2)
        n, dimensions = points.shape
        if n == 0 or dimensions == 0:
            raise InvalidProblem(f"points must be rows of at least one coordinate each; got shape {points.shape}")
        if self.metric not in ("euclidean", "hellinger"):
            raise InvalidProblem(f"metric must be 'euclidean' or 'hellinger'; got {self.metric!r}")
        if self.metric == "hellinger":
            _check_distributions(points)
        extent = max(float(column.max() / 2 - column.min() / 2) for column in points.T) * 2
        if not (extent == 0 or _SMALLEST < extent < _LARGEST):
            raise InvalidProblem(f"points spread over {extent:g}, whose square is no number; rescale them")
        object.__setattr__(self, "points", points)
        self._settle(n, extent * dimensions, f"points spread over {extent:g}")

    @classmethod
    def fedgs(
        cls,
        points: ArrayLike,
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Literal["pairs", "paper"] = "pairs",
        metric: Literal["euclidean", "hellinger"] = "euclidean",
    ) -> PointDispersionProblem:
        """FedGS's selection step for one round (Eqs. 14-17), with the distances of points in the place of H.

        Parameters
        ----------
        points : (N, d) array-like
            A point for each of the N clients: its label distribution, or an embedding.
        counts, available, size, alpha, scale
            As for `DispersionProblem.fedgs`.
        metric : {"euclidean", "hellinger"}
            The distance between points.

        Returns
        -------
        PointDispersionProblem
            Over the available clients alone; its ``clients`` are their ids among the N.

        Raises
        ------
        InvalidProblem
            When shapes disagree, nobody is available, or a value is out of range.
        """
        p = np.asarray(points)
        if p.ndim != 2:
            raise InvalidProblem(f"points must have 2 dimension(s); got shape {p.shape}")
        terms = round_terms(p.shape[0], counts, available, size, alpha, scale)
        if terms.ids.size < len(p):
            p = p[terms.ids]
            p.setflags(write=False)  # nobody else has it, so that it need not be copied again
        return cls(p, terms.costs, size=terms.size, weight=terms.weight, metric=metric, clients=terms.ids)

    @property
    def n(self) -> int:
        """Number of clients to choose from."""
        return self.points.shape[0]

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """Where the clients lie in Euclidean space, shape (d, n): one row an axis, as the kernels read it."""
        roots = np.sqrt(self.points / 2) if self.metric == "hellinger" else self.points
        array = np.ascontiguousarray(roots.T)
        array.setflags(write=False)
        return array

    @cached_property
    def diameter(self) -> float:
        """A number no distance exceeds, in O(n·d): twice the largest distance from the middle of the points."""
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
    def can_reach(self) -> bool:
        """Whether there is time for `reach`."""
        return self.n**2 <= FEW

    def reach(self) -> tuple[NDArray[np.float64], float]:
        """Sum of the distances from each client to all, and a bound on the error of such a sum."""
        c, n = self.coordinates, self.n
        return potentials(c, c, np.ones(n)), n * (self.distance_error + (n + 4) * _EPS) * self.diameter

    @cached_property
    def rounding(self) -> float:
        """A bound on the floating-point error of one evaluation of the objective, in its units."""
        m = self.size
        magnitude = self.weight * self.diameter * m * (m - 1) + m * float(np.abs(self.costs).max())
        return 2.0 * ((m + 16) * _EPS + self.distance_error) * magnitude

    def objective(self, x: ArrayLike) -> float:
        """``weight · Σ_ij d(p_i, p_j) x_i x_j − costsᵀx``, row by row in O(m²·d)."""
        chosen = np.flatnonzero(self.decision(x))
        inside = np.ascontiguousarray(self.coordinates[:, chosen])
        pairs = math.fsum(potentials(inside, inside, np.ones(chosen.size)))
        return self.weight * pairs - math.fsum(self.costs[chosen])

    def trivial_bound(self) -> float:
        """A valid upper bound in O(n·d): all pairs as far apart as can be, and the cheapest clients."""
        m = self.size
        cheapest = float(np.partition(self.costs, m - 1)[:m].sum())
        return self.weight * self.diameter * m * (m - 1) - cheapest + self.rounding

    def expanded(self) -> DispersionProblem:
        """The same problem with its matrix of distances.

        Raises
        ------
        InvalidProblem
            When there are more than 20 000 clients, whose matrix takes more than 3 GiB.
        """
        if self.n > _EXPANDABLE:
            raise InvalidProblem(
                f"the matrix of {self.n} clients takes {8 * self.n**2 / 2**30:.3g} GiB; expanded() makes one for up to "
                f"{_EXPANDABLE} clients (solve the points as they are)"
            )
        return DispersionProblem(
            self.distances(np.arange(self.n)), self.costs, size=self.size, weight=self.weight, clients=self.clients
        )

    def distances(self, clients: NDArray[Any]) -> NDArray[np.float64]:
        """The matrix of distances between some clients, given by place."""
        from scipy.spatial.distance import cdist

        some = np.ascontiguousarray(self.coordinates[:, clients].T)
        matrix = cdist(some, some)
        matrix.setflags(write=False)
        return matrix


def _check_distributions(points: NDArray[np.float64]) -> None:
    if (smallest := float(points.min())) < 0:
        raise InvalidProblem(f"the hellinger metric needs distributions; the smallest entry of points is {smallest:g}")
    sums = points.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-6:
        raise InvalidProblem(f"the hellinger metric needs distributions; row {worst} of points sums to {sums[worst]:g}")
