"""Kinds: clients that are alike, by equal rows of features or of distances, and problems restated between kinds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem, KindDispersionProblem, PointDispersionProblem


def equal_rows(rows: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find which rows are equal, by a sort.

    Parameters
    ----------
    rows : (N, d) ndarray
        Finite numbers; 0 and -0 are equal.

    Returns
    -------
    (k,) ndarray, (N,) ndarray
        A row of each kind, the first, in rising order; and the kind of every row.
    """
    # A number for each row, added up in the same order for all (a product of matrices would not): equal rows have
    # equal numbers.
    numbers = np.zeros(len(rows))
    for place, column in enumerate(rows.T):
        numbers += column * np.cos(float(place + 1) ** 2)
    _, first, kinds = np.unique(numbers, return_index=True, return_inverse=True)
    if not all(np.array_equal(column[first][kinds], column) for column in rows.T):
        whole = np.ascontiguousarray(rows + 0.0)  # + 0.0 makes 0 of -0: equal rows have equal bytes
        whole = whole.view(np.dtype((np.void, whole.strides[0]))).ravel()
        _, first, kinds = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    return first[order].astype(np.int64), number[kinds.ravel()].astype(np.int64)


def kinds_of(distances: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Find clients with the same distances to all others, and to each other within their kind.

    Parameters
    ----------
    distances : (n, n) ndarray
        Symmetric, zero on the diagonal.

    Returns
    -------
    ((k, k) ndarray, (n,) ndarray) or None
        Distances between kinds, on the diagonal between two clients of one kind, and the kind of every client: what
        `KindDispersionProblem` takes. None where no two clients are alike.
    """
    n = len(distances)
    if n == 0:
        return None
    # A number for each row, in whole numbers modulo 2^64: where i has 0 to itself, j has h_ij, and else all is equal.
    weights = np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)
    numbers = np.array([(_bits(row) * weights).sum() for row in distances])
    groups: list[list[int]] = []
    firsts = np.empty(n, dtype=np.int64)  # of each group
    for client in range(n):
        first = firsts[: len(groups)]
        moved = _bits(distances[client, first]) * (weights[client] - weights[first])
        for near in np.flatnonzero(numbers[client] + moved == numbers[first]).tolist():
            if _alike(distances, groups[near], client):
                groups[near].append(client)
                break
        else:
            firsts[len(groups)] = client
            groups.append([client])
    if len(groups) == n:
        return None
    found = np.empty(n, dtype=np.int64)
    for number, group in enumerate(groups):
        found[group] = number
    first, last = np.array([g[0] for g in groups]), np.array([g[-1] for g in groups])
    return np.ascontiguousarray(distances[np.ix_(first, last)], dtype=np.float64), found


def _bits(row: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Return numbers as whole numbers: equal ones as equal ones, and 0 as 0."""
    bits = (row.astype(np.float64) + 0.0).view(np.uint64)
    return bits ^ (bits >> np.uint64(32))  # the last bits of small whole numbers are 0


def _alike(distances: NDArray[np.floating], group: list[int], client: int) -> bool:
    """Whether a client may join a group: equal rows but for the two places of the pair, one distance in the group."""
    other = group[0]
    if len(group) > 1 and distances[other, client] != distances[other, group[1]]:
        return False
    same = distances[other] == distances[client]
    same[[other, client]] = True
    return bool(same.all())


def repeated(problem: PointDispersionProblem, policy: Policy = DEFAULT_POLICY) -> KindDispersionProblem | None:
    """The same problem between kinds, clients at one point being of one kind.

    ``None`` where few points are shared, or too many differ, in a sample or in all.
    """
    n = problem.n
    rows = problem.points
    sample = equal_rows(rows[:: max(1, n // policy.kinds_sample)])[1]
    if int(sample.max()) + 1 > min(policy.most_kinds, sample.size // 2):
        return None
    first, kinds = equal_rows(rows)
    if first.size > min(policy.most_kinds, n // 2):
        return None
    return KindDispersionProblem(
        problem.geometry.distances(first),
        kinds,
        problem.costs,
        size=problem.size,
        weight=problem.weight,
        clients=problem.clients,
    )


def alike(problem: DispersionProblem, policy: Policy = DEFAULT_POLICY) -> KindDispersionProblem | None:
    """The same problem between kinds, where a matrix's clients come in few; ``None`` where they do not."""
    n = problem.n
    # Clients of one kind have equal sums but for rounding: few sums, or there is nothing to find.
    sums = np.sort(problem.distances.sum(axis=1, dtype=np.float64))
    if 1 + int((np.diff(sums) > 1e-9 * max(sums[-1], 1e-300)).sum()) > n // policy.clients_per_kind:
        return None
    found = kinds_of(problem.distances)
    if found is None or len(found[0]) > n // policy.clients_per_kind:
        return None
    return KindDispersionProblem(
        *found, problem.costs, size=problem.size, weight=problem.weight, clients=problem.clients
    ).answering(problem)
