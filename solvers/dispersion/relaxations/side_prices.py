r"""Side constraints of quadratic fixing: rows with prices, and conflicts with multipliers of their products.

See docs/mathematics/constraints.md, *Fixing by curvature*. A row :math:`a^\top s \le b` with a price
:math:`\lambda \ge 0` adds :math:`\lambda (b - a^\top s) \ge 0`, which is linear: the form is as concave as before, and
bounds every selection that keeps the row. Of two clients in conflict the product is 0, so that any multiple of it may
be taken off. `solvers.dispersion.relaxations.low_rank` finds good prices and multiples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from solvers.constraints import Constraints

_EPS = float(np.finfo(np.float64).eps)

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class SidePrices:
    """Side constraints over some clients: rows ``a s <= b`` with coefficients up to 1, pairs in conflict, and prices.

    Attributes
    ----------
    rows, limits : (k, n) and (k,) ndarray
        Rows, a power of two times those stated, and limits, raised by what rounding can hide.
    pairs : (p, 2) ndarray of int
        Clients in conflict, the lower place first, each pair once.
    prices : (k,) ndarray
        Prices of the rows, not negative.
    apart : (p,) ndarray
        What is taken off the two entries of Q of each pair.
    """

    rows: Reals
    limits: Reals
    pairs: NDArray[np.int64]
    prices: Reals = field(default_factory=lambda: np.zeros(0))
    apart: Reals = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, constraints: Constraints) -> SidePrices:
        """Collect the sides of rows that some selection of the size misses, and the pairs in conflict; prices are 0."""
        n, m = constraints.n, constraints.size
        rows, limits, pairs = list[Reals](), list[float](), [np.zeros((0, 2), dtype=np.int64)]
        for row in constraints.rows:
            if row.kind == "conflict":
                i, j = np.triu_indices(row.places.size, 1)
                pairs.append(np.column_stack([row.places[i], row.places[j]]))
                continue
            dense = row.dense(n)
            unit = float(np.ldexp(1.0, -np.frexp(dense.max(initial=0.0) or 1.0)[1]))
            for sign, limit in ((1.0, row.high), (-1.0, -row.low)):
                if np.isfinite(limit) and float(np.sort(sign * dense)[-m:].sum()) > limit:
                    rows.append(sign * unit * dense)
                    limits.append(unit * limit)
        bound = np.array(limits)
        bound = bound + 8 * (n + 8) * _EPS * (m + np.abs(bound))
        every = np.unique(np.concatenate(pairs), axis=0)
        return cls(np.array(rows).reshape(len(rows), n), bound, every).at(np.zeros(len(rows)), np.zeros(len(every)))

    def at(self, prices: Reals, apart: Reals) -> SidePrices:
        """Return the same at other prices; those that are not finite are 0."""
        kept = (np.where(np.isfinite(each), each, 0.0) for each in (prices, apart))
        return replace(self, prices=next(kept), apart=next(kept))

    def among(self, ids: NDArray[np.int64], ones: NDArray[np.int64]) -> SidePrices:
        """Return what clients that are chosen leave to those at ``ids``, whose places are rising."""
        place = np.full(self.rows.shape[1], -1)
        place[ids] = np.arange(ids.size)
        pairs = place[self.pairs]
        kept = (pairs >= 0).all(axis=1)
        left = self.limits - self.rows[:, ones].sum(axis=1)
        return SidePrices(np.ascontiguousarray(self.rows[:, ids]), left, pairs[kept], self.prices, self.apart[kept])

    def taking(self, few: SidePrices, ids: NDArray[np.int64]) -> SidePrices:
        """Return these with the prices of those `among` some clients."""
        place = np.full(self.rows.shape[1], -1)
        place[ids] = np.arange(ids.size)
        kept = (place[self.pairs] >= 0).all(axis=1)
        apart = self.apart.copy()
        apart[kept] = few.apart
        return self.at(few.prices, apart)

    def charged(self, quadratic: Reals, linear: Reals, constant: float) -> tuple[Reals, Reals, float]:
        """Return Q, l and a constant with what rows and conflicts add at these prices."""
        if len(self.pairs):
            i, j = self.pairs.T
            quadratic = quadratic.copy()
            quadratic[i, j] -= self.apart
            quadratic[j, i] -= self.apart
        return quadratic, linear - self.prices @ self.rows, constant + float(self.prices @ self.limits)

    def margin(self, size: int) -> float:
        """Bound the rounding of what prices add to the value of a selection that keeps the rows."""
        whole = float(self.prices @ np.abs(self.limits)) + size * float(self.prices.sum())
        return 8 * (self.prices.size + size + 8) * _EPS * whole

    def excluded(self, ids: NDArray[np.int64], ones: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which of the clients at ``ids`` fit no selection beside those chosen: by a conflict, or a row alone."""
        out = np.zeros(self.rows.shape[1], dtype=bool)
        for here, there in ((0, 1), (1, 0)):
            out[self.pairs[np.isin(self.pairs[:, here], ones), there]] = True
        upper = self.rows.min(axis=1, initial=0.0) >= 0
        left = self.limits[upper] - self.rows[np.ix_(upper, ones)].sum(axis=1)
        return out[ids] | (self.rows[np.ix_(upper, ids)] > left[:, None]).any(axis=0)
