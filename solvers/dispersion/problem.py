r"""The dispersion problem, choosing m clients far apart and cheap (FedGS, Eqs. 14-17), over three geometries.

`SelectionProblem` has what does not depend on how distances are stated: costs, size and weight, decisions and their
values, bounds that need no search, rounding. Its subclasses take a matrix of distances, points, or kinds of clients
that are alike, check them, and hand over a geometry (`solvers.dispersion.geometry`).

`SelectionProblem.feasible` says which selections are feasible, under side constraints (`solvers.constraints`) too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array, integer, number
from solvers.constraints import among
from solvers.dispersion.geometry import Geometry, KindGeometry, MatrixGeometry, PointGeometry
from solvers.errors import InvalidProblem
from solvers.labels import Labels, aligned, labels_of, names_of, reconciled, square
from solvers.options import AtLeast, did_you_mean
from solvers.solution import OPTIMALITY_GAP
from solvers.subsets import ConstrainedProblem, checked_names

if TYPE_CHECKING:
    from solvers.dispersion.quadratic import QuadraticProblem

_EPS = float(np.finfo(np.float64).eps)

#: Numbers that rounding errors can be told from: products with 2⁻⁵² neither vanish nor overflow by a wide margin.
SMALLEST, _LARGEST = 1e-280, 1e280

#: Up to this many clients `SelectionProblem.expanded` makes a matrix (3 GiB at most).
EXPANDABLE = 20_000

Metric = Literal["euclidean", "hellinger"]

#: Metrics that are stated by a matrix, and SciPy's names of them.
_BY_MATRIX = {"manhattan": "cityblock", "cosine": "cosine"}

Scale = Literal["pairs", "paper", "turns"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectionProblem(ConstrainedProblem):
    """Choose ``size`` of ``n`` clients, whose ids are ``clients``, far apart and cheap: common to all geometries.

    A subclass states the distances, and after them ``costs``.
    """

    size: int = None  # type: ignore[assignment]  # has no default: a missing one is refused
    weight: float = 1.0
    clients: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in by `_complete`

    sense: ClassVar[Literal["max"]] = "max"
    asked: ClassVar[Any] = None  # the problem that one of these is solved for, see `answering`

    if TYPE_CHECKING:

        @property
        def costs(self) -> NDArray[np.float64]:
            """Cost of each client."""

    def _align(self, labels: Labels | None, of: str) -> None:
        """Put costs in the order of the labels, or of the names; the labels name the clients where nothing does."""
        reference, names = reconciled(labels, self.names)
        costs = aligned(self.costs, "costs", reference, of if labels else "names")
        self._freeze(labels=reference, names=names, costs=costs)

    def _complete(self, n: int, largest: float, what: str) -> None:
        """Check, fill in and freeze costs, size, weight and clients of a problem of n clients.

        No distance is above ``largest``; ``what`` names it in the sentence about overflows.
        """
        if isinstance(self.costs, int | float | np.number):  # the size, where a person expects it second
            raise InvalidProblem(
                f"costs must have one entry per client, {n}; got {self.costs!r} (the size is size={self.costs!r})"
            )
        costs = frozen_array(np.zeros(n) if self.costs is None else self.costs, "costs")
        if costs.shape != (n,):
            raise InvalidProblem(f"costs must have one entry per client, {n}; got {costs.shape[0]}")
        size = selection_size(self.size, n)
        weight = number(self.weight, "weight", AtLeast(0))
        _check_range(weight, largest, what, float(np.abs(costs).max()), size)
        clients = frozen_array(np.arange(n) if self.clients is None else self.clients, "clients", dtype=np.int64)
        if clients.shape != (n,) or (np.diff(clients) <= 0).any():
            raise InvalidProblem(f"clients must be {n} strictly increasing ids; got {clients}")
        for name, value in (("costs", costs), ("size", size), ("weight", weight), ("clients", clients)):
            object.__setattr__(self, name, value)
        self._complete_constraints(clients, size)

    @classmethod
    def _of_round(
        cls,
        n: int,
        restricted: Callable[[NDArray[np.int64]], tuple[Any, ...]],
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Scale,
        constraints: dict[str, Any],
        **fields: Any,
    ) -> Self:
        """State a round of FedGS over the available ones of n clients; see `DispersionProblem.fedgs`.

        ``restricted`` returns what states the distances among some of the clients; the ``fields`` are the same for all.
        """
        constraints = dict(constraints)
        called = checked_names(constraints.pop("names", ()), n)
        names = ("include", "exclude", "quotas", "budgets", "conflicts", "names")
        if unknown := [name for name in constraints if name not in names]:
            raise TypeError(
                f"{cls.__name__}.fedgs has no argument {unknown[0]!r}{did_you_mean(unknown[0], names)} "
                f"(beside its parameters it takes {', '.join(names)})"
            )
        v = frozen_array(counts, "counts")
        if v.shape[0] != n:
            raise InvalidProblem(f"counts must have one entry per client, {n}; got {v.shape[0]}")
        mask = _array(available, "available")
        if mask.shape != (n,) or not (mask.dtype == bool or np.isin(mask, (0, 1)).all()):
            found = f"shape {mask.shape}" if mask.shape != (n,) else f"{mask.tolist()!r:.80}"
            raise InvalidProblem(f"available must be a mask of {n} booleans; got {found}")
        ids = np.flatnonzero(mask)
        if ids.size == 0:
            raise InvalidProblem("no client is available, so there is nothing to select from")
        if (v < 0).any():
            raise InvalidProblem(f"counts must be non-negative; the smallest is {v.min():g}")
        limit = integer(size, "size")
        if limit < 1:
            raise InvalidProblem(f"size must be at least 1; got {limit}")
        alpha = number(alpha, "alpha", AtLeast(0))
        m = min(limit, ids.size)
        if scale not in ("pairs", "paper", "turns"):
            raise InvalidProblem(f"scale must be 'pairs', 'paper' or 'turns'; got {scale!r}")
        pairs = {"pairs": m * (m - 1), "paper": n * (n - 1), "turns": (n - 1) * (m - 1)}[scale]
        z = 2 * (v - v.mean() - limit / n) + 1
        terms: dict[str, Any] = {"size": m, "weight": alpha / pairs if pairs else 0.0, "clients": ids}
        stated = among(constraints, ids, n) if constraints else {}
        if called:
            stated["names"] = [called[k] for k in ids.tolist()]
        return cls(*restricted(ids), z[ids] / max(n - 1, 1), **terms, **fields, **stated)  # type: ignore[call-arg]

    @property
    def geometry(self) -> Geometry:
        """Distances between the clients."""
        raise NotImplementedError

    @property
    def n(self) -> int:
        """Number of clients to choose from."""
        return self.geometry.n

    @property
    def diameter(self) -> float:
        """A number no distance exceeds."""
        return self.geometry.diameter

    # -- size of the terms -------------------------------------------------------------------------------------------

    @property
    def pairs_are_alike(self) -> bool:
        """Whether it is known at once that distances add up to the same in every selection."""
        return self.weight * self.diameter == 0 or self.geometry.pairs_are_alike

    @cached_property
    def common_cost(self) -> float:
        """The median cost: a constant under ``1ᵀs = m`` that would only spend digits."""
        return float(np.median(self.costs))

    @cached_property
    def linear(self) -> NDArray[np.float64]:
        """Worth of each client by itself, ``common_cost − costs``."""
        return self.common_cost - self.costs

    @cached_property
    def spread(self) -> float:
        """Largest difference of a cost from their common part."""
        return float(np.abs(self.linear).max())

    @property
    def terms(self) -> float:
        """A bound on the absolute sum of the objective's terms, with the costs' common part left out."""
        m = self.size
        return self.weight * self.diameter * m * (m - 1) + m * self.spread

    @cached_property
    def rounding(self) -> float:
        """A bound on the floating-point error of one evaluation of the objective, in its units."""
        return self.geometry.rounding(self.weight, self.size, float(np.abs(self.costs).max()))

    @cached_property
    def scale(self) -> float:
        """As `terms`, but never so small that a bound could not be told from the objective for rounding."""
        return max(self.terms, 4 * self.rounding / OPTIMALITY_GAP)

    def answering(self, asked: Any) -> Self:
        """Return this problem, marked as solved for ``asked`` or a part of it.

        Where ``asked`` is a `solvers.dispersion.QuadraticProblem`, or solved for one, tolerances are those of that.
        Another problem changes nothing.
        """
        asked = getattr(asked, "asked", asked)
        if asked is not None:
            self.__dict__["asked"] = asked
        return self

    def tolerance_at(self, value: float, relative: float = OPTIMALITY_GAP) -> float:
        """As `Problem.tolerance_at`, in the units of the quadratic problem that this one is solved for, if any."""
        asked = self.asked
        return super().tolerance_at(value, relative) if asked is None else asked.tolerance_of(value, relative)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def selected(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted client ids that ``x`` selects."""
        return self.clients[np.flatnonzero(self.decision(x))]

    def objective(self, x: ArrayLike) -> float:
        """``weight · xᵀHx − costsᵀx``."""
        chosen = np.flatnonzero(self.decision(x))
        geometry = self.geometry
        return self.weight * geometry.pair_sum(chosen) - geometry.add(self.costs[chosen])

    def trivial_bound(self) -> float:
        r"""A valid upper bound without a search: each client with the m − 1 clients farthest from it.

        Client i contributes at most :math:`w \sum_{j \in \text{top}_{m-1}} H_{ij} - c_i`, where without a matrix
        every distance counts as the diameter; the largest sum of these over a selection bounds the objective. A margin
        for rounding is added.
        """
        m = self.size
        worth = self.weight * self.geometry.farthest(m - 1) - self.costs
        sums = (m + 4) * _EPS * (self.weight * self.diameter * m * (m - 1) + m * float(np.abs(self.costs).max()))
        return self.feasible.support(worth) + self.rounding + sums

    def expanded(self) -> DispersionProblem:
        """Return the same problem with its matrix of distances; itself where it has one.

        Raises
        ------
        InvalidProblem
            When a matrix would have to be made for more than 20 000 clients, which takes 3 GiB.
        """
        if isinstance(self, DispersionProblem):
            return self
        if self.n > EXPANDABLE:
            raise InvalidProblem(
                f"the matrix of {self.n} clients takes {8 * self.n**2 / 2**30:.3g} GiB; expanded() makes one for up to "
                f"{EXPANDABLE} clients (PointDispersionProblem(points, size=...) is solved without it)"
            )
        matrix = self.geometry.distances(np.arange(self.n))
        return DispersionProblem(
            matrix,
            self.costs,
            size=self.size,
            weight=self.weight,
            clients=self.clients,
            names=self.names,
            **self.stated_constraints(),
        )


