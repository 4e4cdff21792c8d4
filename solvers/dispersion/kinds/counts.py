"""The problem over counts: the cheapest clients of each kind, and a quadratic that is concave on the slice."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.relaxations.slice_form import certified_excess
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue

__all__ = ["Counts", "cheapest_of_each"]

_EPS = float(np.finfo(np.float64).eps)

#: Up to this many kinds the costs of each are sorted by themselves.
_FEW = 500


class Counts:
    r"""Maximise ``nᵀQn + Σ_a T_a(n_a)`` over counts: the objective, in the same units.

    :math:`Q = w (D - \mathrm{Diag}(\sigma))` is certainly negative semidefinite on :math:`1^\top z = 0`, for the
    smallest uniform σ of which that can be shown. It may be negative, where D is strictly of negative type; what σ
    takes off, :math:`w \sigma n_a^2`, is given back by T_a at whole numbers.

    Attributes
    ----------
    q : (k, k) ndarray
        Q.
    start : (k + 1,) ndarray of int
        Where each kind's steps begin.
    steps : ndarray
        What one more client of a kind adds to T_a.
    order : ndarray of int
        The clients behind the steps: of each kind the m cheapest at most, the cheapest first.
    margin : float
        What rounding can have taken from a bound.
    enough : float
        Slopes that do not count.
    """

    def __init__(self, problem: KindDispersionProblem, matrix: NDArray[np.float64] | None = None) -> None:
        self.problem = problem
        w, m, k = problem.weight, problem.size, problem.k
        self.start, self.order = cheapest_of_each(problem.kinds, problem.costs, k, m)
        sigma = 0.0
        if w > 0 and problem.diameter > 0:
            sigma = negative_type_excess(problem.distances)
        self.q = w * problem.distances
        index = np.arange(k)
        self.q[index, index] -= w * sigma
        height = np.arange(self.order.size) - np.repeat(self.start[:-1], np.diff(self.start))
        own = np.repeat(problem.distances.diagonal(), np.diff(self.start))
        self.steps = w * sigma * (2 * height + 1) - w * own - problem.costs[self.order]
        largest = w * (problem.diameter + abs(sigma)) * m + float(np.abs(problem.costs[self.order]).max())
        self.margin = 8 * (k + m + 32) * _EPS * 4 * m * largest
        self.enough = 1e-10 * max(problem.scale, 1e-300) / m

    def decision(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cheapest clients in these numbers, as a decision."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        for first, count in zip(self.start[:-1].tolist(), counts.tolist(), strict=True):
            x[self.order[first : first + count]] = 1
        return x

    def counts(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of each kind a decision takes."""
        return np.bincount(self.problem.kinds[x == 1], minlength=self.problem.k).astype(np.int64)


def negative_type_excess(distances: NDArray[np.float64]) -> float:
    """A number σ, near the smallest, for which ``D − σI`` is certainly negative semidefinite on ``1ᵀz = 0``."""
    k = len(distances)
    if k == 1:
        return 0.0
    unit = 2.0 ** -math.frexp(float(distances.max()))[1]
    d = distances * unit
    guess = top_eigenvalue(d, 1e-9)
    guess += 1e-12 * max(1.0, abs(guess)) * k
    return (guess + certified_excess(d, np.full(k, guess))) / unit


def cheapest_of_each(
    kinds: NDArray[np.int64], costs: NDArray[np.float64], k: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each kind the ``most`` cheapest clients, the cheapest first; ties go to the lower place.

    Returns
    -------
    (k + 1,) ndarray, ndarray
        Where each kind begins in the second array, and the clients.
    """
    if k > _FEW:
        every = np.lexsort((costs, kinds))
        ends = np.cumsum(np.bincount(kinds, minlength=k))
        rank = np.arange(kinds.size) - np.repeat(np.concatenate([[0], ends[:-1]]), np.diff(ends, prepend=0))
        order = every[rank < most]
        return np.concatenate([[0], np.cumsum(np.minimum(np.diff(ends, prepend=0), most))]), order
    # Sorting small integers is linear; only those that can matter are sorted by cost.
    grouped = np.argsort(kinds.astype(np.int16), kind="stable")
    parts, first = [], 0
    for count in np.bincount(kinds, minlength=k).tolist():
        members = grouped[first : first + count]
        first += count
        own = costs[members]
        if count > most:
            limit = np.partition(own, most - 1)[most - 1]
            near = own <= limit
            members, own = members[near], own[near]
        parts.append(members[np.argsort(own, kind="stable")[:most]])
    return np.concatenate([[0], np.cumsum([part.size for part in parts])]), np.concatenate(parts)
