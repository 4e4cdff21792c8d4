"""The inner loop of Floyd–Warshall in tiles, compiled: one step of all shortest paths through a block of nodes."""

from __future__ import annotations

from numba import float64, int64, njit, types

_TWO = float64[:, ::1]


@njit(types.void(_TWO, _TWO, int64, int64, int64, int64, int64), cache=True, nogil=True)
def relax(target, panel, top, bottom, start, stop, shift):  # type: ignore[no-untyped-def]
    """Set ``target_ij = min(target_ij, min_k panel_ki + panel_kj)`` for rows top to bottom, columns start to stop.

    Row i of the target is node ``i + shift`` of the panel.

    Two rows and four nodes at a time: what is loaded of the panel is used twice, and the minimum stays in registers.
    A minimum does not depend on the order, so that the bits are those of the plain loop.
    """
    nodes = panel.shape[0]
    whole = nodes - nodes % 4
    for i in range(top, bottom, 2):
        other = min(i + 1, bottom - 1)  # the last row alone is done twice, which changes nothing
        a, b = target[i, start:stop], target[other, start:stop]
        p, q = i + shift, other + shift
        for k in range(0, whole, 4):
            r0, r1 = panel[k, start:stop], panel[k + 1, start:stop]
            r2, r3 = panel[k + 2, start:stop], panel[k + 3, start:stop]
            a0, a1, a2, a3 = panel[k, p], panel[k + 1, p], panel[k + 2, p], panel[k + 3, p]
            b0, b1, b2, b3 = panel[k, q], panel[k + 1, q], panel[k + 2, q], panel[k + 3, q]
            for j in range(a.size):
                low, up = a[j], b[j]
                low, up = min(low, a0 + r0[j]), min(up, b0 + r0[j])
                low, up = min(low, a1 + r1[j]), min(up, b1 + r1[j])
                low, up = min(low, a2 + r2[j]), min(up, b2 + r2[j])
                low, up = min(low, a3 + r3[j]), min(up, b3 + r3[j])
                a[j] = low
                b[j] = up
        for k in range(whole, nodes):
            r0, a0, b0 = panel[k, start:stop], panel[k, p], panel[k, q]
            for j in range(a.size):
                a[j] = min(a[j], a0 + r0[j])
                b[j] = min(b[j], b0 + r0[j])


@njit(types.void(_TWO, _TWO, int64, int64, int64), cache=True, nogil=True)
def relax_strip(lengths, panel, top, bottom, tile):  # type: ignore[no-untyped-def]
    """Relax the rows ``top`` to ``bottom``, from their diagonal on, through the nodes of a panel."""
    for start in range(top, lengths.shape[0], tile):
        relax(lengths, panel, top, bottom, start, min(start + tile, lengths.shape[0]), 0)
