"""Entrywise part of an ADMM step of the doubly nonnegative relaxation: few passes over the matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.kernels.tree_data import Order

__all__ = ["admm_target", "admm_update", "signatures"]


def admm_target(cost, products, others, half, own, penalty, shifted, rest):
    """Compute ``shifted = τI + B(d) − C − σX`` and ``rest = shifted − others``; ``half`` is d/2m, ``own`` τ + d."""
    n = half.size
    for i in range(n):
        for j in range(n):
            shifted[i, j] = -(half[i] + half[j]) - cost[i, j] - penalty * products[i, j]
        shifted[i, i] += own[i]
        for j in range(n):
            rest[i, j] = shifted[i, j] - others[i, j]


def admm_update(shifted, slack, forbidden, free, order, penalty, step, cuts, nonnegative, products):
    """Update S (``nonnegative``), then the multiplier X (``products``), which is the dual update.

    Returns the squared error of the dual equality, the row sums of X, and of S + Z − Tᵀt. ``free`` says whether any
    pair is forbidden; S is free there. With clients i above j in ``order``, S_jj and the S_ij and S_ji sum up to 0.
    """
    n = len(shifted)
    error, rows, both, excess = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    share = step / penalty
    for j in range(n):
        first, last = order.above_start[j], order.above_start[j + 1]
        if last > first:
            total = shifted[j, j] - slack[j, j]
            for a in range(first, last):
                total += 2.0 * (shifted[j, order.above[a]] - slack[j, order.above[a]])
            excess[j] = total / (1 + 2 * (last - first))
    for i in range(n):
        for j in range(n):
            value = shifted[i, j] - slack[i, j]
            nonnegative[i, j] = value if value > 0.0 else 0.0
        if free:
            for j in range(n):
                if forbidden[i, j]:
                    nonnegative[i, j] = shifted[i, j] - slack[i, j]
        nonnegative[i, i] = 0.0
        if order.above_start[i + 1] > order.above_start[i]:
            nonnegative[i, i] = shifted[i, i] - slack[i, i] - excess[i]
        for a in range(order.above_start[i], order.above_start[i + 1]):
            j = order.above[a]
            nonnegative[i, j] = shifted[i, j] - slack[i, j] - excess[i]
        for a in range(order.below_start[i], order.below_start[i + 1]):
            j = order.below[a]
            nonnegative[i, j] = shifted[i, j] - slack[i, j] - excess[j]
        for j in range(n):
            lack = shifted[i, j] + penalty * products[i, j] - nonnegative[i, j] - slack[i, j]
            error[j] += lack * lack
            products[i, j] -= share * lack
            rows[j] += products[i, j]
            both[j] += nonnegative[i, j] + slack[i, j] - cuts[i, j]
    square = 0.0
    for j in range(n):
        square += error[j]
    return square, rows, both


def signatures(precision: str) -> dict[Any, Any]:
    """Return the numba types of the arguments."""
    from numba import boolean, float64, int64, types

    matrix, reals, mask = float64[:, ::1], float64[::1], boolean[:, ::1]
    return {
        admm_target: (matrix, matrix, matrix, reals, reals, float64, matrix, matrix),
        admm_update: (
            *(matrix, matrix, mask, boolean, types.NamedUniTuple(int64[::1], 4, Order)),
            *(float64, float64, matrix, matrix, matrix),
        ),
    }
