"""Clients that are never a worse choice than others, whatever the rest of the selection.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength*, which has a table of symbols and names.

If, beside any m − 1 others, i is worth no less than j, then some best selection contains i whenever it contains j.
Identical clients that differ in their cost are the simplest case: the cheaper one goes first. The rule is tested
against the worst company, so it also finds clients that are merely alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import Order
from solvers.run import Run

#: Steps that Python needs for a pair of clients, where nothing is compiled yet.
_STEPS = 100


@dataclass(frozen=True)
class Dominance:
    """Rows (i, j) of ``pairs``: i is chosen whenever j is.

    ``certain`` says of each pair whether i is better by more than rounding; the others are adjacency lists for the
    tree.
    """

    pairs: NDArray[np.int64]
    certain: NDArray[np.bool_]
    above_start: NDArray[np.int64]
    above: NDArray[np.int64]
    below_start: NDArray[np.int64]
    below: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: NDArray[np.int64], certain: NDArray[np.bool_], n: int) -> Dominance:
        """The relation of these pairs, sorted by their first, among n clients."""
        upper, lower = pairs.T
        order = np.argsort(lower, kind="stable")
        return cls(
            pairs,
            certain,
            np.searchsorted(lower[order], np.arange(n + 1)).astype(np.int64),
            upper[order],
            np.searchsorted(upper, np.arange(n + 1)).astype(np.int64),
            np.ascontiguousarray(lower),
        )

    @classmethod
    def none(cls, n: int) -> Dominance:
        """No order among n clients."""
        return cls.of(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.bool_), n)

    @property
    def lists(self) -> Order:
        """The lists, as kernels take them."""
        return Order(self.above_start, self.above, self.below_start, self.below)

    def among(self, kept: NDArray[np.int64], n: int) -> Dominance:
        """Return the relation between the clients ``kept`` of these n, in their new numbers."""
        place = np.full(n, -1, dtype=np.int64)
        place[kept] = np.arange(kept.size)
        moved = place[self.pairs]
        stays = (moved >= 0).all(axis=1)
        return Dominance.of(moved[stays], self.certain[stays], kept.size)


def dominance(
    quadratic: NDArray[np.float64], linear: NDArray[np.float64], size: int, *, most: int = 400, run: Run | None = None
) -> Dominance:
    """Find the dominated pairs of ``max sᵀQs + lᵀs, 1ᵀs = m``; none are looked for beyond ``most`` clients.

    The relation is acyclic: i comes before j in the order of the average value beside m − 1 random others, ties by
    index, an order that dominance implies up to rounding.
    """
    n = linear.size
    if n > most or size >= n:
        table = np.zeros((n, n), dtype=np.int8)
    else:
        rank = 2 * (size - 1) / max(n - 2, 1) * quadratic.sum(axis=1) + linear
        preferences = load("preference", run, steps=_STEPS * n * n).preferences
        least = 1e-12 * (2 * size * float(np.abs(quadratic).max()) + float(np.abs(linear).max()))
        table = preferences(np.ascontiguousarray(quadratic), linear, size, rank, least)
    pairs = np.argwhere(table).astype(np.int64)
    return Dominance.of(pairs, table[pairs[:, 0], pairs[:, 1]] == 2, n)