@dataclass(frozen=True, eq=False)
class DispersionProblem(SelectionProblem):
    r"""Choose ``size`` of ``n`` clients that are far apart and cheap.

    .. math:: \max_{s \in \{0,1\}^n} \; w \, s^\top H s - c^\top s \quad \text{s.t.} \quad 1^\top s = m

    With ``weight=0.5`` and zero costs this is the p-dispersion-sum or maximum diversity problem; with the weight and
    costs of `fedgs` it is the selection step of FedGS (Wang et al., AAAI 2023, Eqs. 14-17). It is NP-hard.

    Parameters
    ----------
    distances : (n, n) array-like
        Pairwise distances H ≥ 0: finite, symmetric (to 1e-9 of the largest, 1e-6 in single precision), zero on the
        diagonal. A linear term belongs into ``costs``. An array of float32 stays in single precision, which halves the
        memory of a large problem; objectives are still summed in double precision.
    costs : (n,) array-like, optional
        Cost c of each client, of any sign, in the units of ``weight · distances``. Zero by default.
    size : int
        Number m of clients to choose, 1 ≤ m ≤ n.
    weight : float
        Weight w ≥ 0 of the distances. ``sᵀHs`` counts each pair twice; `max_diversity` counts it once.
    clients : (n,) array-like of int, optional
        Ids the variables stand for, strictly increasing; ``0 … n-1`` by default. `selected` and
        ``Solution.selected`` speak in these ids.
    include, exclude, quotas, budgets, conflicts, names : sequences
        Side constraints, in these ids, and names of the clients: see `solvers.subsets.ConstrainedProblem`.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or numbers are too large or too small to be computed with.
    """

    distances: NDArray[np.floating[Any]]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in by `_complete`

    family: ClassVar[str] = "dispersion"

    def __post_init__(self) -> None:
        stated, labels = square(self.distances, "distances")
        self._align(labels, "distances")
        single = getattr(stated, "dtype", None) == np.float32
        distances = _symmetric(stated, "client", np.float32 if single else np.float64)
        if (diagonal := distances.diagonal()).any():
            client = int(np.flatnonzero(diagonal)[0])
            raise InvalidProblem(
                f"distances must be zero on the diagonal; client {client} has {diagonal[client]:g} to itself "
                f"(a linear term belongs into costs; {_QUADRATIC})"
            )
        object.__setattr__(self, "distances", distances)
        self._complete(len(distances), self.diameter, f"distances up to {self.diameter:g}")

    @classmethod
    def fedgs(
        cls,
        distances: ArrayLike,
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Scale = "pairs",
        **constraints: Any,
    ) -> DispersionProblem:
        r"""FedGS's selection step for one round (Eqs. 14-17).

        The objective is :math:`a \, s^\top H s - z^\top s / (N - 1)` over the available clients, with
        :math:`z_k = 2 (v_k - \bar v - M/N) + 1`; the constant part of z is kept, so that with the scale ``"paper"`` the
        value is that of Eq. 14. Paper and code differ in the scale ``a`` of the distances:

        * ``"pairs"``, the authors' code and the default here: :math:`a = \alpha / (m (m - 1))`, so that α weighs the
          mean distance of the *selected* pairs, as the text of the paper ("average") says;
        * ``"paper"``, Eqs. 13-14 as printed: :math:`a = \alpha / (N (N - 1))`, smaller by a factor of 110 at
          N = 100, m = 10: with distances up to 1, an α up to 11 then only breaks ties between equal counts;
        * ``"turns"``: :math:`a = \alpha / ((N - 1) (m - 1))`, so that α is in turns: with distances up to 1, no swap of
          two clients gains more by them than α turns are worth, whatever N and m.

        **Under** ``"pairs"`` **the meaning of α changes with m.** With distances up to 1, a swap gains up to 2α/m by
        them, which is worth α (N - 1) / m turns: at N = 100 and α = 1 these are 10 with m = 10 and 33 with m = 3, where
        the mean client of a run of 100 rounds has had three. Tune α for each m, or use ``"turns"``, the default of the
        selector ``fedgs``.

        (The authors' code has M/|A| for M/N in z. Both are constants under :math:`1^\top s = m`.)

        Parameters
        ----------
        distances : (N, N) array-like
            Shortest-path distances H of the 3DG over all N clients.
        counts : (N,) array-like
            How often each client was selected before this round, v.
        available : (N,) array-like of bool
            Which clients are available, A.
        size : int
            Largest number M of clients to select; m = min(M, |A|) are selected (Eq. 15).
        alpha : float
            Weight α ≥ 0 of the distances against the balance of the counts.
        scale : {"pairs", "paper", "turns"}
            Scale of the distances.
        **constraints
            Side constraints over all N clients, whose ids are 0 … N-1: ``include``, ``exclude``, ``quotas``,
            ``budgets``, ``conflicts``; and ``names`` (see `solvers.subsets.ConstrainedProblem`). Of these the problem
            has what concerns the available clients.

        Returns
        -------
        DispersionProblem
            Over the available clients alone (Eq. 16); its ``clients`` are their ids among the N.

        Raises
        ------
        InvalidProblem
            When shapes disagree, no client is available, a value is out of range, or side constraints cannot be kept.
        """
        distances, labels = square(distances, "distances")
        counts, available = aligned(counts, "counts", labels), aligned(available, "available", labels)
        constraints = {"names": names_of(labels)} | constraints
        h, entries = _array(distances, "distances"), _array(counts, "counts")
        n = len(entries) if entries.ndim == 1 else -1
        if n >= 0 and h.shape != (n, n):
            raise InvalidProblem(f"distances must be {n} by {n}, one row per entry of counts; got shape {h.shape}")
        terms = (counts, available, size, alpha, scale, constraints)
        return cls._of_round(n, lambda ids: (h[np.ix_(ids, ids)],), *terms)

    @classmethod
    def max_diversity(cls, distances: ArrayLike, size: int) -> DispersionProblem:
        """State the maximum diversity (p-dispersion-sum) problem, whose value counts each pair once and has no costs.

        Parameters
        ----------
        distances : (n, n) array-like
            Pairwise distances.
        size : int
            Clients to choose.

        Returns
        -------
        DispersionProblem
            With weight 0.5, as MDPLIB and the literature on maximum diversity state it.

        Raises
        ------
        InvalidProblem
            When an argument is not as described at `DispersionProblem`.
        """
        distances, labels = square(distances, "distances")
        return cls(_array(distances, "distances"), size=size, weight=0.5, names=names_of(labels))

    @staticmethod
    def from_quadratic(
        quadratic: ArrayLike, size: int | tuple[int, int], sense: Literal["max", "min"] = "max", **fields: Any
    ) -> QuadraticProblem:
        r"""State the choice of ``size`` clients by any quadratic objective :math:`s^\top Q s`, diagonal included.

        Entries may have any sign. What is added to make distances of them stays inside: objective, bound, gap and
        certificate are in the units of Q.

        Parameters
        ----------
        quadratic : (n, n) array-like
            Q, symmetric or a triangle.
        size : int or (int, int)
            Clients to choose, or the least and the largest number of them: ``(0, n)`` where any number may be chosen.
        sense : {"max", "min"}
            Whether larger or smaller values are better.
        **fields
            ``constant``, ``clients``, ``names`` and side constraints, see `solvers.dispersion.QuadraticProblem`.

        Returns
        -------
        QuadraticProblem
            Solved by the methods of a `DispersionProblem`.

        Raises
        ------
        InvalidProblem
            When an argument is not as described at `solvers.dispersion.QuadraticProblem`.
        """
        from solvers.dispersion.quadratic import QuadraticProblem

        return QuadraticProblem(quadratic, size, sense, **fields)  # type: ignore[arg-type]

    @classmethod
    def from_points(
        cls,
        points: ArrayLike,
        costs: ArrayLike | None = None,
        *,
        size: int,
        weight: float = 1.0,
        metric: str = "euclidean",
        **constraints: Any,
    ) -> DispersionProblem:
        """State the problem of points under one of four metrics, by the matrix of their distances.

        These metrics are of negative type (`concave_on_slice`). For Euclidean and Hellinger's distances
        `PointDispersionProblem` does without the matrix.

        Parameters
        ----------
        points : (n, d) array-like
            The clients: finite numbers; rows other than 0 for ``"cosine"``.
        costs, size, weight, **constraints
            As for `DispersionProblem`.
        metric : {"euclidean", "hellinger", "manhattan", "cosine"}
            The first two as for `PointDispersionProblem`; Σ|pₖ − qₖ|; 1 − pᵀq / (‖p‖ ‖q‖), in [0, 2].

        Returns
        -------
        DispersionProblem

        Raises
        ------
        InvalidProblem
            When there are more than 20 000 points, whose matrix takes 3 GiB, or an argument is not as described.
        """
        if metric in ("euclidean", "hellinger"):
            return PointDispersionProblem(
                points,  # type: ignore[arg-type]
                costs,  # type: ignore[arg-type]
                size=size,
                weight=weight,
                metric=metric,  # type: ignore[arg-type]
                **constraints,
            ).expanded()
        if metric not in tuple(_BY_MATRIX):  # a tuple takes what has no hash
            known = "'euclidean', 'hellinger', 'manhattan' or 'cosine'"
            hint = did_you_mean(metric, _BY_MATRIX)
            raise InvalidProblem(f"metric must be {known}; got {metric!r}{hint}")
        rows = frozen_array(points, "points", ndim=2)
        if len(rows) > EXPANDABLE:
            raise InvalidProblem(
                f"the matrix of {len(rows)} points takes {8 * len(rows) ** 2 / 2**30:.3g} GiB; metric {metric!r} is "
                f"for up to {EXPANDABLE} ('euclidean' and 'hellinger' need no matrix: PointDispersionProblem)"
            )
        if rows.size == 0:
            raise InvalidProblem(f"points must be rows of at least one coordinate each; got shape {rows.shape}")
        if metric == "cosine":
            lengths = np.abs(rows).max(axis=1)
            for place in (int(lengths.argmin()), int(lengths.argmax())):
                if lengths[place] == 0:
                    raise InvalidProblem(f"the cosine metric needs rows other than 0; row {place} of points is 0")
                if not _SMALLEST_EXTENT < lengths[place] < _LARGEST_EXTENT:
                    raise InvalidProblem(
                        f"row {place} of points has entries up to {lengths[place]:g}, whose square is no number; "
                        "rescale it, which changes no cosine"
                    )
        from scipy.spatial.distance import pdist, squareform

        matrix: Any = squareform(np.maximum(pdist(rows, _BY_MATRIX[metric]), 0.0))
        if labels_of(points, "points") is not None:  # which names the clients, and orders what has labels, too
            frame: Any = points
            matrix = type(frame)(matrix, frame.index, frame.index)
        return cls(matrix, costs, size=size, weight=weight, **constraints)  # type: ignore[arg-type]

    @cached_property
    def geometry(self) -> MatrixGeometry:
        """Distances between the clients."""
        return MatrixGeometry(self.distances)

    @cached_property
    def concave_on_slice(self) -> bool:
        r"""Whether the distances are of negative type, so that the objective is concave on :math:`1^\top s = m`.

        Euclidean distances are. Then every local optimum of the continuous relaxation is a global one. Decided by
        the largest eigenvalue of JHJ, J = I − 11ᵀ/n, up to rounding (1e-9 of the largest distance); the bounds of the
        methods do not rely on it.
        """
        means = self.distances.mean(axis=0, dtype=np.float64)
        centred = self.distances - means - means[:, None] + means.mean()
        return bool(np.linalg.eigvalsh(centred)[-1] <= 1e-9 * self.diameter)


