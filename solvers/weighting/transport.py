r"""The one-dimensional problem under both relaxations: linear costs plus a squared total variation.

.. math:: \min_{p \in \Delta} \; \langle d, p \rangle + \Gamma \, d_{TV}^2(\alpha, p)

Mass leaves the dearest clients and goes to the cheapest one, until the next unit saves less than the bias it adds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["cheapest", "lower_bound"]


def cheapest(costs: NDArray[np.float64], importance: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """The minimiser p, by sorting, in O(n log n).

    Parameters
    ----------
    costs : (n,) ndarray
        Linear cost d of each client.
    importance : (n,) ndarray
        α ≥ 0, of sum at most 1; what is missing belongs to clients that p cannot serve.
    gamma : float
        Weight Γ ≥ 0 of the squared total variation.

    Returns
    -------
    (n,) ndarray
        p ≥ 0 with sum 1.
    """
    order = np.argsort(-costs, kind="stable")
    least = float(costs[order[-1]])
    mass = np.cumsum(importance[order])
    missing = max(0.0, 1.0 - float(mass[-1]))
    saving = costs[order] - least
    if gamma > 0:
        # A unit of client j saves saving_j; at total variation t it costs 2Γt. Both are monotone along the order.
        with np.errstate(over="ignore"):
            moved = float(np.minimum(mass, saving / (2.0 * gamma) - missing).max())
        moved = max(0.0, moved)
    else:
        moved = float(mass[-1])
    p = np.zeros_like(importance)
    before = np.concatenate([[0.0], mass[:-1]])
    p[order] = importance[order] - np.clip(moved - before, 0.0, importance[order])
    p[order[-1]] += moved + missing
    return p / p.sum()


def lower_bound(costs: NDArray[np.float64], importance: NDArray[np.float64], gamma: float, variation: float) -> float:
    r"""A lower bound on the minimum, valid for any ``variation`` t ≥ 0 and tight at the minimiser's total variation.

    From :math:`x^2 \ge 2tx - t^2` the problem becomes a transport with unit cost 2Γt, whose optimum is explicit:
    :math:`\sum_k \alpha_k d_k - \sum_k \alpha_k (d_k - d_{\min} - 2\Gamma t)_+ - \Gamma t^2` (with the missing
    importance at infinite cost). A margin for the rounding of the sums is subtracted.
    """
    least = float(costs.min())
    missing = max(0.0, 1.0 - float(importance.sum()))
    price = 2.0 * gamma * variation
    value = float((importance * np.minimum(costs, least + price)).sum())
    value += missing * (least + price) - gamma * variation * variation
    margin = 4.0 * (costs.shape[0] + 10) * float(np.finfo(np.float64).eps)
    return value - margin * (float(np.abs(costs).max()) + gamma * (1.0 + variation) ** 2)
