r"""Products of side constraints' rows: what a selection leaves of a limit, times what it uses.

With the least sum :math:`L` that a selection's row can have and its limit :math:`b`, every feasible s has
:math:`(b - a^\top s)(a^\top s - L) \ge 0`, and so has a group with quotas between :math:`L` and :math:`b`. A
semidefinite relaxation that holds these keeps the rows themselves, too: :math:`a^\top X a \ge (a^\top x)^2`. On the
slice :math:`1^\top s = m` a constant :math:`c` is :math:`c \, 1^\top s / m`, so that each product is a quadratic form;
times a multiplier :math:`\mu \ge 0` it lowers the objective of no feasible selection.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels.tree_data import Sides

Reals = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


def row_products(sides: Sides, size: int) -> Reals:
    """Return what is left of each limit, and what is used beyond the least, as affine functions of s.

    Parameters
    ----------
    sides : Sides
        The constraints over n free clients.
    size : int
        Clients to choose of these.

    Returns
    -------
    (2, r, n + 1) ndarray
        Constants first; groups that restrict nothing are left out.
    """
    n = sides.group.size
    members = np.bincount(sides.group, minlength=sides.low.size)
    low, high = np.maximum(sides.low, 0), np.minimum(np.minimum(sides.high, members), size)
    kept = np.flatnonzero((low > np.maximum(size - (n - members), 0)) | (high < np.minimum(members, size)))
    # Equal limits in one product would need an infinite multiplier for a price: each goes with a wider one.
    exact = low[kept] == high[kept]
    kept = np.concatenate([kept, kept[exact]])
    upper, lower = high[kept], low[kept]
    lower[: exact.size] -= exact
    upper[exact.size :] += 1
    groups = (sides.group == kept[:, None]).astype(np.float64)
    sums = np.sort(sides.rows, axis=1)[:, :size].sum(axis=1)
    least = sums - 4 * (size + 4) * _EPS * size * sides.largest
    table = np.concatenate([groups, sides.rows])
    left = np.column_stack([np.concatenate([upper, sides.limits]), -table])
    return np.array([left, np.column_stack([-np.concatenate([lower, least]), table])])


def row_form(factors: Reals, multipliers: Reals, size: int) -> tuple[Reals, float]:
    """Return products times multipliers as one quadratic form on the slice, and by how much rounding can lower it."""
    left, used = factors[:, :, 1:] + factors[:, :, :1] / size
    matrix = (left.T * (multipliers / 2)) @ used
    largest = np.abs(left).max(axis=1, initial=0.0) * np.abs(used).max(axis=1, initial=0.0)
    off = 8 * (multipliers.size + 8) * _EPS * size**2 * float(multipliers @ largest)
    return matrix + matrix.T, off


def row_charges(factors: Reals, multipliers: Reals, x: Reals) -> Reals:
    """Return what the products charge for a unit of each row at a point, to first order."""
    left, used = factors[:, :, 0] + factors[:, :, 1:] @ x
    return np.asarray(multipliers * (used - left))
