"""Kernels for points: sums of distances to centres, and all distances of a small part."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["add_distances", "fill_distances", "signatures"]

_BLOCK = 512


def add_distances(coordinates, centres, weights, first, last, totals):
    """Add ``Σ_k weights_k ‖p_i − centre_k‖`` to ``totals[i]`` for the clients ``first ≤ i < last``.

    Coordinates are (d, n) and centres (d, K): the inner loops run over clients, in blocks that stay in the cache.
    Every total adds up its centres in order, so that the bits do not depend on the blocks.
    """
    room = np.empty(_BLOCK)
    for start in range(first, last, _BLOCK):
        stop = min(start + _BLOCK, last)
        total, squares = totals[start:stop], room[: stop - start]
        for k in range(weights.size):
            weight, centre = weights[k], centres[0, k]
            row = coordinates[0, start:stop]
            for i in range(squares.size):
                difference = row[i] - centre
                squares[i] = difference * difference
            for axis in range(1, coordinates.shape[0]):
                row, centre = coordinates[axis, start:stop], centres[axis, k]
                for i in range(squares.size):
                    difference = row[i] - centre
                    squares[i] += difference * difference
            for i in range(squares.size):
                total[i] += weight * np.sqrt(squares[i])


def fill_distances(coordinates, matrix):
    """Write all distances between the points of (d, n) coordinates into an (n, n) matrix, row by row."""
    n = coordinates.shape[1]
    for i in range(n):
        out = matrix[i]
        row, centre = coordinates[0], coordinates[0, i]
        for j in range(n):
            difference = row[j] - centre
            out[j] = difference * difference
        for axis in range(1, coordinates.shape[0]):
            row, centre = coordinates[axis], coordinates[axis, i]
            for j in range(n):
                difference = row[j] - centre
                out[j] += difference * difference
        for j in range(n):
            out[j] = np.sqrt(out[j])


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int64, types

    read = types.Array(float64, 2, "C", readonly=True)
    return {
        add_distances: (read, float64[:, ::1], float64[::1], int64, int64, float64[::1]),
        fill_distances: (read, float64[:, ::1]),
    }
