"""The allocation problem: how many clients to sample from each group (FedSS, Eqs. 19-20)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array, integer, takes_duals, vector
from solvers.errors import InvalidProblem
from solvers.options import AtLeast
from solvers.problem import Problem


def validated(
    sizes: ArrayLike, deviations: ArrayLike, total: Any, lower: ArrayLike, upper: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.float64], int, NDArray[np.int64], NDArray[np.int64]]:
    """Return the arguments of `AllocationProblem` as read-only arrays and a number, ``lower`` 0 for absent groups.

    Raises
    ------
    InvalidProblem
        When one is not as described there.
    """
    counts = whole_numbers(sizes, "sizes")
    n = counts.shape[0]
    if n == 0:
        raise InvalidProblem("sizes must have at least one group; got none")
    if counts.min() < 1:
        group = int(counts.argmin())
        raise InvalidProblem(f"sizes must be at least 1; group {group} has {counts[group]} (leave empty groups out)")
    spread = vector(deviations, "deviations", AtLeast(0), n=n, of="group")
    most = counts if upper is None else per_group(upper, n, "upper")
    if (most > counts).any():
        group = int(np.argmax(most > counts))
        raise InvalidProblem(f"upper must not exceed sizes; group {group} has {most[group]} of {counts[group]}")
    least = np.where(most > 0, per_group(lower, n, "lower"), 0)
    least.setflags(write=False)
    if (least > most).any():
        group = int(np.argmax(least > most))
        raise InvalidProblem(f"lower must not exceed upper; group {group} has {least[group]} and {most[group]}")
    return counts, spread, budget(total, int(most.sum())), least, most


def budget(total: Any, most: int) -> int:
    """Return ``total`` as a number of clients between 1 and ``most``."""
    total = integer(total, "total", AtLeast(1))
    if total > most:
        raise InvalidProblem(
            f"total must not exceed the clients there are, {most}; got {total} "
            "(AllocationProblem.fedss takes all of them instead)"
        )
    return total


def whole_numbers(value: ArrayLike, name: str) -> NDArray[np.int64]:
    """Return ``value`` as a read-only vector of whole numbers from 0 to 2^52, or raise a sentence."""
    array = frozen_array(value, name)
    if (array != np.round(array)).any():
        raise InvalidProblem(f"{name} must be whole numbers; got {array[array != np.round(array)][0]:g}")
    if array.size and (array.min() < 0 or array.max() > 2**52):
        raise InvalidProblem(f"{name} must lie between 0 and 2^52; they range from {array.min():g} to {array.max():g}")
    counts = array.astype(np.int64)
    counts.setflags(write=False)
    return counts


def per_group(value: ArrayLike, n: int, name: str) -> NDArray[np.int64]:
    """Read one number for all groups, or one for each."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidProblem(f"{name} must be one number or one per group, {n}; its rows differ in length") from error
    counts = whole_numbers(np.full(n, array) if array.ndim == 0 else array, name)
    if counts.shape != (n,):
        raise InvalidProblem(f"{name} must be one number or one per group, {n}; got {counts.shape[0]}")
    return counts