#: Squares of coordinates must neither overflow nor vanish.
_SMALLEST_EXTENT, _LARGEST_EXTENT = 1e-130, 1e130


@dataclass(frozen=True, eq=False)
class PointDispersionProblem(SelectionProblem):
    r"""Choose ``size`` of ``n`` clients, given as points, that are far apart and cheap.

    .. math:: \max_{s \in \{0,1\}^n} \; w \sum_{i,j} d(p_i, p_j) \, s_i s_j - c^\top s
        \quad \text{s.t.} \quad 1^\top s = m

    The same problem as `DispersionProblem` on the matrix of the points' distances, in O(n·d) memory instead of n².

    Parameters
    ----------
    points : (n, d) array-like
        The clients: embeddings, coordinates, label distributions. Finite; rows of equal points are at distance 0.
    costs, size, weight, clients, include, exclude, quotas, budgets, conflicts, names
        As for `DispersionProblem`. Each pair counts twice, as in ``sᵀHs``.
    metric : {"euclidean", "hellinger"}
        ``"euclidean"``: d(p, q) = ‖p − q‖₂. ``"hellinger"``: d(p, q) = ‖√p − √q‖₂ / √2, in [0, 1], for rows that
        are distributions (non-negative, of sum 1 to 1e-6).

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or numbers are too large or too small to be computed with.

    Notes
    -----
    Euclidean distances (and Hellinger's, which are Euclidean between the roots of distributions) are of negative
    type: :math:`z^\top H z \le 0` whenever :math:`1^\top z = 0` (Schoenberg 1938). On the slice
    :math:`1^\top s = m` the objective is therefore concave as it stands. A tangent at any point of the slice bounds
    it from above without the diagonal shift that a general matrix needs.
    """

    points: NDArray[np.float64]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in by `_complete`
    _: KW_ONLY
    metric: Metric = "euclidean"

    family: ClassVar[str] = "dispersion"

    def __post_init__(self) -> None:
        self._align(labels_of(self.points, "points"), "points")
        points = frozen_array(self.points, "points", ndim=2)
        n, dimensions = points.shape
        if n == 0 or dimensions == 0:
            raise InvalidProblem(f"points must be rows of at least one coordinate each; got shape {points.shape}")
        if self.metric not in ("euclidean", "hellinger"):
            raise InvalidProblem(
                f"metric must be 'euclidean' or 'hellinger'; got {self.metric!r} (for 'manhattan' and 'cosine' "
                "DispersionProblem.from_points(points, metric=..., size=...); of any other give the matrix, "
                "DispersionProblem(scipy.spatial.distance.cdist(points, points, 'chebyshev'), size=...))"
            )
        if self.metric == "hellinger":
            _check_distributions(points)
        extent = max(float(column.max() / 2 - column.min() / 2) for column in points.T) * 2
        if not (extent == 0 or _SMALLEST_EXTENT < extent < _LARGEST_EXTENT):
            raise InvalidProblem(f"points spread over {extent:g}, whose square is no number; rescale them")
        object.__setattr__(self, "points", points)
        self._complete(n, extent * dimensions, f"points spread over {extent:g}")

    @classmethod
    def fedgs(
        cls,
        points: ArrayLike,
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Scale = "pairs",
        metric: Metric = "euclidean",
        **constraints: Any,
    ) -> PointDispersionProblem:
        """FedGS's selection step for one round (Eqs. 14-17), with the distances of points in the place of H.

        Parameters
        ----------
        points : (N, d) array-like
            A point for each of the N clients: its label distribution, or an embedding.
        counts, available, size, alpha, scale, **constraints
            As for `DispersionProblem.fedgs`.
        metric : {"euclidean", "hellinger"}
            The distance between points.
        """
        labels = labels_of(points, "points")
        counts = aligned(counts, "counts", labels, "points")
        available = aligned(available, "available", labels, "points")
        constraints = {"names": names_of(labels)} | constraints
        p = _array(points, "points")
        if p.ndim != 2:
            raise InvalidProblem(f"points must have 2 dimension(s); got shape {p.shape}")

        def restricted(ids: NDArray[np.int64]) -> tuple[NDArray[Any]]:
            if ids.size == len(p):
                return (p,)
            some = p[ids]
            some.setflags(write=False)  # nothing else refers to it, so that it need not be copied again
            return (some,)

        terms = (counts, available, size, alpha, scale, constraints)
        return cls._of_round(len(p), restricted, *terms, metric=metric)

    @cached_property
    def geometry(self) -> PointGeometry:
        """Distances between the clients."""
        roots = np.sqrt(self.points / 2) if self.metric == "hellinger" else self.points
        coordinates = np.ascontiguousarray(roots.T)
        coordinates.setflags(write=False)
        return PointGeometry(coordinates)


