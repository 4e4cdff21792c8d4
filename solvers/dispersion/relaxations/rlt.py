r"""Level-1 RLT bound by Lagrange multipliers: what each client earns with its best partners.

With :math:`y_{ij} = s_i s_j` the objective is :math:`\sum_i (l_i s_i + \sum_{j \ne i} q_{ij} y_{ij})`, where
:math:`\sum_{j \ne i} y_{ij} = (m - 1) s_i` and :math:`y_{ij} = y_{ji}`. The last equations are relaxed with multipliers
:math:`\lambda_{ij} = -\lambda_{ji}`, and what is left splits by clients:

.. math:: v_i(\lambda) = l_i + \text{the } m - 1 \text{ largest of } q_{ij} + \lambda_{ij}, \quad j \ne i,
    \qquad \text{bound}(\lambda) = \text{the } m \text{ largest of } v_i(\lambda).

Every λ gives a bound. The least one is that of the linear program with these equations and :math:`0 \le y_{ij} \le s_i
\le 1`: the level-1 linearisation of Adams and Sherali (Management Science 32, 1986) without its rows :math:`y_{ij} \ge
s_i + s_j - 1`, with which it can be lower. Caprara, Pisinger and Toth (INFORMS J. Comput. 11, 1999) used multipliers
of this kind for the quadratic knapsack problem. The bound is strong where few of many are chosen.

==================== ==================================================
symbol               name
==================== ==================================================
q + λ                ``shares``: whole numbers, in units of ``1 / grid``
v                    ``values``
rows' choice of j    ``partners``
==================== ==================================================

**Soundness.** Distances and costs are rounded up onto a grid of whole numbers. A step takes from one share what it adds
to the opposite one, in integers, so that :math:`\lambda` is antisymmetric exactly, and all sums are exact: with
``most`` no share leaves a range in which m² of them fit into 62 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.run import Run

#: Gains, costs and prices of a raised objective are smaller than this: `RowRelaxation.most` leaves room for them.
LARGEST_GAIN = 2.0**9


@dataclass(frozen=True)
class Raised:
    """An objective over some clients that no selection of them is worth less in, and how its pairs are divided.

    Attributes
    ----------
    ids : (k,) ndarray of int
        The clients, sorted.
    quadratic, linear : (k, k) and (k,) ndarray
        The objective, in the units of `ScaledProblem`; the diagonal does not count.
    prices : (k,) ndarray
        Worth that a client has from a partner, about: a core client has exactly this from each that is not of the core.
    is_core : (k,) ndarray of bool
        Clients of the core.
    """

    ids: NDArray[np.int64]
    quadratic: NDArray[np.float64]
    linear: NDArray[np.float64]
    prices: NDArray[np.float64]
    is_core: NDArray[np.bool_]


class RowRelaxation:
    """Multipliers of the level-1 RLT bound over the clients that may still be chosen.

    Parameters
    ----------
    scaled : ScaledProblem
        The problem, of 1 < m < n.
    run : Run
        Whose clock stands still while the kernel is compiled.
    raised : Raised, optional
        An objective to bound instead; that of the problem by default.
    policy : Policy
        Tuning constants.

    Attributes
    ----------
    ids : (k,) ndarray of int
        Clients that a better selection than the incumbent can contain.
    iterations : int
        Steps made.
    """

    def __init__(
        self, scaled: ScaledProblem, run: Run, raised: Raised | None = None, policy: Policy = DEFAULT_POLICY
    ) -> None:
        self.policy = policy
        n, m = scaled.linear.size, scaled.size
        self.scaled, self.m, self.ids, self.raised = scaled, m, np.arange(n), raised
        # Gains are about 1 in these units, an entry at most 1: m² shares take 2⁴⁹ of 2⁶¹, steps may use up the rest.
        self.grid = math.ldexp(1.0, 49 - 2 * m.bit_length())
        self.most = 2**61 // m**2
        self.run, self.iterations, self.step = run, 0, policy.rlt_step
        if raised is not None:
            self.ids = raised.ids
        self.shares = self._divided()
        linear = scaled.linear if raised is None else raised.linear
        self.linear = np.ceil(linear * self.grid).astype(np.int64)
        self.state = np.full(3, np.iinfo(np.int64).max // 4)
        self.least: tuple[int, NDArray[np.int64]] | None = None
        self._appraise()

    def _divided(self) -> NDArray[np.int64]:
        """Divide the pairs' values, before any step."""
        raised = self.raised
        if raised is None:
            return np.ceil(self.scaled.quadratic * self.grid).astype(np.int64)
        k = raised.ids.size
        shares = np.empty((k, k), dtype=np.int64)
        kernel = load("rlt", self.run, steps=10 * k * k)
        kernel.divide(raised.quadratic, raised.prices, raised.is_core, self.grid, shares)
        return shares

    def _appraise(self) -> None:
        k = self.ids.size
        self.partners = np.empty((k, self.m - 1), dtype=np.int64)
        self.run.spend(10 * k * k)
        self.is_partner = np.empty((k, k), dtype=np.bool_)
        self.values = np.empty(k, dtype=np.int64)
        load("rlt", self.run, steps=50 * k * k).appraise(
            self.shares, self.linear, self.partners, self.is_partner, self.values
        )
        self.state[2] = 0

    @property
    def has_converged(self) -> bool:
        """Whether steps have become too short to lower the bound."""
        return self.step < self.policy.rlt_least_step

    def bound(self) -> float:
        """Return the least bound so far on selections among ``ids``, in the units of `ScaledProblem`."""
        return math.nextafter(int(self.state[0]) / self.grid, math.inf)

    def chosen(self) -> NDArray[np.int64]:
        """Return the m clients of largest value, in the problem's indices."""
        return np.sort(self.ids[np.argsort(-self.values, kind="stable")[: self.m]])

    def descend(self, target: float, iterations: int) -> int:
        """Take at most so many steps towards ``target``, the incumbent's value; return how many were taken.

        The run is looked at between slices of them.
        """
        patience = 20 + self.ids.size // (5 * self.m)
        chosen = np.empty(self.m, dtype=np.int64)
        # A step looks at some three rows for each of the m clients chosen, and at an entry five times.
        entries, made = 3 * self.m * self.ids.size, 0
        kernel = load("rlt", self.run, steps=5 * entries * iterations)
        while made < iterations and not (made and self.run.expired):
            few = min(max(1, self.policy.rlt_slice // entries), iterations - made)
            self.run.spend(entries * few)
            done, self.step = kernel.descend(
                self.shares,
                self.linear,
                self.partners,
                self.is_partner,
                self.values,
                chosen,
                math.floor(target * self.grid),
                self.most,
                self.step,
                patience,
                few,
                self.state,
            )
            made += int(done)
            if done < few:  # the clients chosen are each other's partners, or the target is reached
                self.step = 0.0
                break
        self.iterations += made
        return made

    def remember(self) -> None:
        """Keep the shares as they are, where they give the least bound of those looked at."""
        bound = int(np.sort(self.values)[-self.m :].sum())
        if self.least is None or bound < self.least[0]:
            self.least = bound, self.shares.copy()

    def restore(self) -> None:
        """Go back to the shares that were remembered, of the same clients."""
        assert self.least is not None
        self.shares, self.least = self.least[1], None
        self._appraise()

    def moves(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return pairs of clients and what steps moved to the first from the second, in units of `ScaledProblem`."""
        first = np.arange(self.scaled.linear.size) if self.raised is None else self.raised.ids
        places = np.searchsorted(first, self.ids)
        moved = np.triu(self.shares - self._divided()[np.ix_(places, places)], 1)
        i, j = np.nonzero(moved)
        return self.ids[i], self.ids[j], moved[i, j] / self.grid

    def leave_out(self, target: float) -> int:
        """Leave out clients that only selections of at most ``target`` contain; return how many.

        A selection with client i is worth at most v_i and the m − 1 largest other values.
        """
        threshold = math.floor(target * self.grid)
        order = np.sort(self.values)[::-1]
        others = int(order[: self.m - 1].sum())
        # The m clients of largest value stay: with them the sum is the bound itself.
        kept = (others + self.values > threshold) | (self.values >= order[self.m - 1])
        if kept.all():
            return 0
        self.ids, self.linear = self.ids[kept], np.ascontiguousarray(self.linear[kept])
        self.shares = np.ascontiguousarray(self.shares[np.ix_(kept, kept)])
        self._appraise()
        return int((~kept).sum())
