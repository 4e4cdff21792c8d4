"""The dispersion problem: choose ``m`` clients far apart and cheap (FedGS, Eqs. 14-17)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.fedgs import round_terms
from solvers.dispersion.selection import Selecting
from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["DispersionProblem"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class DispersionProblem(Selecting):
    r"""Choose ``size`` of ``n`` clients that are far apart and cheap.

    .. math:: \max_{s \in \{0,1\}^n} \; w \, s^\top H s - c^\top s \quad \text{s.t.} \quad 1^\top s = m

    With ``weight=0.5`` and zero costs this is the p-dispersion-sum or maximum diversity problem; with the weight and
    costs of `fedgs` it is the selection step of FedGS (Wang et al., AAAI 2023, Eqs. 14-17). It is NP-hard.

    Parameters
    ----------
    distances : (n, n) array-like
        Pairwise distances H ≥ 0: finite, symmetric (to 1e-9 of the largest, 1e-6 in single precision), zero on the
        diagonal. A linear term belongs into ``costs``. An array of float32 is kept as it is, which halves the memory
        of a large problem; its entries are then the data, and sums of them are still made in double precision.
    costs : (n,) array-like, optional
        Cost c of each client, of any sign, in the units of ``weight · distances``. Zero by default.
    size : int
        Number m of clients to choose, 1 ≤ m ≤ n.
    weight : float
        Weight w ≥ 0 of the distances. ``sᵀHs`` counts each pair twice; `max_diversity` counts it once.
    clients : (n,) array-like of int, optional
        Ids the variables stand for, strictly increasing; ``0 … n-1`` by default. `selected` and
        ``Solution.selected`` speak in these ids.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """

    distances: NDArray[np.floating[Any]]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in __post_init__
    _: KW_ONLY
    size: int = None  # type: ignore[assignment]  # has no default: a missing one is refused
    weight: float = 1.0
    clients: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in __post_init__

    sense: ClassVar[Literal["max"]] = "max"
    family: ClassVar[str] = "dispersion"

    def __post_init__(self) -> None:
        single = getattr(self.distances, "dtype", None) == np.float32
        distances = frozen_array(self.distances, "distances", ndim=2, dtype=np.float32 if single else np.float64)
        n = distances.shape[0]
        if distances.shape != (n, n) or n == 0:
            raise InvalidProblem(f"distances must be a square matrix of at least one client; got {distances.shape}")
        largest = float(distances.max())
        if (smallest := float(distances.min())) < 0:
            raise InvalidProblem(f"distances must be non-negative; the smallest is {smallest:g}")
        diagonal = distances.diagonal()
        if diagonal.any():
            client = int(np.flatnonzero(diagonal)[0])
            raise InvalidProblem(
                f"distances must be zero on the diagonal; client {client} has {diagonal[client]:g} to itself "
                "(a linear term belongs into costs)"
            )
        if not np.array_equal(distances, distances.T):
            asymmetry = np.abs(distances - distances.T)
            i, j = (int(k) for k in np.unravel_index(asymmetry.argmax(), asymmetry.shape))
            if asymmetry[i, j] > (1e-6 if single else 1e-9) * largest:
                raise InvalidProblem(
                    f"distances must be symmetric; entry ({i}, {j}) is {distances[i, j]:g} "
                    f"but entry ({j}, {i}) is {distances[j, i]:g}"
                )
            distances = (distances + distances.T) / 2
            distances.setflags(write=False)
        if not distances.flags.c_contiguous:
            distances = np.ascontiguousarray(distances)
            distances.setflags(write=False)
        object.__setattr__(self, "distances", distances)
        self._settle(n, largest, f"distances up to {largest:g}")

    @classmethod
    def fedgs(
        cls,
        distances: ArrayLike,
        counts: ArrayLike,
        available: ArrayLike,
        size: int,
        alpha: float,
        scale: Literal["pairs", "paper"] = "pairs",
    ) -> DispersionProblem:
        r"""FedGS's selection step for one round (Eqs. 14-17).

        The objective is :math:`a \, s^\top H s - z^\top s / (N - 1)` over the available clients, with
        :math:`z_k = 2 (v_k - \bar v - M/N) + 1`; the constant part of z is kept, so that the value is that of
        Eq. 14. Paper and code differ in the scale ``a`` of the distances:

        * ``"pairs"``, the authors' code and the default: :math:`a = \alpha / (m (m - 1))`, so that α weighs the mean
          distance of the *selected* pairs, as the text of the paper ("average") says;
        * ``"paper"``, Eqs. 13-14 as printed: :math:`a = \alpha / (N (N - 1))`, smaller by a factor of 110 at
          N = 100, m = 10: α then only breaks ties between equal counts.

        (The authors' code has M/|A| for M/N in z. Both are constants under :math:`1^\top s = m`.)

        Parameters
        ----------
        distances : (N, N) array-like
            Shortest-path distances H of the 3DG over all N clients.
        counts : (N,) array-like
            How often each client was selected before this round, v.
        available : (N,) array-like of bool
            Who is available, A.
        size : int
            Largest number M of clients to select; m = min(M, |A|) are selected (Eq. 15).
        alpha : float
            Weight α ≥ 0 of the distances against the balance of the counts.
        scale : {"pairs", "paper"}
            Scale of the distances.

        Returns
        -------
        DispersionProblem
            Over the available clients alone (Eq. 16); its ``clients`` are their ids among the N.

        Raises
        ------
        InvalidProblem
            When shapes disagree, nobody is available, or a value is out of range.
        """
        h = np.asarray(distances)
        n = np.shape(counts)[0] if np.ndim(counts) == 1 else -1
        if n >= 0 and h.shape != (n, n):
            raise InvalidProblem(f"distances must be {n} by {n}, one row per entry of counts; got shape {h.shape}")
        terms = round_terms(n, counts, available, size, alpha, scale)
        return cls(
            h[np.ix_(terms.ids, terms.ids)], terms.costs, size=terms.size, weight=terms.weight, clients=terms.ids
        )

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
        return cls(np.asarray(distances), size=size, weight=0.5)

    @property
    def n(self) -> int:
        """Number of clients to choose from."""
        return self.distances.shape[0]

    @cached_property
    def diameter(self) -> float:
        """The largest distance."""
        return float(self.distances.max())

    def row(self, client: int | np.integer[Any]) -> NDArray[np.float64]:
        """The distances from one client, given by place, in double precision."""
        return self.distances[client].astype(np.float64, copy=False)

    def reach(self) -> tuple[NDArray[np.float64], float]:
        """Sum of the distances from each client to all, and a bound on the error of such a sum."""
        n = self.n
        return self.distances.sum(axis=1, dtype=np.float64), n * (n + 4) * _EPS * self.diameter

    @cached_property
    def concave_on_slice(self) -> bool:
        r"""Whether the objective is concave on :math:`1^\top s = m`: whether the distances are of negative type.

        Euclidean distances are, and then every local optimum of the continuous relaxation is a global one and
        branching starts from a strong bound. Decided by the largest eigenvalue of JHJ, J = I − 11ᵀ/n, up to rounding
        (1e-9 of the largest distance); the bounds of the methods do not rely on it.
        """
        from scipy.linalg import eigh

        means = self.distances.mean(axis=0, dtype=np.float64)
        centred = self.distances - means - means[:, None] + means.mean()
        n = self.n
        top = eigh(centred, subset_by_index=[n - 1, n - 1], eigvals_only=True)[0]
        return bool(top <= 1e-9 * self.diameter)

    def objective(self, x: ArrayLike) -> float:
        """``weight · xᵀHx − costsᵀx``."""
        chosen = np.flatnonzero(self.decision(x))
        pairs = float(self.distances[np.ix_(chosen, chosen)].sum(dtype=np.float64))
        return self.weight * pairs - float(self.costs[chosen].sum())

    def trivial_bound(self) -> float:
        r"""A valid upper bound in O(n²): each client with the m − 1 clients farthest from it.

        Client i contributes at most :math:`w \sum_{j \in \text{top}_{m-1}} H_{ij} - c_i`; the m largest of these
        bound the objective. A margin for rounding is added.
        """
        m = self.size
        reach = np.zeros(self.n)
        rows = max(1, 10**7 // self.n)  # at a time, so that no copy of a large matrix is made
        for start in range(0, self.n if m > 1 else 0, rows):
            block = np.partition(self.distances[start : start + rows], self.n - m + 1, axis=1)
            reach[start : start + rows] = block[:, self.n - m + 1 :].sum(axis=1, dtype=np.float64)
        value = float(np.sort(self.weight * reach - self.costs)[::-1][:m].sum())
        return value + self.rounding

    @property
    def rounding(self) -> float:
        """A bound on the floating-point error of one evaluation of the objective, in its units.

        Zero for a single client: its value is minus its cost, and nothing is added up.
        """
        if self.size == 1:
            return 0.0
        terms = self.size * self.size
        magnitude = self.weight * self.diameter * terms
        magnitude += self.size * float(np.abs(self.costs).max())
        return 2.0 * (terms + 4) * _EPS * magnitude
