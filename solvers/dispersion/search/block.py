"""A sub-problem of the first-order tree with multipliers of its own, and the products held non-negative in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.semidefinite import Multipliers
from solvers.dispersion.relaxations.slice_form import SliceForm
from solvers.dispersion.search.nodes import Form, Order

__all__ = ["Block", "inherited", "on_slice", "violated"]


@dataclass
class Block:
    """``ids`` are free, ``ones`` fixed and worth ``constant``; ``number`` is its form's in the journal, if any.

    ``pairs`` are for the next relaxation, ``held`` says whether the last one held any.
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
    held: bool = False

    @property
    def final(self) -> bool:
        """Whether these multipliers are as good as they become: its pairs are held non-negative, or there are none."""
        return self.relaxed and (self.held or not len(self.pairs))

    def parts(self) -> tuple[Form, Order]:
        """What a tree works on."""
        form, order, means = self.form, self.order, self.form.curved.mean(axis=0)
        importance = np.maximum(2 * means - means.mean() - form.curved.diagonal(), 1e-12)
        return (
            Form(form.curved, form.exact, form.linear, form.size, form.margin, importance),
            Order(order.above_start, order.above, order.below_start, order.below),
        )


def on_slice(x: NDArray[np.float64], size: int, grain: float = 0.0) -> NDArray[np.float64]:
    """A point of the slice near ``x``; its shares are multiples of ``grain`` where that is given."""
    x = np.clip(x, 0.0, 1.0)
    total = float(x.sum())
    x = x * (size / total) if total > size else x + (1 - x) * ((size - total) / (x.size - total))
    if not grain:
        return x
    units = np.floor(x / grain)
    missing = round(size / grain - float(units.sum()))
    units[np.argsort(units - x / grain, kind="stable")[:missing]] += 1
    return units * grain


def inherited(parent: Block | None, ids: NDArray[np.int64], n: int, cuts: float) -> NDArray[np.int64]:
    """The parent's pairs (in the problem's indices, of n) that are still free, in this block's; ``cuts`` a client."""
    if parent is None or len(parent.pairs) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    place = np.full(n, -1, dtype=np.int64)
    place[ids] = np.arange(ids.size)
    pairs = place[parent.ids[parent.pairs]]
    return pairs[(pairs >= 0).all(axis=1)][: int(cuts * ids.size)]


def violated(found: Multipliers, pairs: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The pairs for the next relaxations: those at work now, then those most violated."""
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
