"""Grey patterns on a torus: Taillard's recipe, QAPLIB's files of them, and their symmetries."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion import DispersionProblem
from solvers.errors import InvalidProblem
from solvers.reading import read_text

#: The largest repulsion: that of neighbours.
_UNIT = 100_000.0


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