@dataclass(frozen=True, eq=False)
class KindDispersionProblem(SelectionProblem):
    r"""Choose ``size`` of ``n`` clients of ``k`` kinds that are far apart and cheap.

    .. math:: \max_{s \in \{0,1\}^n} \; w \sum_{i \ne j} D_{\kappa(i) \kappa(j)} \, s_i s_j - c^\top s
        \quad \text{s.t.} \quad 1^\top s = m

    With :math:`\nu_a` clients of kind a chosen, which without side constraints may as well be its cheapest, the
    objective is a function of the counts alone,
    :math:`w (\nu^\top D \nu - \mathrm{diag}(D)^\top \nu) - \sum_a P_a(\nu_a)`, where :math:`P_a(j)` is what the j
    cheapest clients of kind a cost: k whole numbers, however many clients there are.

    Parameters
    ----------
    distances : (k, k) array-like
        Distances between clients of two kinds, and on the diagonal between two clients of one kind (0 if they
        are at one point). Finite, non-negative, symmetric to 1e-9 of the largest.
    kinds : (n,) array-like of int
        The kind of each client, 0 … k-1; every kind has a client.
    costs, size, weight, clients, include, exclude, quotas, budgets, conflicts, names
        As for `DispersionProblem`. Each pair counts twice, as in ``sᵀHs``.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or numbers are too large or too small to be computed with.
    """

    distances: NDArray[np.float64]
    kinds: NDArray[np.int64]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in by `_complete`

    family: ClassVar[str] = "dispersion"

    def __post_init__(self) -> None:
        self._align(labels_of(self.kinds, "kinds"), "kinds")
        distances = _symmetric(square(self.distances, "distances")[0], "kind")
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
        self._complete(n, self.diameter, f"distances up to {self.diameter:g}")

    @classmethod
    def fedgs(
        cls,
        distances: ArrayLike,
        kinds: ArrayLike,
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Scale = "pairs",
        **constraints: Any,
    ) -> KindDispersionProblem:
        """FedGS's selection step for one round (Eqs. 14-17), with distances between kinds in the place of H.

        Parameters
        ----------
        distances : (k, k) array-like
            Distances between the kinds; kinds of which no client is available are left out.
        kinds : (N,) array-like of int
            The kind of each of the N clients.
        counts, available, size, alpha, scale, **constraints
            As for `DispersionProblem.fedgs`.
        """
        labels = labels_of(kinds, "kinds")
        counts = aligned(counts, "counts", labels, "kinds")
        available = aligned(available, "available", labels, "kinds")
        constraints = {"names": names_of(labels)} | constraints
        d, all_kinds = _array(distances, "distances"), _array(kinds, "kinds")
        if d.ndim == 2 and d.shape[0] != d.shape[1]:
            raise InvalidProblem(f"distances must be a square matrix, a row per kind; got shape {d.shape}")
        if all_kinds.ndim != 1 or all_kinds.dtype.kind not in "iu":
            found = f"{all_kinds.dtype} of shape {all_kinds.shape}"
            raise InvalidProblem(f"kinds must be one integer per client; got {found}")

        def restricted(ids: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
            present = all_kinds[ids]
            if d.ndim != 2 or present.min() < 0 or present.max() >= min(d.shape):
                kind = present.min() if present.min() < 0 else present.max()
                raise InvalidProblem(f"distances of shape {d.shape} have no row and column for kind {kind}")
            there, number = np.unique(present, return_inverse=True)
            return d[np.ix_(there, there)], number

        return cls._of_round(all_kinds.size, restricted, counts, available, size, alpha, scale, constraints)

    @cached_property
    def geometry(self) -> KindGeometry:
        """Distances between the clients."""
        return KindGeometry(self.distances, self.kinds)

    @property
    def k(self) -> int:
        """Number of kinds."""
        return self.distances.shape[0]


# -- checks ------------------------------------------------------------------------------------------------------------


def _array(value: Any, name: str) -> NDArray[Any]:
    """Return a value as an array of whatever it holds, or raise `InvalidProblem` where entries are missing."""
    if np.ma.is_masked(value):
        raise InvalidProblem(f"{name} must have no missing values; some are masked")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidProblem(f"{name} must be an array; its rows differ in length") from error


def selection_size(value: Any, n: int) -> int:
    """Return the number of clients to choose from n, or raise `InvalidProblem`."""
    if value is None:
        raise InvalidProblem(f"size is missing: say how many of the {n} clients to choose, as in size={min(n, 10)}")
    if isinstance(value, tuple | list | range):
        raise InvalidProblem(
            f"size must be an integer; got {value!r} (a least and a largest number are taken by "
            "DispersionProblem.from_quadratic(weight * distances - np.diag(costs), size=(least, largest)))"
        )
    size = integer(value, "size")
    if not 1 <= size <= n:
        raise InvalidProblem(f"size must lie between 1 and the number of clients, {n}; got {size}")
    return size


#: The way out for matrices that are no distances, in messages.
_QUADRATIC = "DispersionProblem.from_quadratic and .qubo files take a diagonal and values of any sign"


def _symmetric(value: ArrayLike, what: str, dtype: type = np.float64) -> NDArray[np.floating[Any]]:
    """Return distances as a square, non-negative and exactly symmetric matrix, one row per ``what``, or raise."""
    pairs = value.size if isinstance(value, np.ndarray) and value.ndim == 1 else 0
    if pairs and (1 + 8 * pairs) == math.isqrt(1 + 8 * pairs) ** 2:
        raise InvalidProblem(
            f"distances must be a square matrix; got a vector of {pairs}: where it is what pdist returns, give "
            "scipy.spatial.distance.squareform(distances)"
        )
    distances = frozen_array(value, "distances", ndim=2, dtype=dtype)
    k = distances.shape[0]
    if distances.shape != (k, k) or k == 0:
        hint = "; for points, a row each, there is PointDispersionProblem(points, size=...)" if k else ""
        raise InvalidProblem(f"distances must be a square matrix of at least one {what}; got {distances.shape}{hint}")
    if (smallest := float(distances.min())) < 0:
        i, j = (int(entry) for entry in np.unravel_index(distances.argmin(), distances.shape))
        raise InvalidProblem(
            f"distances must be non-negative; the smallest is {smallest:g}, entry ({i}, {j}) ({_QUADRATIC}; a "
            "constant added to all pairs changes no decision)"
        )
    if not np.array_equal(distances, distances.T):
        asymmetry = np.abs(distances - distances.T)
        i, j = (int(entry) for entry in np.unravel_index(asymmetry.argmax(), asymmetry.shape))
        if asymmetry[i, j] > (1e-6 if dtype is np.float32 else 1e-9) * float(distances.max()):
            raise InvalidProblem(
                f"distances must be symmetric; entry ({i}, {j}) is {distances[i, j]:g} "
                f"but entry ({j}, {i}) is {distances[j, i]:g} (where both are meant, give (D + D.T) / 2)"
            )
        distances = (distances + distances.T) / 2
    distances = np.ascontiguousarray(distances)
    distances.setflags(write=False)
    return distances


def _check_distributions(points: NDArray[np.float64]) -> None:
    if (smallest := float(points.min())) < 0:
        raise InvalidProblem(f"the hellinger metric needs distributions; the smallest entry of points is {smallest:g}")
    sums = points.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-6:
        raise InvalidProblem(f"the hellinger metric needs distributions; row {worst} of points sums to {sums[worst]:g}")


def _check_range(weight: float, largest: float, what: str, largest_cost: float, size: int) -> None:
    """Raise `InvalidProblem` where terms of the objective are so large or small that rounding cannot be bounded."""
    if not weight * largest * size * size < _LARGEST:
        raise InvalidProblem(f"weight {weight:g} times {what} overflows; rescale them")
    if not largest_cost * size < _LARGEST:
        raise InvalidProblem(f"costs up to {largest_cost:g} overflow; rescale them")
    if 0 < largest < SMALLEST:
        raise InvalidProblem(
            f"{what} are too small to be computed with (accepted: 0, or from {SMALLEST:g}); rescale them"
        )
    unit = max(weight * largest, largest_cost)
    if unit < SMALLEST and (largest_cost > 0 or (weight > 0 and largest > 0)):
        raise InvalidProblem(
            f"weight times distances and costs are at most {unit:g}, too small to be computed with "
            f"(accepted: 0, or from {SMALLEST:g}); rescale them"
        )
