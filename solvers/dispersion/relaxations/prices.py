r"""Prices of side constraints: the multipliers of one bound, by the names of the constraints.

With a form f concave on the slice, a point y and multipliers λ ≥ 0 of rows, θ of the size, and ν of groups (positive
for their upper limits, negative for their lower ones),

.. math:: f(y) - \nabla f(y)^\top y + \lambda^\top b + \theta m + \sum_g \nu_g q_g
    + \sum_i \max(0, \nabla f(y)_i - (A^\top \lambda)_i - \theta - \nu_{g(i)})

bounds every selection, whatever the limits b and q are: it is linear in them. So a price says how much that bound, and
what is still possible below it, rises with one more unit of a limit: prices are supergradients of the bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels.tree_data import Sides
from solvers.dispersion.relaxations.slice_form import SliceForm

Reals = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class PricedBound(NamedTuple):
    """A bound, and prices of the rows and of the groups, in the units of the form."""

    value: float
    rows: Reals
    groups: Reals


def priced_bound(form: SliceForm, sides: Sides, y: Reals, prices: Reals) -> PricedBound:
    """Bound by a tangent at ``y`` with these prices of rows, and the best ones of groups and size beside them.

    Parameters
    ----------
    form : SliceForm
        The objective over the free clients.
    sides : Sides
        The constraints over these.
    y : (n,) ndarray
        Point of the tangent.
    prices : (k,) ndarray
        Multipliers of the rows, not negative.
    """
    n = y.size
    towards = form.curved @ y
    key = form.linear + 2 * towards - prices @ sides.rows
    taken = _greedy_counts(key, sides, form.size)
    theta = _marginal(key, sides, taken)
    groups = np.zeros(sides.low.size)
    worth = 0.0
    for g in range(groups.size):
        there = np.sort(key[sides.group == g])[::-1]
        count = int(taken[g])
        # Between these two prices per client the group takes just as many.
        most = there[count - 1] if count > 0 else np.inf
        least = there[count] if count < there.size else -np.inf
        price = float(min(max(theta, least), most))
        nu = price - theta
        if count < sides.high[g]:
            nu = min(nu, 0.0)
        if count > sides.low[g]:
            nu = max(nu, 0.0)  # with an exact quota, a price of either sign stays
        groups[g] = nu
        worth += nu * float(sides.high[g] if nu > 0 else sides.low[g])
        worth += float(np.maximum(there - theta - nu, 0.0).sum())
    paid = float(prices @ sides.limits)
    value = -float(y @ towards) + paid + theta * form.size + worth
    sizes = prices @ (np.abs(sides.rows).sum(axis=1) + np.abs(sides.limits)) + np.abs(groups) @ np.abs(sides.high)
    sizes += (np.abs(key).max(initial=0.0) + abs(theta)) * (n + form.size)
    return PricedBound(value + form.margin + 4 * (n + prices.size + 8) * _EPS * float(sizes), prices, groups)


def _greedy_counts(key: Reals, sides: Sides, size: int) -> NDArray[np.int64]:
    """How many of each group the linear maximum takes."""
    taken = np.zeros(sides.low.size, dtype=np.int64)
    extra = size - int(np.minimum(sides.low, np.bincount(sides.group, minlength=taken.size)).sum())
    for i in np.argsort(-key, kind="stable"):
        g = sides.group[i]
        if taken[g] < sides.low[g]:
            taken[g] += 1
        elif extra > 0 and taken[g] < sides.high[g]:
            taken[g] += 1
            extra -= 1
    return taken


def _marginal(key: Reals, sides: Sides, taken: NDArray[np.int64]) -> float:
    """Price of a place: what the last client of a group that may take fewer, and the next of one that may take more."""
    upper, lower = -np.inf, np.inf
    for g in range(taken.size):
        there = np.sort(key[sides.group == g])[::-1]
        if taken[g] < min(int(sides.high[g]), there.size):
            upper = max(upper, float(there[taken[g]]))
        if taken[g] > sides.low[g]:
            lower = min(lower, float(there[taken[g] - 1]))
    if np.isfinite(upper) and np.isfinite(lower):
        return (upper + lower) / 2
    return upper if np.isfinite(upper) else lower if np.isfinite(lower) else float(np.median(key)) if key.size else 0.0
