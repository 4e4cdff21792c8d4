"""Floyd–Warshall in tiles, in an order that stays in the cache."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from graphs.errors import mirror

# Measured on a core with 1 MiB of L2: 192² doubles and their temporary fit, and one NumPy call per
# rank-one update still does enough work to forget its overhead.
_TILE = 192

#: From this many nodes on, loading compiled code pays.
COMPILED = 1_000


def close(lengths: NDArray[np.float64], tile: int = _TILE) -> NDArray[np.float64]:
    """Turn a symmetric matrix of edge lengths into all shortest-path lengths, in place.

    Blocked Floyd–Warshall (Venkataraman, Sahni, Mukhopadhyaya 2003) on the upper triangle: for each block
    of intermediate nodes K, close the diagonal tile, relax the panel D[K, :] through it, then relax every
    tile on or above the diagonal with the panel. Symmetry halves the work, to N³/2 additions and some. Up to two tiles
    wide it is the textbook loop, on both triangles.

    Parameters
    ----------
    lengths
        N×N, symmetric, non-negative, 0 on the diagonal, inf where there is no edge. Overwritten.
    tile
        Edge of a tile; changes the speed, and sums in their last bits.
    """
    size = len(lengths)
    if size <= 2 * tile:
        # The matrix fits the cache as it is, and bookkeeping would cost more than the other triangle.
        scratch = np.empty_like(lengths)
        for k in range(size):
            np.add(lengths[:, k, None], lengths[k], out=scratch)
            np.minimum(lengths, scratch, out=lengths)
        return lengths
    steps = _Compiled() if size >= COMPILED else _Plain()
    starts = range(0, size, tile)
    for first in starts:
        block = slice(first, min(first + tile, size))
        width = block.stop - block.start
        # Row panel of the block; left of the diagonal tile it is read from the triangle that is kept.
        panel = np.empty((width, size))
        panel[:, : block.start] = lengths[: block.start, block].T
        panel[:, block.start :] = lengths[block, block.start :]
        corner = panel[:, block].copy()
        for k in range(width):
            np.minimum(corner, corner[:, k, None] + corner[k], out=corner)
        panel[:, block] = corner
        panel = steps.panel(panel, block, tile)
        steps.strips(lengths, panel, tile)
    return mirror(lengths)


class _Plain:
    """The steps in NumPy: no compiled code to load."""

    def panel(self, panel: NDArray[np.float64], block: slice, tile: int) -> NDArray[np.float64]:
        """Relax a panel through its own diagonal tile."""
        fresh, size = panel.copy(), panel.shape[1]
        scratch = np.empty((len(panel), tile))
        for left in range(0, size, tile):
            columns = slice(left, min(left + tile, size))
            if left != block.start:
                _relax(fresh[:, columns], panel[:, block], panel[:, columns], scratch)
        return fresh

    def strips(self, lengths: NDArray[np.float64], panel: NDArray[np.float64], tile: int) -> None:
        """Relax all tiles on and above the diagonal with the panel."""
        size = len(lengths)
        scratch, work = np.empty((tile, tile)), np.empty((tile, tile))
        for top in range(0, size, tile):
            rows = slice(top, min(top + tile, size))
            for left in range(top, size, tile):
                columns = slice(left, min(left + tile, size))
                part = work[: rows.stop - rows.start, : columns.stop - columns.start]
                part[...] = lengths[rows, columns]
                _relax(part, panel[:, rows], panel[:, columns], scratch)
                lengths[rows, columns] = part


class _Compiled:
    """The same steps compiled, on all processors; the same bits, as minima do not depend on their order."""

    def __init__(self) -> None:
        from graphs.tiles import relax, relax_strip

        self.relax, self.relax_strip = relax, relax_strip
        self.threads = _processors()

    def panel(self, panel: NDArray[np.float64], block: slice, tile: int) -> NDArray[np.float64]:
        """Relax a panel through its own diagonal tile."""
        fresh, (width, size) = panel.copy(), panel.shape
        lefts = [left for left in range(0, size, tile) if left != block.start]
        with ThreadPoolExecutor(self.threads) as pool:
            list(
                pool.map(
                    lambda left: self.relax(fresh, panel, 0, width, left, min(left + tile, size), block.start), lefts
                )
            )
        return fresh

    def strips(self, lengths: NDArray[np.float64], panel: NDArray[np.float64], tile: int) -> None:
        """Relax all tiles on and above the diagonal with the panel, a strip of rows to a thread at a time."""
        size = len(lengths)
        with ThreadPoolExecutor(self.threads) as pool:
            list(
                pool.map(
                    lambda top: self.relax_strip(lengths, panel, top, min(top + tile, size), tile),
                    range(0, size, tile),
                )
            )


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _relax(
    target: NDArray[np.float64],
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    scratch: NDArray[np.float64],
) -> None:
    """Set target_ij = min(target_ij, min_k left_ki + right_kj), in place."""
    candidate = scratch[: target.shape[0], : target.shape[1]]
    for towards, onwards in zip(left, right, strict=True):
        np.add(towards[:, None], onwards, out=candidate)
        np.minimum(target, candidate, out=target)
