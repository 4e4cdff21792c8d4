"""Problems that others publish: densest subgraphs, and grey patterns (QAPLIB's tai256c)."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.problem import DispersionProblem
from solvers.errors import InvalidProblem
from solvers.reading import read_text

__all__ = ["grey_pattern", "read_densest_subgraph", "read_qaplib_grey", "torus_symmetries"]

#: Vertices that a graph may have however few edges it lists: 8 MB of distances.
_VERTICES = 1000


def read_densest_subgraph(path: str | os.PathLike[str], size: int) -> DispersionProblem:
    """Read a graph for the densest ``size``-subgraph (k-cluster): edges are distances 1, or their weights.

    The file has ``n m``, then a line ``i j`` or ``i j w`` for each of the m edges, with i and j from 1. Lines that
    begin with ``c`` or ``#`` are comments; DIMACS's ``p edge n m`` and ``e i j`` are read as well. Weights must not be
    negative.

    Parameters
    ----------
    path : path-like
        The file.
    size : int
        Vertices to choose.

    Returns
    -------
    DispersionProblem
        With weight 0.5: the objective is the number (or weight) of the edges within the selection.

    Raises
    ------
    InvalidProblem
        When the file is not of this format.
    """
    try:
        lines = [line.split() for line in read_text(path).splitlines()]
        rows = [row for row in lines if row and not row[0].startswith(("c", "#"))]
        if not rows:
            raise ValueError("it is empty")
        n, count = (int(word) for word in rows[0][-2:])
        edges = [row[1:] if row[0] == "e" else row for row in rows[1:]]
        if len(edges) != count:
            raise ValueError(f"its first line promises {count} edges; there are {len(edges)}")
        # Memory for n² distances is asked for by so many words, or by few vertices.
        if not 0 <= n <= max(_VERTICES, sum(map(len, rows))):
            raise ValueError(f"its first line promises {n} vertices, for {count} edges")
        distances = np.zeros((n, n))
        for edge in edges:
            i, j = int(edge[0]) - 1, int(edge[1]) - 1
            if not (0 <= i < n and 0 <= j < n and i != j and len(edge) <= 3):
                raise ValueError(f"an edge joins two different vertices from 1 to {n}; got {' '.join(edge)!r}")
            if distances[i, j]:
                raise ValueError(f"the edge {i + 1} {j + 1} appears twice")
            distances[i, j] = distances[j, i] = float(edge[2]) if len(edge) == 3 else 1.0
    except (ValueError, IndexError, MemoryError) as error:
        raise InvalidProblem(f"{path} is not a graph for the densest subgraph: {error}") from error
    return DispersionProblem(distances, np.zeros(n), size=size, weight=0.5)


def grey_pattern(rows: int, columns: int, size: int) -> DispersionProblem:
    r"""Spread ``size`` black cells over a torus of cells (Taillard, Location Science 3, 1995).

    The repulsion of two cells is :math:`B_{ij} = \mathrm{round}(100000 / d^2)`, d their distance on the torus, and
    :math:`s^\top B s` is to be minimised; here ``distances`` are 100000 − B. With 16 rows, 16 columns and size 92 this
    is QAPLIB's tai256c: its value is ``100000 · 92 · 91`` less the objective.

    Parameters
    ----------
    rows, columns : int
        Cells of the torus; cell (r, c) is client ``r · columns + c``.
    size : int
        Black cells.

    Raises
    ------
    InvalidProblem
        When there are no cells, or ``size`` is not between 1 and their number.
    """
    if rows < 1 or columns < 1:
        raise InvalidProblem(f"a pattern needs at least one row and one column; got {rows} and {columns}")

    def around(cells: int) -> NDArray[np.int64]:
        steps = np.abs(np.arange(cells)[:, None] - np.arange(cells))
        return np.minimum(steps, cells - steps) ** 2

    squared = around(rows)[:, None, :, None] + around(columns)[None, :, None, :]
    squared = squared.reshape(rows * columns, rows * columns)
    repulsion = np.rint(_UNIT / np.where(squared == 0, np.inf, squared))
    return _attracting(repulsion, size)


_UNIT = 100_000.0


def read_qaplib_grey(path: str | os.PathLike[str]) -> DispersionProblem:
    """Read a QAPLIB file that states a grey pattern: one of its two matrices is 1 among the first m, 0 elsewhere.

    Assigning the m black cells is then all there is to decide, and the problem is to choose m places whose entries of
    the other matrix sum up to as little as possible. Distances are 100000, or the other matrix's largest entry if
    that is larger, less its entries; the value of the assignment is that number times m (m − 1), less the objective.

    Raises
    ------
    InvalidProblem
        When the file is not of this format, or neither matrix is such a block, or the other one is not symmetric.
    """
    try:
        words = np.array(read_text(path).split(), dtype=np.float64)
        n = int(words[0])
        first, second = words[1:].reshape(2, n, n)
    except (ValueError, IndexError, OverflowError) as error:
        raise InvalidProblem(f"{path} is not a QAPLIB file: {error}") from error
    for block, other in ((first, second), (second, first)):
        size = int(np.count_nonzero(block.sum(axis=1)))
        expected = np.zeros((n, n))
        expected[:size, :size] = 1.0
        np.fill_diagonal(expected, 0.0)
        plain = block.copy()
        np.fill_diagonal(plain, 0.0)
        if size >= 2 and np.array_equal(plain, expected):
            repulsion = other.copy()
            np.fill_diagonal(repulsion, 0.0)
            return _attracting(repulsion, size)
    raise InvalidProblem(f"{path} is no grey pattern: neither matrix is 1 among the first clients and 0 elsewhere")


def torus_symmetries(rows: int, columns: int) -> NDArray[np.int64]:
    """Generators of the symmetries of `grey_pattern`: shifts, reflections, and the transposition of a square."""
    cells = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns)
    images = [np.roll(cells, 1, axis=0), np.roll(cells, 1, axis=1), cells[::-1], cells[:, ::-1]]
    if rows == columns:
        images.append(cells.T)
    return np.array([image.ravel() for image in images])


def _attracting(repulsion: NDArray[np.float64], size: int) -> DispersionProblem:
    distances = max(_UNIT, float(repulsion.max())) - repulsion
    np.fill_diagonal(distances, 0.0)
    return DispersionProblem(distances, np.zeros(len(distances)), size=size, weight=1.0)