_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class AllocationProblem(Problem):
    r"""Split a budget of ``total`` clients over K groups so that the sampled average is as precise as possible.

    .. math:: \min_S \; \sum_k \Big(\frac{N_k}{N}\Big)^2 \Big(\frac{1}{S_k} - \frac{1}{N_k}\Big) H_k^2
              \quad \text{s.t.} \quad \sum_k S_k = S, \quad \ell_k \le S_k \le u_k

    Eq. 20 of FedSS (Tang and Wong, INFOCOM 2023), whose closed form (19), Neyman's allocation :math:`S_k \propto N_k
    H_k`, knows neither bounds nor whole clients. FedSS is unbiased only if every group has at least one client
    sampled (Lemma 2), hence ℓ = 1; no more than the available ones can be, hence u.

    **Two kinds of decision, told apart by their type.** An allocation of integers claims to be a best one in whole
    clients, an allocation of floats a best one in real numbers; both are feasible here. ``greedy``, ``cp-sat``,
    ``brute-force``, ``proportional`` and ``largest-remainder`` return integers. The bound of the first three holds for
    allocations in whole clients. ``kkt`` and ``cvxpy`` return floats, with a bound that holds for both kinds;
    ``rounded=True`` makes them return whole clients with that same bound. So compare objectives within one kind: a
    real-valued optimum may lie below the bound of ``greedy``. `integral` tells the kinds apart by value.

    Parameters
    ----------
    sizes : (K,) array-like of int
        Number N_k ≥ 1 of clients in each group, available or not. Leave empty groups out.
    deviations : (K,) array-like
        H_k ≥ 0, the square root of the gradient dissimilarity within each group (Eq. 11), in any common unit. A group
        with H_k = 0 gets ℓ_k clients, more only when all others are full; then, as when all are zero, the rest is
        split in proportion to the sizes (``cp-sat``, ``cvxpy`` and ``brute-force`` may return any of these equal
        allocations, and ``proportional`` looks at no deviation).
    total : int
        Number S of clients to sample, Σℓ ≤ S ≤ Σu, where ℓ is at least 1 for a group whose deviation is positive:
        without a client of it the variance is infinite.
    lower : int or (K,) array-like of int
        Fewest clients of each group, ℓ; 1 by default, and 0 for absent groups whatever it says.
    upper : int or (K,) array-like of int, optional
        Most clients of each group, u ≤ N_k: how many are available. ``sizes`` by default. A group with u_k = 0 is
        absent: it gets no client, the weights N_k / N are those among the groups present, and the sampled average is
        *biased* towards these (see `covered`).

    Raises
    ------
    InvalidProblem
        When an argument is not as described, the bounds leave no allocation, or squares of deviations overflow or
        vanish.

    Notes
    -----
    `violation` is in clients for integers; for floats the sum is measured relative to ``total``.

    Examples
    --------
    >>> from solvers import solve
    >>> problem = AllocationProblem(sizes=[60, 25, 10, 5], deviations=[1, 1, 1, 1], total=10)
    >>> solve(problem, "greedy").x.tolist(), solve(problem, "kkt").x.round(3).tolist()
    ([6, 2, 1, 1], [5.647, 2.353, 1.0, 1.0])
    """

    sizes: NDArray[np.int64]
    deviations: NDArray[np.float64]
    total: int
    lower: NDArray[np.int64] = 1  # type: ignore[assignment]  # made an array in __post_init__
    upper: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in __post_init__

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "allocation"
    tolerance: ClassVar[float] = 1e-11

    def __post_init__(self) -> None:
        sizes, deviations, total, lower, upper = validated(
            self.sizes, self.deviations, self.total, self.lower, self.upper
        )
        self._freeze(sizes=sizes, deviations=deviations, total=total, lower=lower, upper=upper)
        with np.errstate(over="ignore"):
            magnitude = float(self.costs.sum())
        if not math.isfinite(magnitude) or (magnitude == 0 and deviations[upper > 0].any()):
            raise InvalidProblem(f"the squares of deviations up to {deviations.max():g} are out of range; rescale them")
        if total < (least := int(self.first.sum())):
            raise InvalidProblem(
                f"total must be at least {least}, the fewest clients the {int((upper > 0).sum())} groups need; "
                f"got {total} (merge groups, or cap their number when grouping)"
            )

    @classmethod
    def fedss(
        cls, sizes: ArrayLike, deviations: ArrayLike, available: ArrayLike, total: int, lower: ArrayLike = 1
    ) -> AllocationProblem:
        """State the allocation of one round: at most the available clients of each group, all if they are too few.

        Parameters
        ----------
        sizes, deviations : (K,) array-like
            N_k and H_k.
        available : (K,) array-like of int
            A_k, how many clients of each group are available.
        total : int
            Number S of clients wanted; min(S, ΣA_k) are sampled.
        lower : int, or (K,) array-like of int
            Fewest clients of each group that has any; groups with fewer than that give what they have.

        Returns
        -------
        AllocationProblem
            The problem; groups without an available client are absent.

        Raises
        ------
        InvalidProblem
            When an argument is not as described, no client is available, or ``total`` is below what the groups present
            need at least.
        """
        upper = whole_numbers(available, "available")
        if not upper.any():
            raise InvalidProblem("no client is available, so there is nothing to allocate")
        least, wanted = per_group(lower, upper.size, "lower"), integer(total, "total", AtLeast(1))
        return cls(sizes, deviations, min(wanted, int(upper.sum())), np.minimum(least, upper), upper)  # type: ignore[arg-type]

    @property
    def n(self) -> int:
        """Number of groups K."""
        return self.sizes.shape[0]

    @property
    def covered(self) -> float:
        """Share of the clients that belong to groups present; below 1 the sampled average is biased."""
        return float(self.sizes[self.upper > 0].sum() / self.sizes.sum())

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """:math:`c_k = (N_k H_k / N)^2`, N counting the groups present; group k costs c_k / S_k. 0 for absent ones."""
        present = self.upper > 0
        with np.errstate(over="ignore", under="ignore"):
            share = self.sizes / max(1, int(self.sizes[present].sum()))
            costs = np.where(present, (share * self.deviations) ** 2, 0.0)
        costs.setflags(write=False)
        return costs

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Fewest whole clients of each group: ``lower``, and at least 1 where none at all would cost infinitely."""
        first = np.maximum(self.lower, (self.costs > 0).astype(np.int64))
        first.setflags(write=False)
        return first

    @cached_property
    def scale(self) -> float:
        """The smallest objective of real allocations above `first`."""
        return self.objective(self.water_fill(self.first)[0])

    def decision(self, x: ArrayLike) -> NDArray[Any]:
        """Return ``x`` as a vector over the groups: int64 if it is given in integers, float64 otherwise.

        Raises `ValueError` for another shape.
        """
        array = self._vector(x, "entry per group")
        return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)

    def integral(self, x: ArrayLike) -> bool:
        """Return whether ``x`` is in whole clients."""
        array = self.decision(x)
        return bool(np.array_equal(array, np.round(array)))

    def objective(self, x: ArrayLike) -> float:
        """Σ (N_k/N)² (1/x_k − 1/N_k) H_k², over groups with H_k > 0 that are present; infinite at x_k = 0 there."""
        return float(self.terms(self.decision(x)).sum())

    def terms(self, s: NDArray[Any]) -> NDArray[np.float64]:
        """Cost c_k (1/s_k − 1/N_k) of each group, without cancellation where s_k is close to N_k."""
        counts = self.costs > 0
        s, sizes = s[counts].astype(np.float64), self.sizes[counts]
        terms = np.zeros(self.n)
        with np.errstate(divide="ignore"):
            terms[counts] = self.costs[counts] * ((sizes - s) / sizes / s)
        return terms

    def violation(self, x: ArrayLike) -> float:
        """Return the largest shortfall below ``lower``, excess over ``upper`` or distance of the sum from ``total``."""
        s = self.decision(x)
        off = abs(float(s.sum()) - self.total)
        if s.dtype.kind == "f":
            off /= self.total
        return float(max((self.lower - s).max(), (s - self.upper).max(), off, 0.0))

    def water_fill(self, lower: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
        """Return the best real allocation above ``lower``, and the price λ of a client: see `water_fill`."""
        return water_fill(self.costs, self.sizes, self.total, lower, self.upper)

    # -- bounds --------------------------------------------------------------------------------------------------

    def relaxed_bound(self, price: float) -> float:
        r"""Return a valid lower bound on every allocation, whole or real, from any price λ ≥ 0 of a client.

        .. math:: d(\lambda) = \sum_k \min_{\ell_k \le s \le u_k} \Big(\frac{c_k}{s} + \lambda s\Big) - \lambda S
                  - \sum_k \frac{c_k}{N_k}

        less a margin for its rounding. At the price that `kkt` reports, d is the optimum over real allocations.
        """
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            best = np.where(self.costs > 0, np.sqrt(self.costs / price), 0.0)
        return self._dual(price, np.clip(best, self.lower, self.upper))

    def integer_bound(self, price: float) -> float:
        """Return `relaxed_bound` with the minimum over whole numbers: valid for allocations in whole clients only.

        At the price that ``greedy`` reports it is the optimum less a margin for rounding, as costs are convex in s.
        """
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # The first s whose next client gains no more than the price: c / (s (s + 1)) ≤ λ; its neighbours are
            # tried too, so that rounding of the square root does no harm.
            ratio = np.where(self.costs > 0, self.costs / price, 0.0)
            near = np.ceil((np.sqrt(1.0 + 4.0 * ratio) - 1.0) / 2.0)
        near = np.clip(near, self.first, self.upper)
        tried = [np.clip(near + step, self.first, self.upper) for step in (-1.0, 0.0, 1.0)]
        best = np.argmin([self.terms(s) + price * (s - near) for s in tried], axis=0)
        return self._dual(price, np.choose(best, tried))

    def _dual(self, price: float, s: NDArray[np.float64]) -> float:
        terms, clients = float(self.terms(s).sum()), float(s.sum())
        value = terms + price * (clients - self.total)
        # A few roundings a term and log2(K) for a pairwise sum, which is exact for whole clients; doubled.
        roundings = math.log2(self.n + 1) + 8.0
        magnitude = terms + price * abs(clients - self.total)
        if not self.integral(s):
            magnitude += price * clients
        return max(0.0, value - 2.0 * _EPS * roundings * magnitude)

    @takes_duals
    def kkt_residuals(
        self,
        x: ArrayLike,
        price: float,
        lower: NDArray[np.float64] | None = None,
        upper: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        r"""Return the distance of ``x`` from the optimality conditions of its kind, in units of the objective.

        Parameters
        ----------
        x : (K,) array-like
            An allocation.
        price : float
            λ, the multiplier of the sum.
        lower, upper : (K,) ndarray, optional
            Multipliers of the bounds, of a real allocation: :math:`-c_k / x_k^2 + \lambda - \text{lower}_k +
            \text{upper}_k = 0`. Left out for one in whole clients.

        Returns
        -------
        dict
            For real allocations ``stationarity`` (times x_k), ``complementarity`` and ``dual_violation`` (per client);
            for whole ones ``exchange``: the most that moving one client from a group to another gains, 0 at an optimum.
        """
        s = self.decision(x).astype(np.float64)
        if lower is None or upper is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where((s < self.upper) & (self.costs > 0), self.costs / (s * (s + 1.0)), 0.0)
                loss = np.where(self.costs > 0, self.costs / (s * (s - 1.0)), 0.0)
            loss = loss[s > self.first]
            return {"exchange": max(0.0, float(gain.max() - loss.min())) if loss.size else 0.0}
        slope = np.divide(self.costs, s, out=np.zeros(self.n), where=self.costs > 0)
        return {
            "stationarity": float(np.abs((price - lower + upper) * s - slope).max()),
            "complementarity": float(max((lower * (s - self.lower)).max(), (upper * (self.upper - s)).max())),
            "dual_violation": float(max(0.0, -lower.min(), -upper.min(), -price)),
        }


def fill(
    a: NDArray[np.float64], total: float, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return ``clip(τ·a, lower, upper)`` that sums to ``total``, and its level τ; O(K log K).

    Parameters
    ----------
    a : (K,) ndarray
        Positive rates.
    total : float
        Wanted sum, between those of the bounds.
    lower, upper : (K,) ndarray
        Bounds.

    Returns
    -------
    x : (K,) ndarray
        The filled vector.
    level : float
        τ.
    """
    enter, leave = lower / a, upper / a
    breaks = np.sort(np.concatenate([enter, leave]))
    # The sum is piecewise linear and grows between the breaks: find the last break at which it is not too large.
    first, last = 0, breaks.size
    while last - first > 1:
        middle = (first + last) // 2
        if float(np.clip(breaks[middle] * a, lower, upper).sum()) <= total:
            first = middle
        else:
            last = middle
    level = float(breaks[first])
    full, free = leave <= level, (enter <= level) & (leave > level)
    if free.any():
        fixed = float(upper[full].sum() + lower[~full & ~free].sum())
        level = max(level, (total - fixed) / float(a[free].sum()))  # never below the break, by rounding
    return np.where(full, upper, np.where(free, np.clip(level * a, lower, upper), lower)), level


