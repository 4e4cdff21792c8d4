r"""Multipliers of the semidefinite relaxation by coordinate ascent on a low-rank factor.

See docs/mathematics/dispersion_relaxations.md, *Quadratic fixing*.

With :math:`z = 2s - 1` and :math:`z_0 = 1` the relaxation is :math:`\max \langle C, V V^\top \rangle` over unit rows of
V, of :math:`\lfloor \sqrt{2n} \rfloor + 2` columns, and :math:`1^\top s = m`. The best row beside all others is the
direction of :math:`g_i = \sum_{j \ne i} C_{ij} v_j`, and :math:`|g_i|` is its multiplier where no row moves any more
(the mixing method of Wang, Chang and Kolter, 2017). The slice is an augmented Lagrangian: a penalty of moderate weight,
and a price of :math:`1^\top s` that sweeps change by what is missing. With the penalty alone the rows settle where the
sum is off, and its multipliers fix little.

Products :math:`s_i s_j \ge 0` have multipliers S, which are added to Q. After each sweep a step moves them against the
products as they are, from 0 on: the multipliers of the doubly nonnegative relaxation for a sweep and one product of
matrices each, where an ADMM step (`solvers.dispersion.relaxations.doubly_nonnegative`) takes a PSD projection. Some
sweeps without such steps come last, so that the diagonal fits them.

Rows :math:`a^\top s \le b` have prices, of an augmented Lagrangian too: a block is moved at the prices that its start
makes, and a sweep changes them by what is used too much. Of two clients in conflict the product is 0, which has a
multiplier of any sign, changed by sweeps as well (`solvers.dispersion.relaxations.side_prices`).

`solvers.dispersion.relaxations.fixing` certifies what it is given. So the work is done in single precision, and rows
are moved in blocks, each as if the others of its block stood still.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.relaxations.side_prices import SidePrices

#: Rows of a block.
_BLOCK = 16

#: Penalty of a row, in units of the mean multiplier over the squared coefficients of a block: with a third the
#: sums of a partition's groups swing, with a thirtieth prices are late. Step of a conflict's multiplier, in units of
#: Q's entries. 2026-11-24, five rounds of 300 clients.
_ROW_PENALTY, _CONFLICT_STEP = 0.1, 1.0

#: Seed of the first rows: any will do, and the same one makes the same multipliers.
_SEED = 0

Reals = NDArray[np.float64]
Singles = NDArray[np.float32]


class LowRankRelaxation:
    """The relaxation of ``max sᵀQs + lᵀs, 1ᵀs = m`` in a low-rank factor; it can be stopped and continued at any time.

    Parameters
    ----------
    quadratic : (n, n) ndarray
        Q, symmetric.
    linear : (n,) ndarray
        l.
    size : int
        m.
    penalty : float
        Weight of the penalty, in units of the largest entry of the centred matrix.
    start : tuple of ndarray, optional
        Rows and multipliers of another relaxation's clients (`among`).
    sides : SidePrices, optional
        Side constraints over these clients, with the prices to begin with.

    Attributes
    ----------
    sides : SidePrices or None
        The same with the prices as they are.
    nonnegative : (n, n) ndarray of float32
        S, multipliers of the products: at first none.
    """

    def __init__(
        self,
        quadratic: Reals,
        linear: Reals,
        size: int,
        penalty: float = 0.1,
        start: tuple[Singles, Singles] | None = None,
        sides: SidePrices | None = None,
    ) -> None:
        n = linear.size
        self.n, self.size = n, size
        self.steepest = float(np.abs(quadratic).max())
        means = quadratic.mean(axis=1)
        u = means - means.mean() / 2
        centred = quadratic - u[:, None] - u
        weight = penalty * float(np.abs(centred).max())
        centred -= weight
        lifted = linear + 2 * size * u
        lifted += 2 * size * weight - lifted.mean()
        self._weight, self._offset = np.float32(weight / 4), quadratic.diagonal() - 2 * u - weight
        cost = np.empty((n + 1, n + 1), dtype=np.float32)
        cost[1:, 1:] = centred / 4
        cost[0, 1:] = cost[1:, 0] = (lifted + centred.sum(axis=1)) / 4
        index = np.arange(n + 1)
        cost[index, index] = 0.0
        self._plain, self._cost, self._index = cost, cost, index[:n]
        self._normal = np.ones(n + 1, dtype=np.float32)
        self._normal[0] = n - 2 * size
        self.sides: SidePrices | None = None
        if start is None:
            rows = np.random.default_rng(_SEED).normal(size=(n + 1, math.isqrt(2 * n) + 2)).astype(np.float32)
            self.rows = rows / np.linalg.norm(rows, axis=1)[:, None]
            self.nonnegative = np.zeros((0, 0), dtype=np.float32)
        else:
            self.rows, self.nonnegative = start
            if self.nonnegative.size:
                self._raise()
        self._price, self._swept = np.zeros(self.rows.shape[1], dtype=np.float32), False
        self.sides = sides
        if sides is not None:
            self._cost, self._uncharged = self._cost.copy(), self._cost
            self._level = sides.rows - sides.rows.mean(axis=1, keepdims=True)
            self._charge()

    def sweep(self, count: int = 1, expired: Callable[[], bool] = lambda: False) -> None:
        """Move every row so many times, or until the time is over."""
        rows, cost, normal = self.rows, self._cost, self._normal
        for _ in range(count):
            if self._swept:
                self._price += self._weight * (normal @ rows)
            self._swept = True
            pull = None if self.sides is None else _Pull(self.sides, self._level, self.diagonal(), rows)
            for start in range(0, self.n + 1, _BLOCK):
                stop = start + _BLOCK
                block = cost[start:stop] @ rows - normal[start:stop, None] * self._price
                if pull is not None:
                    block[int(start == 0) :] -= pull.of(start, stop)[:, None] * rows[0]
                norms = np.linalg.norm(block, axis=1)
                moves = norms > 0
                rows[start:stop][moves] = block[moves] / norms[moves, None]
                if pull is not None:
                    pull.moved(start, stop)
            if pull is not None:
                self.sides = pull.conclude(self.steepest)
                self._charge()
            if expired():
                break

    def raise_products(self, step: float) -> None:
        """Move the multipliers of the products against these, and no lower than 0; ``step`` in units of Q's entries."""
        signs = self.rows[1:] @ self.rows[0]
        products = self.rows[1:] @ self.rows[1:].T
        products += signs[:, None]
        products += signs + 1
        products *= np.float32(-step * self.steepest / 4)
        if self.nonnegative.size:
            products += self.nonnegative
        np.maximum(products, 0.0, out=products)
        products[self._index, self._index] = 0.0
        self.nonnegative = products
        self._raise()

    def _charge(self) -> None:
        """Take off the cost what rows and conflicts charge."""
        cost, plain, sides = self._cost, self._uncharged, self.sides
        assert sides is not None
        linear = plain[0, 1:] - (sides.prices @ self._level / 4).astype(np.float32)
        if len(sides.pairs):
            i, j = sides.pairs.T
            taken = (sides.apart / 4).astype(np.float32)
            cost[1 + i, 1 + j] = cost[1 + j, 1 + i] = plain[1 + i, 1 + j] - taken
            np.subtract.at(linear, sides.pairs.ravel(), np.repeat(taken, 2))
        cost[0, 1:] = cost[1:, 0] = linear

    def diagonal(self) -> Reals:
        """Return d that makes ``sᵀ(Q + S)s`` concave on the slice, but for a shift, small where rows stand still."""
        image = self._cost @ self.rows - np.outer(self._normal, self._price)
        multipliers = np.einsum("ij,ij->i", image, self.rows).astype(np.float64)
        return 4 * multipliers[1:] + self._offset

    def raised(self) -> Reals | None:
        """Return S, symmetric; None where it is 0."""
        if not self.nonnegative.size:
            return None
        whole = self.nonnegative.astype(np.float64)
        return (whole + whole.T) / 2

    def x(self) -> Reals:
        """Return the fractional solution."""
        return np.clip((1 + self.rows[1:] @ self.rows[0]) / 2, 0.0, 1.0).astype(np.float64)

    def products(self) -> Reals:
        """Return the relaxed products, with the fractional solution on the diagonal."""
        signs = self.rows[1:] @ self.rows[0]
        whole = (self.rows[1:] @ self.rows[1:].T + signs + signs[:, None] + 1).astype(np.float64) / 4
        whole[self._index, self._index] = self.x()
        return (whole + whole.T) / 2

    def among(self, kept: NDArray[np.int64]) -> tuple[Singles, Singles]:
        """Return rows and multipliers of some of the clients, given by their places."""
        rows, raised = self.rows[np.concatenate([[0], 1 + kept])], self.nonnegative
        return rows, np.ascontiguousarray(raised[np.ix_(kept, kept)]) if raised.size else raised

    def _raise(self) -> None:
        """Add S to the cost."""
        if self.sides is not None:
            charged, self._cost = self._cost, self._uncharged
        if self._cost is self._plain:
            self._cost = self._plain.copy()
        np.multiply(self.nonnegative, np.float32(0.25), out=self._cost[1:, 1:])
        self._cost[1:, 1:] += self._plain[1:, 1:]
        self._cost[0, 1:] = self._cost[1:, 0] = self._plain[0, 1:] + self.nonnegative.sum(axis=1) / np.float32(4)
        if self.sides is not None:
            self._cost, self._uncharged = charged, self._cost
            charged[:] = self._uncharged
            self._charge()


