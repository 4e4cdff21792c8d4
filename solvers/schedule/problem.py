"""The schedule problem: the fairest selections of all rounds, availability known in advance."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array, integer, number
from solvers.errors import InvalidProblem
from solvers.options import AtLeast
from solvers.problem import OPTIMALITY_GAP, Problem, certified

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class _Turns(Problem):
    """Selections in rounds, of those available: what all problems of schedules share."""

    available: NDArray[np.bool_]
    size: int
    counts: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in __post_init__
    sizes: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in __post_init__

    sense: ClassVar[Literal["min"]] = "min"

    def __post_init__(self) -> None:
        try:
            given = np.asarray(self.available)
        except ValueError as error:
            raise InvalidProblem("available must be a table of rounds by clients; its rows differ in length") from error
        if given.ndim != 2 or 0 in given.shape:
            raise InvalidProblem(
                f"available must be a table of rounds by clients, at least one each; got {given.shape}"
            )
        available = given.astype(np.bool_)
        if given.dtype.kind not in "biuf" or not np.array_equal(available, given):
            raise InvalidProblem("available must hold truth values or 0 and 1; it has other entries")
        available.setflags(write=False)
        n = available.shape[1]
        before = frozen_array(np.zeros(n) if self.counts is None else self.counts, "counts")
        if before.shape != (n,):
            raise InvalidProblem(f"counts must have one entry per client, {n}; got shape {before.shape}")
        if (before != np.rint(before)).any() or before.min() < 0 or before.max() > 2**31:
            raise InvalidProblem(
                f"counts must be whole numbers from 0 to 2^31; got {before.min():g} to {before.max():g}"
            )
        counts = before.astype(np.int64)
        counts.setflags(write=False)
        self._freeze(available=available, size=integer(self.size, "size", AtLeast(1)), counts=counts)
        there = available.sum(axis=1)
        wanted = frozen_array(np.minimum(min(self.size, n), there) if self.sizes is None else self.sizes, "sizes")
        if wanted.shape != there.shape:
            raise InvalidProblem(f"sizes must have one entry per round, {there.size}; got shape {wanted.shape}")
        refused = (wanted != np.rint(wanted)) | (wanted < 0) | (wanted > there)
        if refused.any():
            wrong = int(np.argmax(refused))
            raise InvalidProblem(
                f"sizes must be whole numbers from 0 to the clients available; round {wrong} has {wanted[wrong]:g} of "
                f"{there[wrong]}"
            )
        sizes = wanted.astype(np.int64)
        sizes.setflags(write=False)
        self._freeze(sizes=sizes)

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.available.shape[1]

    def decision(self, x: ArrayLike) -> NDArray[np.bool_]:
        """``x`` as a (T, N) table of truth values; raises `ValueError` for another shape or entries beside 0 and 1."""
        array = np.asarray(x)
        if array.shape != self.available.shape:
            rounds, n = self.available.shape
            raise ValueError(f"x must have a row per round and a column per client, ({rounds}, {n}); got {array.shape}")
        table = array.astype(np.bool_)
        if not np.array_equal(table, array):
            raise ValueError("x must hold truth values or 0 and 1; it has other entries")
        return table

    def turns(self, x: ArrayLike) -> NDArray[np.int64]:
        """How often each client is selected after all rounds, ``counts`` included."""
        return self.counts + self.decision(x).sum(axis=0)

    def variance(self, turns: NDArray[np.int64]) -> Fraction:
        """Variance of whole counts, exactly: (N Σv² − (Σv)²) / N²."""
        # Whole numbers up to 2^31 are squared and added without overflow where they are counted by value.
        values, times = np.unique(turns, return_counts=True)
        pairs = list(zip(values.tolist(), times.tolist(), strict=True))
        total, squares = sum(v * k for v, k in pairs), sum(v * v * k for v, k in pairs)
        return Fraction(self.n * squares - total * total, self.n**2)

    def worth(self, row: NDArray[np.bool_]) -> float:
        """Value of a round's selection, (N,), beside the counts: nothing here."""
        return 0.0

    def rounding_at(self, value: float) -> float:
        """Return a bound on the rounding error of objectives near ``value`` beside that of the counts: none here."""
        return 0.0

    def violation(self, x: ArrayLike) -> float:
        """Largest of: distance of a round's selections from their number, and selections of who is unavailable."""
        table = self.decision(x)
        absent = int((table & ~self.available).sum())
        return float(max(np.abs(table.sum(axis=1) - self.sizes).max(), absent))

    def reachable(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Least and most turns of each client: where all of those available are selected, and wherever it is available.

        A client that is there in rounds of size 0 alone has fewer than the most.
        """
        full = self.available.sum(axis=1) == self.sizes
        return self.counts + self.available[full].sum(axis=0), self.counts + self.available.sum(axis=0)

    def least_variance(self) -> Fraction:
        """Smallest variance of counts that add up, each between its bounds of `reachable`."""
        least, most = self.reachable()
        missing = int(self.sizes.sum() + self.counts.sum() - least.sum())
        low, high = int(least.min()), int(most.max())
        while low < high:  # the largest level to which counts can be raised
            level = (low + high + 1) // 2
            if int((np.clip(level, least, most) - least).sum()) <= missing:
                low = level
            else:
                high = level - 1
        turns = np.clip(low, least, most)
        rest = missing - int((turns - least).sum())
        turns[np.flatnonzero((turns == low) & (turns < most))[:rest]] += 1
        return self.variance(turns)


@dataclass(frozen=True, eq=False)
class ScheduleProblem(_Turns):
    r"""Choose the clients of every round, of those available, so that they are selected as equally often as possible.

    .. math:: \min_x \; \frac1N \sum_k (v_k - \bar v)^2, \quad v_k = c_k + \sum_t x_{tk} \quad \text{s.t.} \quad
              \sum_k x_{tk} = \min(m, |A_t|), \quad x_{tk} \le [k \in A_t]

    The schedule in hindsight: no selector that selects as many clients in each round reaches a smaller variance of the
    counts. It is a flow with convex costs. Counts that are least in their squares are so under every convex function
    and every symmetric one that is Schur-convex: they are majorised by all others (Frank and Murota, *decreasing
    minimisation* on M-convex sets).

    Parameters
    ----------
    available : (T, N) array-like of bool
        Who is available in which round.
    size : int
        Clients m ≥ 1 wanted in each round; all of those available are selected where they are fewer.
    counts : (N,) array-like of int, optional
        How often each client was selected before, up to 2³¹; 0 by default.
    sizes : (T,) array-like of int, optional
        Clients to select in each round, at most those available, instead of as many as ``size`` says.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.

    Examples
    --------
    >>> from solvers import solve
    >>> problem = ScheduleProblem(available=[[1, 1, 0], [1, 0, 1], [1, 0, 1]], size=1)
    >>> problem.turns(solve(problem).x).tolist()
    [1, 1, 1]
    """

    family: ClassVar[str] = "schedule"

    @property
    def scale(self) -> float:
        """Least difference of two values, 2/N, times 1e6 / 4: an optimum is called so where it is one exactly."""
        return 5e5 / self.n

    def tolerance_at(self, value: float, relative: float = OPTIMALITY_GAP) -> float:
        """Return at most a quarter of the least difference of two values, or the distance of floats if that is more."""
        return max(super().tolerance_at(value, relative), math.ulp(value))

    def is_better(self, x: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
        """Return whether the counts of ``x`` vary less, in whole numbers: floats that are large cannot tell."""
        return self.variance(self.turns(x)) < self.variance(self.turns(other))

    def objective(self, x: ArrayLike) -> float:
        """Variance of the counts after all rounds, rounded once."""
        return float(self.variance(self.turns(x)))

    def bound(self) -> float:
        """Smallest variance of counts that add up, each between its bounds of `reachable`.

        It proves nothing by itself where floats are too far apart to tell it from the next value.
        """
        least = self.least_variance()
        near = math.ulp(float(least))
        return certified(least, 4 * near if near > self.tolerance_at(0.0) else 0, "min")


@dataclass(frozen=True, eq=False)
class DiverseScheduleProblem(_Turns):
    r"""Choose the clients of every round so that they are far apart, and all are selected as equally often as possible.

    .. math:: \min_x \; \frac1N \sum_k (v_k - \bar v)^2 - w \sum_t x_t^\top H x_t, \quad v_k = c_k + \sum_t x_{tk}
              \quad \text{s.t.} \quad \sum_k x_{tk} = \min(m, |A_t|), \quad x_{tk} \le [k \in A_t]

    FedGS in hindsight: its rounds weigh the distances of those selected against the growth of the same variance, one
    after the other. With the turns of all other rounds given, each round is a
    `solvers.dispersion.DispersionProblem`.

    Parameters
    ----------
    available, size, counts, sizes
        As for `ScheduleProblem`.
    distances : (N, N) array-like
        Pairwise distances H ≥ 0: finite, symmetric, zero on the diagonal.
    weight : float
        Weight w ≥ 0 of a round's sum of distances, which counts each pair twice.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or weighted distances overflow.

    Examples
    --------
    >>> from solvers import solve
    >>> far = [[0, 1, 4], [1, 0, 2], [4, 2, 0]]
    >>> problem = DiverseScheduleProblem([[1, 1, 1], [1, 1, 1]], size=2, distances=far, weight=0.1)
    >>> solution = solve(problem)
    >>> problem.turns(solution.x).tolist(), solution.status
    ([1, 1, 2], 'optimal')
    """

    _: KW_ONLY
    distances: NDArray[np.float64] = None  # type: ignore[assignment]  # has no default: a missing one is refused
    weight: float = 1.0

    family: ClassVar[str] = "schedule"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distances is None:
            raise InvalidProblem("distances are missing; without them the problem is a ScheduleProblem")
        distances = frozen_array(self.distances, "distances", 2)
        if distances.shape != (self.n, self.n):
            raise InvalidProblem(f"distances must be a matrix of the {self.n} clients; got shape {distances.shape}")
        if distances.min() < 0 or distances.diagonal().any() or not np.array_equal(distances, distances.T):
            raise InvalidProblem("distances must be non-negative, symmetric, and zero on the diagonal")
        self._freeze(distances=distances, weight=number(self.weight, "weight", AtLeast(0)))
        if not math.isfinite(self.scale * len(self.sizes)):
            raise InvalidProblem(
                f"weight {self.weight:g} times distances up to {distances.max():g} overflows; rescale them"
            )

    @property
    def scale(self) -> float:
        """Least difference of two variances, 2/N, and the most that the distances of a round can be worth."""
        largest = int(self.sizes.max(initial=0))
        return 2.0 / self.n + self.weight * largest * (largest - 1) * float(self.distances.max())

    def worth(self, row: NDArray[np.bool_]) -> float:
        """Weighted sum of the distances of a round's selection, (N,), each pair twice."""
        ids = np.flatnonzero(row)
        return self.weight * float(self.distances[np.ix_(ids, ids)].sum())

    def objective(self, x: ArrayLike) -> float:
        """Variance of the counts after all rounds, less the weighted distances."""
        return float(self.variance(self.turns(x))) - math.fsum(map(self.worth, self.decision(x)))

    def rounding_at(self, value: float) -> float:
        """Return a bound on the rounding error of the objective of all schedules that are worth ``value`` or more.

        A round's distances are at most as many of the largest one as it has pairs. Their sum has so many roundings
        and a few; the variance is at most the value and all distances, and is rounded once, as the difference is.
        """
        far = self.largest_worth()
        return 4 * _EPS * ((self.n**2 + 8) * far + abs(value))

    def bound(self) -> float:
        """Least variance of counts that add up, less `largest_worth`."""
        value = float(self.least_variance()) - self.largest_worth()
        return certified(value, self.rounding_at(value), "min")

    def largest_worth(self) -> float:
        """Return weighted distances that no schedule exceeds, but for rounding: each round's largest for each pair."""
        far = 0.0
        for there, size in zip(self.available, self.sizes.tolist(), strict=True):
            ids = np.flatnonzero(there)
            far += size * (size - 1) * float(self.distances[np.ix_(ids, ids)].max(initial=0.0))
        return self.weight * far
