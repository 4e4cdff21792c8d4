"""The Schur complement of products, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assemble", "signatures"]


def assemble(outer, inner, i, j, a, b):
    """``<A_k, outer A_l inner>`` for conditions ``A_k = sym((e_i + a e_0)(e_j + b e_0)ᵀ)``."""
    n = outer.shape[0]
    count = i.size
    result = np.empty((count, count))
    zu, zv, iu, iv = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for k in range(count):
        for c in range(n):
            zu[c] = outer[i[k], c] + a[k] * outer[0, c]
            zv[c] = outer[j[k], c] + b[k] * outer[0, c]
            iu[c] = inner[i[k], c] + a[k] * inner[0, c]
            iv[c] = inner[j[k], c] + b[k] * inner[0, c]
        for c in range(k + 1):
            p, q, r, s = i[c], j[c], a[c], b[c]
            value = (zv[p] + r * zv[0]) * (iu[q] + s * iu[0])
            value += (zu[q] + s * zu[0]) * (iv[p] + r * iv[0])
            value += (zv[q] + s * zv[0]) * (iu[p] + r * iu[0])
            value += (zu[p] + r * zu[0]) * (iv[q] + s * iv[0])
            result[k, c] = value / 4
            result[c, k] = value / 4
    return result


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import float64, int64

    matrix, indices, reals = float64[:, ::1], int64[::1], float64[::1]
    return {assemble: (matrix, matrix, indices, indices, reals, reals)}