def water_fill(
    costs: NDArray[np.float64],
    sizes: NDArray[np.int64],
    total: int,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
) -> tuple[NDArray[np.float64], float]:
    r"""Minimise :math:`\sum_k c_k / x_k` over real :math:`\text{lower} \le x \le \text{upper}` of sum ``total``.

    Groups with zero cost stay at their lower bound while others have room; what is left then is split over them in
    proportion to their sizes, at price 0.

    Parameters
    ----------
    costs : (K,) ndarray
        c ≥ 0.
    sizes : (K,) ndarray of int
        Clients of each group; they matter for groups of zero cost alone.
    total : int
        Wanted sum, between those of the bounds.
    lower, upper : (K,) ndarray of int
        Bounds; a group with upper bound 0 is absent.

    Returns
    -------
    x : (K,) ndarray
        The best allocation.
    price : float
        λ = 1/τ² of a client.
    """
    x = lower.astype(np.float64)
    most = upper.astype(np.float64)
    counts = costs > 0
    idle = ~counts & (upper > 0)
    for_rest = float(lower[idle].sum())
    wanted = min(total - for_rest, float(most[counts].sum()))
    price = 0.0
    if counts.any():
        x[counts], level = fill(np.sqrt(costs[counts]), wanted, x[counts], most[counts])
        if total - for_rest <= float(most[counts].sum()):
            price = 1.0 / level**2 if level > 0 else math.inf
    if idle.any() and (rest := total - wanted) > for_rest:
        x[idle], _ = fill(sizes[idle].astype(np.float64), rest, x[idle], most[idle])
    return x, price


def round_up_largest(
    x: NDArray[np.float64], total: int, first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Round down, then up again where most was lost, until ``total`` clients are allotted; ties to the lowest index.

    ``x`` must lie between ``first`` and ``upper`` and sum to ``total``.
    """
    down = np.clip(np.floor(x + 1e-9).astype(np.int64), first, upper)
    lost = np.where(down < upper, x - down, -np.inf)
    missing = total - int(down.sum())
    down[np.argsort(-lost, kind="stable")[: max(missing, 0)]] += 1
    return down
