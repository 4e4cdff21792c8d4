"""Sums of distances from points to centres: the one thing that costs time between a million points."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.run import Run

__all__ = ["FEW", "OutOfTime", "potentials"]

#: Distances up to which NumPy is quicker than loading compiled code.
FEW = 2_000_000

#: Distances between two looks at the clock: some tens of milliseconds.
_WORK = 40_000_000

#: Points to a thread, at least.
_SHARE = 4_096


class OutOfTime(Exception):
    """The clock ran out in the middle of something that has no answer yet."""


def potentials(
    coordinates: NDArray[np.float64],
    centres: NDArray[np.float64],
    weights: NDArray[np.float64],
    run: Run | None = None,
) -> NDArray[np.float64]:
    """Return ``Σ_k weights_k ‖p_i − centre_k‖`` for every point i.

    Every sum runs over the centres in order, whatever the number of threads: bits do not depend on it.

    Parameters
    ----------
    coordinates : (d, n) ndarray
        The points.
    centres : (d, K) ndarray
        The centres.
    weights : (K,) ndarray
        Their weights.
    run : Run, optional
        Whose clock is looked at every few ten milliseconds.

    Raises
    ------
    OutOfTime
        When the run's time is over.
    """
    n, count = coordinates.shape[1], weights.size
    if n * count <= FEW:
        return _in_numpy(coordinates, centres, weights)
    add_distances = load("points", run).add_distances
    totals = np.zeros(n)
    threads = max(1, min(_threads(), n // _SHARE))
    edges = np.linspace(0, n, threads + 1).astype(np.int64)
    together = max(1, _WORK // n)
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, count, together):
            if run is not None and run.expired:
                raise OutOfTime
            some = np.ascontiguousarray(centres[:, start : start + together])
            share = np.ascontiguousarray(weights[start : start + together])
            done = [
                pool.submit(add_distances, coordinates, some, share, first, last, totals)
                for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            ]
            for part in done:
                part.result()
    return totals


def _in_numpy(
    coordinates: NDArray[np.float64], centres: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    totals = np.zeros(coordinates.shape[1])
    for centre, weight in zip(centres.T, weights, strict=True):
        squares = (coordinates[0] - centre[0]) ** 2
        for row, middle in zip(coordinates[1:], centre[1:], strict=True):
            squares += (row - middle) ** 2
        totals += weight * np.sqrt(squares)
    return totals


def _threads() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
