"""Symmetric matrices that a group of permutations leaves as they are, split into blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

__all__ = ["split"]


def split(group: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """Bases V_b for which ``M ⪰ 0`` if and only if all ``V_bᵀ M V_b ⪰ 0``, for the matrices M that ``group`` leaves.

    Two random such matrices tell (Murota, Kanno, Kojima and Kojima, A numerical algorithm for block-diagonal
    decomposition of matrix *-algebras, Japan J. Industr. Appl. Math. 27, 2010): the eigenspaces of one are the
    irreducible representations, and the other one links those of the same kind and says how they correspond, so that
    one vector of each is enough.

    Parameters
    ----------
    group : (g, n) ndarray of int
        The permutations, closed under composition.

    Returns
    -------
    list of (n, d) ndarray
        A basis for every kind of representation.
    """
    rng = np.random.default_rng(0)
    orbits = _orbitals(group)

    def invariant() -> NDArray[np.float64]:
        matrix = rng.normal(size=int(orbits.max()) + 1)[orbits]
        return (matrix + matrix.T) / 2

    values, vectors = np.linalg.eigh(invariant())
    steps = np.flatnonzero(np.diff(values) > 1e-8 * np.abs(values).max()) + 1
    spaces = np.split(np.arange(len(values)), steps)
    links = vectors.T @ invariant() @ vectors
    bases, open_ = [], list(range(len(spaces)))
    while open_:
        first = spaces[open_.pop(0)]
        columns, apart = [vectors[:, first[0]]], []
        for k in open_:
            link = links[np.ix_(first, spaces[k])]
            norm = float(np.linalg.norm(link))
            if len(spaces[k]) != len(first) or norm < 1e-8:
                apart.append(k)
                continue
            columns.append(vectors[:, spaces[k]] @ link[0] * (np.sqrt(len(first)) / norm))
        open_ = apart
        bases.append(np.column_stack(columns))
    return bases


def _orbitals(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The orbit of each pair (i, j)."""
    n = group.shape[1]
    i, j = np.divmod(np.arange(n * n), n)
    ends = (np.tile(np.arange(n * n), len(group)), (group[:, i] * n + group[:, j]).ravel())
    graph = sparse.coo_matrix((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(n * n, n * n))
    return connected_components(graph, directed=False)[1].reshape(n, n).astype(np.int64)