class _Pull:
    """Prices of rows as a sweep goes: what a block's rows are charged beside what the cost has.

    Parameters
    ----------
    sides : SidePrices
        Rows and prices at the start of the sweep.
    level : (k, n) ndarray
        The rows less their means, which change nothing on the slice.
    diagonal : (n,) ndarray
        Multipliers, whose mean is the unit of the penalty.
    rows : (n + 1, r) ndarray
        The factor, which is moved.
    """

    def __init__(self, sides: SidePrices, level: Reals, diagonal: Reals, rows: Singles) -> None:
        self.sides, self.level, self.rows = sides, level, rows
        square = np.maximum((sides.rows**2).mean(axis=1), 1e-6)
        self.weights = _ROW_PENALTY * float(np.abs(diagonal).mean()) / (_BLOCK * square)
        self.used = self._used()

    def _used(self) -> Reals:
        """What the fractional solution uses of each row."""
        return self.sides.rows @ ((1 + self.rows[1:] @ self.rows[0]) / 2)

    def _prices(self) -> Reals:
        sides = self.sides
        return np.maximum(sides.prices + self.weights * (self.used - sides.limits), 0.0)

    def of(self, start: int, stop: int) -> Singles:
        """Return what the clients among these rows are charged, in units of the cost."""
        clients = slice(max(start, 1) - 1, stop - 1)
        change = (self._prices() - self.sides.prices) @ self.level[:, clients] / 4
        self.before = self.rows[clients.start + 1 : stop] @ self.rows[0]
        return change.astype(np.float32)

    def moved(self, start: int, stop: int) -> None:
        """Take over where a block has gone."""
        clients = slice(max(start, 1) - 1, stop - 1)
        if start == 0:  # the first row is everybody's
            self.used = self._used()
        else:
            change = self.rows[start:stop] @ self.rows[0] - self.before
            self.used += self.sides.rows[:, clients] @ change / 2

    def conclude(self, steepest: float) -> SidePrices:
        """Return the constraints with the prices that the sweep leaves; ``steepest`` is the unit of conflicts."""
        self.used = self._used()
        i, j = self.sides.pairs.T
        signs = self.rows[1:] @ self.rows[0]
        among = np.einsum("ij,ij->i", self.rows[1 + i], self.rows[1 + j])
        products = (1 + signs[i] + signs[j] + among) / 4
        return self.sides.at(self._prices(), self.sides.apart + _CONFLICT_STEP * steepest * products)
