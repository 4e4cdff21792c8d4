"""Inner loops of the search for unions that balance exactly, compiled: fours of clients, and their meeting."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["join", "mark", "meet", "signatures"]


def join(sums, lower, upper, order, ends, residue, found, first, second):
    """List the fours of clients, each once, whose residues sum to ``residue``, as pairs of pairs; return how many.

    Pairs of residue v are ``order[ends[v] : ends[v + 1]]``. A four is listed as the pair of its two lowest clients and
    that of its others.
    """
    classes, count = ends.size - 1, 0
    for v in range(classes):
        w = (residue - v) % classes
        for p in range(ends[v], ends[v + 1]):
            x = order[p]
            for q in range(ends[w], ends[w + 1]):
                y = order[q]
                if upper[x] < lower[y] and count < found.size:
                    found[count], first[count], second[count] = sums[x] + sums[y], x, y
                    count += 1
    return count


def mark(wanted, table):
    """Set the two bits of each number that is wanted: its highest 27 in the first row, its lowest in the second."""
    for k in range(wanted.size):
        high, low = wanted[k] >> np.uint64(37), wanted[k] & np.uint64(134217727)
        table[0, high >> np.uint64(3)] |= np.uint8(1 << np.int64(high & np.uint64(7)))
        table[1, low >> np.uint64(3)] |= np.uint8(1 << np.int64(low & np.uint64(7)))


def meet(fours, pairs, table, four, pair):
    """Find the sums of a four and a pair both bits of which are set, as many as there is room for; return how many."""
    count = 0
    for p in range(pairs.size):
        for k in range(fours.size):
            total = fours[k] + pairs[p]
            high = total >> np.uint64(37)
            if np.int64(table[0, high >> np.uint64(3)]) >> np.int64(high & np.uint64(7)) & 1:
                low = total & np.uint64(134217727)
                if np.int64(table[1, low >> np.uint64(3)]) >> np.int64(low & np.uint64(7)) & 1 and count < four.size:
                    four[count], pair[count] = k, p
                    count += 1
    return count


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import int32, int64, uint8, uint64

    sums, ids = uint64[::1], int64[::1]
    return {
        join: (sums, ids, ids, ids, ids, int64, sums, int32[::1], int32[::1]),
        mark: (sums, uint8[:, ::1]),
        meet: (sums, sums, uint8[:, ::1], int32[::1], int32[::1]),
    }
