"""Subproblem of the first-order tree: its Lagrange multipliers and its active products X_ij >= 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels.tree_data import Form, Order
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.semidefinite import Multipliers
from solvers.dispersion.relaxations.slice_form import SliceForm

__all__ = ["Subproblem", "inherited_pairs", "violated_pairs"]


@dataclass
class Subproblem:
    """Clients that are still free beside those fixed to one, and a concave form of the objective over them.

    Attributes
    ----------
    ids : (k,) ndarray of int
        Free clients, in the problem's indices.
    ones : (f,) ndarray of int
        Clients fixed to one.
    constant : float
        Their value, in the units of `Normal`.
    form : SliceForm
        The objective over the free clients, made concave on the slice by this subproblem's multipliers.
    order : Dominance
        Pairs of free clients of which one is always as good.
    x : (k,) ndarray
        A point of the slice at which to take the first tangent.
    pairs : (p, 2) ndarray of int
        Products to hold non-negative in the next relaxation, in positions of ``ids``.
    relaxed : bool
        Whether the multipliers are a relaxation's, and not one shift for all clients.
    number : int
        The form's number in the search log; -1 where nothing is written down.
    has_active_products : bool
        Whether the last relaxation held products non-negative.
    """

    ids: NDArray[np.int64]
    ones: NDArray[np.int64]
    constant: float
    form: SliceForm
    order: Dominance
    x: NDArray[np.float64]
    pairs: NDArray[np.int64]
    relaxed: bool
    number: int = -1
    has_active_products: bool = False

    @property
    def is_final(self) -> bool:
        """Whether its multipliers are as good as they become: its pairs are held non-negative, or there are none."""
        return self.relaxed and (self.has_active_products or not len(self.pairs))

    def tangent_bound(self) -> float:
        """Upper bound on its selections by the tangent at ``x``."""
        return self.form.tangent(self.x) + self.constant

    def kernel_data(self) -> tuple[Form, Order]:
        """Arguments of the kernels: the form with branching weights, and dominance as adjacency lists."""
        form, order, means = self.form, self.order, self.form.curved.mean(axis=0)
        importance = np.maximum(2 * means - means.mean() - form.curved.diagonal(), 1e-12)
        return (
            Form(form.curved, form.exact, form.linear, form.size, form.margin, importance),
            Order(order.above_start, order.above, order.below_start, order.below),
        )


def inherited_pairs(parent: Subproblem | None, ids: NDArray[np.int64], n: int, per_client: float) -> NDArray[np.int64]:
    """Return the parent's pairs of clients among ``ids``, in positions of ``ids``; so many per client at most."""
    if parent is None or len(parent.pairs) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    place = np.full(n, -1, dtype=np.int64)
    place[ids] = np.arange(ids.size)
    pairs = place[parent.ids[parent.pairs]]
    return pairs[(pairs >= 0).all(axis=1)][: int(per_client * ids.size)]


def violated_pairs(found: Multipliers, pairs: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Choose pairs for the next relaxation: those with a multiplier now, then the most negative products."""
    kept = pairs[found.nonnegative > 1e-4 * found.nonnegative.max(initial=0)]
    room = most - len(kept)
    if room <= 0:
        return kept
    upper = np.column_stack(np.triu_indices(len(found.products), 1))
    values = found.products[upper[:, 0], upper[:, 1]]
    chosen = np.argsort(values, kind="stable")[:room]
    chosen = chosen[values[chosen] < -1e-5]
    known = {(int(i), int(j)) for i, j in kept}
    fresh = [pair for pair in upper[chosen].tolist() if tuple(pair) not in known]
    return np.concatenate([kept, np.array(fresh, dtype=np.int64).reshape(-1, 2)])
