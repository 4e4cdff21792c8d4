"""Permutations of the clients that change no distance and no cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.problem import DispersionProblem
from solvers.errors import InvalidOption

#: Elements of a group that are listed.
_MOST = 20_000


def closure(problem: DispersionProblem, generators: ArrayLike) -> NDArray[np.int64]:
    """All products of the generators, each a permutation that changes no distance and no cost.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    generators : (k, n) array-like of int
        Permutations: client i (by place) goes to ``generators[r][i]``.

    Returns
    -------
    (g, n) ndarray of int
        The group; its first element is the identity.

    Raises
    ------
    InvalidOption
        When a generator is no permutation or changes the problem, or the group has more than 20 000 elements.
    """
    n = problem.n
    given = np.asarray(generators)
    if given.ndim != 2 or given.shape[1] != n or given.dtype.kind not in "iu":
        raise InvalidOption(f"symmetries must be rows of {n} integers, one per client; got shape {given.shape}")
    for row, g in enumerate(given):
        if not np.array_equal(np.sort(g), np.arange(n)):
            raise InvalidOption(f"symmetries must be permutations of 0 ... {n - 1}; row {row} is none")
        changed = problem.distances[np.ix_(g, g)] != problem.distances
        if changed.any() or not np.array_equal(problem.costs[g], problem.costs):
            raise InvalidOption(f"symmetries must leave distances and costs as they are; row {row} changes them")
    identity = np.arange(n, dtype=np.int64)
    group = {identity.tobytes(): identity}
    fresh = [identity]
    while fresh:
        products = [g[element] for element in fresh for g in given.astype(np.int64)]
        fresh = []
        for product in products:
            if product.tobytes() not in group:
                group[product.tobytes()] = product
                fresh.append(product)
        if len(group) > _MOST:
            raise InvalidOption(f"symmetries must generate at most {_MOST} permutations; these make more")
    return np.array(list(group.values()))
