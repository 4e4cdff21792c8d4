r"""Doubly nonnegative relaxation on the slice, by ADMM on its dual.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength*, which has the table of symbols and names.

With the linear term on the diagonal of C,

.. math:: \max \; \langle C, X \rangle \quad \text{s.t.} \quad \mathrm{tr}\, X = m,\; X 1 = m \, \mathrm{diag}(X),\;
    X \succeq 0,\; X \ge 0,\; \langle T_r, X \rangle \le c_r,

the last being the cuts of `solvers.dispersion.relaxations.cuts`. For any numbers d, any :math:`S \ge 0` and
:math:`t \ge 0`, every selection s satisfies

.. math:: s^\top C s \le c^\top t + s^\top (C + S - T^\top t - B(d)) s, \qquad
    B(d) = \mathrm{Diag}(d) - (d 1^\top + 1 d^\top) / 2m,

because :math:`s^\top B(d) s = 0` on the slice; so, with τ no less than the largest eigenvalue of that matrix,
:math:`c^\top t + m τ` is a bound (:math:`s^\top s = m`, whatever the sign of τ). A Cholesky factorisation certifies τ
in floating point. The multipliers need not be optimal: a method that is stopped gives a weaker bound.

Where only selections count that contain i wherever they contain j, :math:`X_{ij} = X_{jj}` is imposed. The multipliers
of that are entries of S as well: of any sign, on the pair and on the diagonal, with :math:`S_{jj} + \sum_i (S_{ij} +
S_{ji}) = 0` over the i above j, so that :math:`s^\top S s \ge 0` holds for such selections as before.

The method is the alternating direction method of multipliers on the dual of Wen, Goldfarb and Yin (Alternating
direction augmented Lagrangian methods for semidefinite programming, Math. Prog. Comp. 2, 2010), with one
PSD projection per iteration; d costs O(n), since the Gram matrix of the equalities is a multiple of the identity plus
one of rank two, and the cuts are a fourth block of coordinate descent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import Order
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.relaxations.cuts import (
    CutMultipliers,
    Cuts,
    gap_inequalities,
    near_inequalities,
    triangle_inequalities,
)
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.psd_projection import PsdProjection
from solvers.dispersion.relaxations.slice_form import SliceForm, certified_excess, certified_level, tangent_margin

_EPS = float(np.finfo(np.float64).eps)

#: Step length of the multiplier X, the golden ratio of Glowinski.
_STEP_LENGTH = 1.618

#: Cost of a partner that a client cannot have: more than all that it could gain.
_FORBIDDEN_COST = 1e3

#: A fractional value as near as this to the one that a client is fixed to changes nothing.
_FIXED_TOLERANCE = 1e-3


@dataclass(frozen=True)
class WarmStart:
    """Warm-start data that a parent relaxation passes to its children, in half the memory.

    Attributes
    ----------
    ids : (n,) ndarray of int
        Clients of its rows.
    products, slack : (n, n) ndarray of float32
        X and the matrix whose smallest eigenvalue counts, τ included.
    level, diagonal : float and (n,) ndarray
        τ and d.
    cuts, weights : Cuts and (k,) ndarray
        The cuts at work and their multipliers t.
    penalty : float
        Of the augmented Lagrangian.
    forbidden : (n, n) ndarray of bool
        Pairs that no better selection contains.
    """

    ids: NDArray[np.int64]
    products: NDArray[np.float32]
    slack: NDArray[np.float32]
    level: float
    diagonal: NDArray[np.float64]
    cuts: Cuts
    weights: NDArray[np.float64]
    penalty: float
    forbidden: NDArray[np.bool_]


class DNNRelaxation:
    """The relaxation of ``max sᵀQs + lᵀs, 1ᵀs = m``, 2 ≤ m < n; it can be stopped and continued at any time.

    Parameters
    ----------
    quadratic : (n, n) ndarray
        Q, symmetric.
    linear : (n,) ndarray
        l.
    size : int
        m.
    forbidden : (n, n) ndarray of bool, optional
        Pairs that are never chosen together: :math:`X_{ij} = 0` is imposed, S is free there.
    policy : Policy
        Tuning constants.
    order : Dominance, optional
        Bound only selections that contain the first client of each pair wherever they contain the second. `forbid` and
        `bounds_with` read S as no less than 0, and are for relaxations without an order.

    Attributes
    ----------
    iterations : int
        Made so far.
    x, products
        The fractional solution (the diagonal) and products; only approximately feasible.
    """

    def __init__(
        self,
        quadratic: NDArray[np.float64],
        linear: NDArray[np.float64],
        size: int,
        forbidden: NDArray[np.bool_] | None = None,
        policy: Policy = DEFAULT_POLICY,
        order: Dominance | None = None,
    ) -> None:
        n, self.policy = linear.size, policy
        self.order = Order.empty(n) if order is None else order.lists
        self._lower = np.repeat(np.arange(n), np.diff(self.order.above_start))  # of each entry of the list above
        self.n, self.size = n, size
        self.index = np.arange(n)
        self.cost = quadratic.copy()
        self.cost[self.index, self.index] += linear
        self.quadratic, self.linear = quadratic, linear
        self.products = np.full((n, n), size * (size - 1) / (n * (n - 1)))
        self.products[self.index, self.index] = size / n
        self.nonnegative = np.zeros((n, n))
        self.slack = np.zeros((n, n))
        self.level, self.diagonal = 0.0, np.zeros(n)
        self.penalty = 2.0 / size
        self.forbidden = np.zeros((n, n), dtype=bool) if forbidden is None else forbidden
        self.iterations = 0
        self._psd_projection = PsdProjection(policy)
        self.cuts = CutMultipliers(Cuts.none(n), np.zeros(0))

    @property
    def x(self) -> NDArray[np.float64]:
        """The fractional solution, as it is: it may leave [0, 1] a little."""
        return self.products.diagonal()

    # -- warm start ----------------------------------------------------------------------------------------------

    def warm(self, ids: NDArray[np.int64]) -> WarmStart:
        """Return warm-start data for relaxations over fewer clients; ``ids`` are the clients of this one's rows."""
        return WarmStart(
            ids,
            self.products.astype(np.float32),
            (self._without_cuts() + self.cuts.sum - self.nonnegative).astype(np.float32),
            self.level,
            self.diagonal,
            self.cuts.cuts,
            self.cuts.weights,
            self.penalty,
            self.forbidden,
        )

    def start(self, warm: WarmStart, ids: NDArray[np.int64], ones: NDArray[np.int64]) -> None:
        r"""Start from a relaxation over more clients; ``ids`` are this one's, ``ones`` chosen in it.

        Its bound holds here, and so do its multipliers: with F chosen, f of them, and m' = m − f left, a selection s of
        that problem is L s' for the rest s' of it, L = (I; 1_F 1ᵀ / m'), and Lᵀ M L is positive semidefinite where M
        is. It is the slack of d' = d m'/m − 2 M 1_F − 1_FᵀM 1_F / m' and τ' = τ − 1_Fᵀd / m + 1_FᵀM 1_F / m' here, less
        what the products with F are held non-negative by. X is conditioned on what was fixed, as if s were normal.
        """
        kept = np.searchsorted(warm.ids, ids)
        fixed = np.searchsorted(warm.ids, np.intersect1d(warm.ids, ones))
        block = np.ix_(kept, kept)
        cuts, stays = warm.cuts.within(kept, fixed)
        self.cuts = CutMultipliers(cuts, warm.weights[stays])
        before, left = self.size + fixed.size, self.size
        half = warm.diagonal[kept] / (2 * before)
        raised = self.cuts.sum - (half[:, None] + half) - self.quadratic - warm.slack[block]
        self._hold(np.where(self.forbidden, raised, np.maximum(raised, 0.0)), raised)
        rows = warm.slack[fixed].sum(axis=0, dtype=np.float64)
        among = float(rows[fixed].sum()) / left
        self.diagonal = warm.diagonal[kept] * (left / before) - 2 * rows[kept] - among
        self.level = warm.level - float(warm.diagonal[fixed].sum()) / before + among
        self.penalty = warm.penalty
        self.products = condition_products(warm.products.astype(np.float64), kept, fixed)
        self.slack = self._without_cuts() + self.cuts.sum - self.nonnegative

    def begin(self, slack: NDArray[np.float64], products: NDArray[np.float64], level: float, penalty: float) -> None:
        """Start from a slack matrix and products: d is what gives the slack its diagonal, S what its entries lack."""
        self.slack, self.products, self.level, self.penalty = slack, products, level, penalty
        self.diagonal = (slack.diagonal() + self.cost.diagonal() - level) * (self.size / (self.size - 1))
        raised = self._without_cuts() - slack
        self._hold(np.maximum(raised, 0.0), raised)

    def resume(
        self, diagonal: NDArray[np.float64], raised: NDArray[np.float64], products: NDArray[np.float64], value: float
    ) -> None:
        r"""Start from multipliers D of the diagonal and S of the products, of a bound ``value`` in this relaxation.

        With b the bound, :math:`f(s) = s^\top (Q + S - \mathrm{Diag}(D)) s + (l + D)^\top s \le b` on the slice is
        :math:`s^\top M s \ge 0` there, :math:`M = \mathrm{Diag}(D) - Q - S - ((l + D) 1^\top + 1 (l + D)^\top) / 2m +
        b \, 1 1^\top / m^2`, which is the slack of τ = b/m and d = l + D - τ here.
        """
        self.level = value / self.size
        self.diagonal = self.linear + diagonal - self.level
        self.products = products.copy()
        self._hold(raised.copy(), raised)
        self.slack = self.dual_slack()

    def _hold(self, nonnegative: NDArray[np.float64], raised: NDArray[np.float64]) -> None:
        """Take over S, and ``raised`` where there is an order; the diagonal makes up for the sums."""
        upper, lower = self.order.above, self._lower
        nonnegative[upper, lower], nonnegative[lower, upper] = raised[upper, lower], raised[lower, upper]
        nonnegative[self.index, self.index] = -self._sums(nonnegative)[0]
        self.nonnegative = nonnegative

    def _sums(self, matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each client the sum of a matrix over its pairs with those above it, and that of absolute values."""
        pairs = np.stack([matrix[self.order.above, self._lower], matrix[self._lower, self.order.above]])
        found = np.zeros((2, self.n))
        np.add.at(found[0], self._lower, pairs.sum(axis=0))
        np.add.at(found[1], self._lower, np.abs(pairs).sum(axis=0))
        return found[0], found[1]

    @property
    def _lack(self) -> float:
        """By how much the sums of S are off, at most, together: added to a bound on a selection's value."""
        if not self.order.above.size:
            return 0.0
        (sums, most), own = self._sums(self.nonnegative), self.nonnegative.diagonal()
        return float((np.abs(sums + own) + (2 * self.n + 8) * _EPS * (most + np.abs(own))).sum())

    # -- the method ----------------------------------------------------------------------------------------------

    def iterate(self, count: int, expired: Callable[[], bool] = lambda: False) -> None:
        """Make ``count`` ADMM steps, fewer when time has expired.

        A step minimises the augmented Lagrangian of the dual over one block of multipliers after the other: (τ, d), the
        cuts' t, the positive semidefinite slack Z, and S. With M = τI + B(d) − C and penalty σ:

            (τ, d)  from the normal equations (`_solve_normal_equations`);
            t       coordinate descent on ‖M − σX + Tᵀt − S − Z‖² (`CutMultipliers.move`);
            Z       PSD projection of M − σX + Tᵀt − S;
            S       positive part of M − σX + Tᵀt − Z, off the diagonal;
            X       X − (step/σ) (σX + (M − σX + Tᵀt) − S − Z).

        That is the method of Wen, Goldfarb and Yin for X ≥ 0, their long last step included, with t as one block more.
        """
        m = self.size
        kernel = load("admm")
        cost_trace, cost_rows = self._equalities(self.cost.diagonal(), self.cost.sum(axis=1))
        norm = 1 + float(np.linalg.norm(self.cost))
        trace, rows = self._equalities(self.x, self.products.sum(axis=1))
        both = (self.nonnegative + self.slack - self.cuts.sum).sum(axis=1)
        free = bool(self.forbidden.any())
        primal = dual = 0.0
        for made in range(1, count + 1):
            own = self.nonnegative.diagonal() + self.slack.diagonal() - self.cuts.sum.diagonal()
            both_trace, both_rows = self._equalities(own, both)
            right_trace = cost_trace + both_trace + self.penalty * (trace - m)
            self._solve_normal_equations(right_trace, cost_rows + both_rows + self.penalty * rows)
            others = self.nonnegative + self.slack if len(self.cuts) else self.nonnegative
            multipliers = (self.diagonal / (2 * m), self.level + self.diagonal)
            shifted, target = np.empty_like(self.cost), np.empty_like(self.cost)
            kernel.admm_target(self.cost, self.products, others, *multipliers, self.penalty, shifted, target)
            if len(self.cuts):
                self.cuts.move(target, self.penalty, self.policy.cut_sweeps)
                shifted += self.cuts.sum
                target = shifted - self.nonnegative
            self.slack = self._psd_projection(target, exact=made == count)
            parts = (self.cuts.sum, self.nonnegative, self.products)
            square, sums, both = kernel.admm_update(
                shifted, self.slack, self.forbidden, free, self.order, self.penalty, _STEP_LENGTH, *parts
            )
            trace, rows = self._equalities(self.x, sums)
            primal += float(np.sqrt((trace - m) ** 2 + rows @ rows)) / (1 + m)
            dual += float(np.sqrt(square)) / norm
            self.iterations += 1
            if made % self.policy.penalty_window == 0:
                self._balance(primal, dual)
                primal = dual = 0.0
            if expired():
                break

    def _equalities(
        self, diagonal: NDArray[np.float64], sums: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return A(M) = (tr M, diag(M) − M1/m) of a symmetric M with this diagonal and these row sums."""
        return float(diagonal.sum()), diagonal - sums / self.size

    def _solve_normal_equations(self, trace: float, rows: NDArray[np.float64]) -> None:
        """Set τ and d to the solution of A A*(τ, d) = (trace, rows), in O(n).

        The adjoint of A is A*(τ, d) = τI + B(d). With c = 1 − 1/m, α = 1 − 2/m + n/2m² and β = 1/2m²,

            A(I) = (n, c 1)   and   A(B(d)) = (c 1ᵀd, α d + β 1 1ᵀd),

        so nτ + c 1ᵀd = trace and cτ 1 + α d + β 1 1ᵀd = rows. Summing the latter, 1ᵀd = (1ᵀrows − ncτ) / (α + nβ), and
        the former gives τ. It is the update of y in Section 2.1 of Wen, Goldfarb and Yin.
        """
        n, m = self.n, self.size
        alpha, beta, c = 1 - 2 / m + n / (2 * m * m), 1 / (2 * m * m), 1 - 1 / m
        alpha_n_beta = alpha + n * beta
        total = float(rows.sum())
        self.level = (trace - c * total / alpha_n_beta) / (n - n * c * c / alpha_n_beta)
        sum_of_diagonal = (total - n * c * self.level) / alpha_n_beta
        self.diagonal = (rows - c * self.level - beta * sum_of_diagonal) / alpha

    def _balance(self, primal: float, dual: float) -> None:
        """Change the penalty σ towards the ratio of the residuals at which the bound is best."""
        if primal > 0 and dual > 0:
            factor = min(max(np.sqrt(primal / (self.policy.residual_ratio * dual)), 0.625), 1.6)
            self.penalty = min(
                max(self.penalty * factor, self.policy.least_penalty / self.size), self.policy.most_penalty / self.size
            )

    def _without_cuts(self) -> NDArray[np.float64]:
        """``τI + B(d) − C``."""
        half = self.diagonal / (2 * self.size)
        matrix = -(half[:, None] + half)
        matrix -= self.cost
        matrix[self.index, self.index] += self.level + self.diagonal
        return matrix

    def dual_slack(self) -> NDArray[np.float64]:
        """``τI + B(d) − C − S``, without cuts: sᵀMs is m τ − sᵀ(C + S)s on selections of m, whatever d and S are."""
        return self._without_cuts() - self.nonnegative

    # -- cuts ----------------------------------------------------------------------------------------------------

    def separate(self, most: int, *, groups: bool = False) -> int:
        """Add up to ``most`` cuts that the products violate, drop those not at work; return how many are new.

        With ``groups`` a quarter as many come beside them, of clients near each other.
        """
        working = self.cuts.weights > 0
        cuts, fresh = self.cuts.cuts.chosen(working).joined(
            triangle_inequalities(self.products, most, near=self.policy.triangle_clients)
        )
        if groups:
            cuts, more = cuts.joined(near_inequalities(self.products, self.quadratic, most // 4))
            fresh += more
        if fresh < most // 4:
            wide = gap_inequalities(self.products, most // 4, np.random.default_rng(self.iterations))
            cuts, more = cuts.joined(wide)
            fresh += more
        self.cuts = CutMultipliers(cuts, np.concatenate([self.cuts.weights[working], np.zeros(fresh)]))
        return fresh

    # -- what is certain -----------------------------------------------------------------------------------------

    def estimate(self) -> float:
        """The dual value if the slack were feasible; no bound, but where the bound is going."""
        return self.size * self.level + self.cuts.constant

    def bound(self) -> float:
        """A certified bound on every selection without forbidden pairs, from the multipliers as they are."""
        matrix, largest = self._certificate()
        return self._value(certified_level(matrix, largest))

    def _value(self, level: float) -> float:
        """The limits times the weights plus m τ, rounded up."""
        value = self.cuts.constant + self.size * level + self._lack
        return value + (len(self.cuts) + 4) * _EPS * (self.cuts.constant + self.size * abs(level))

    def _certificate(self) -> tuple[NDArray[np.float64], float]:
        """``B(d) − C + Tᵀt − S`` as floating point gives it, and the largest sum of terms behind an entry.

        The multipliers are exactly the floating-point numbers u = d/2m, S and t; an entry takes at most six additions
        besides the cuts', whose number is taken into account by counting their terms once for each.
        """
        half = self.diagonal / (2 * self.size)
        matrix = -(half[:, None] + half)
        matrix -= self.cost
        matrix -= self.nonnegative
        matrix[self.index, self.index] += 2 * self.size * half
        largest = (2 + 2 * self.size) * float(np.abs(half).max()) + float(np.abs(self.cost).max())
        largest += float(np.abs(self.nonnegative).max())
        if len(self.cuts):
            matrix += self.cuts.sum
            largest += self.cuts.rounding
        return matrix, 2 * largest

    def forbid(self, gap: float) -> None:
        """Mark the pairs that no selection within ``gap`` of the bound contains: together they cost 2 S_ij of it."""
        assert not self.order.above.size
        self.forbidden = self.forbidden | (2 * self.nonnegative > gap * (1 + 1e-9))

    # -- for a tree ----------------------------------------------------------------------------------------------

    def form(self) -> SliceForm:
        """The multipliers as a function concave on the slice, for first-order bounds."""
        curved = self.quadratic + self.nonnegative - self.cuts.sum
        curved += self.cuts.constant / self.size**2  # times 1 1ᵀ, which is m² on the slice
        diagonal = self.level + self.diagonal - self.linear  # Diag(diagonal) - curved is the slack where 1ᵀz = 0
        diagonal += certified_excess(curved, diagonal)
        exact, linear = self.quadratic.copy(), self.linear + diagonal
        curved[self.index, self.index] -= diagonal
        exact[self.index, self.index] -= diagonal
        margin = tangent_margin(curved, linear, self.size) + self.size**2 * _EPS * self.cuts.rounding + self._lack
        return SliceForm(curved, exact, linear, self.size, margin)

    def bounds_with(self, gap: float) -> NDArray[np.float64]:
        r"""For each client a certified bound on the selections that contain it and no forbidden pair.

        With the slack :math:`M = τI + B(d) - C + T^\top t - S` a selection s is worth
        :math:`c^\top t + m τ - s^\top M s - s^\top S s` at most. With client i in it, s = e_i + y, that is

        .. math:: c^\top t + m τ - M_{ii} - 2 (M_i + S_i) y - y^\top M y

        at most, and the tangent of a concave function at any y bounds it: its m - 1 largest entries.

        Parameters
        ----------
        gap : float
            Difference of bound and incumbent: bounds need not be much more exact than that.
        """
        assert not self.order.above.size
        m, index = self.size, self.index
        slack, largest = self._certificate()
        level = certified_level(slack, largest)
        slack[index, index] += level
        slack = (slack + slack.T) / 2
        is_partner = ~self.forbidden
        is_partner[index, index] = False
        y = np.where(is_partner, np.clip(self.x, 0.0, 1.0), 0.0)
        for _ in range(20):  # onto the slice of m - 1, nearly; what is cut off at 1 goes to the rest
            below = np.where(y < 1, y, 0.0)
            y += below * ((m - 1 - y.sum(axis=1)) / np.maximum(below.sum(axis=1), _FIXED_TOLERANCE))[:, None]
            np.clip(y, 0.0, 1.0, out=y)
        linear = np.where(is_partner, -2 * (slack + self.nonnegative), -_FORBIDDEN_COST * (1 + largest))
        gradients = linear - 2 * (y @ slack)
        load("ascent").climb(
            slack,
            -1.0,
            0.0,
            y,
            gradients,
            self.policy.weight_swaps,
            self.policy.client_bound_accuracy * max(gap, 0.0) / m,
            0.0,
        )
        image = y @ slack
        gradient = np.partition(linear - 2 * image, self.n - m + 1, axis=1)[:, self.n - m + 1 :]
        values = gradient.sum(axis=1) + np.einsum("ij,ij->i", image, y) - slack.diagonal()
        # An entry of M is as it was formed; the rest are sums of n products with y, and of m of those.
        reach = m + float(y.sum(axis=1).max())
        margin = 8 * self.n * _EPS * reach**2 * (largest + abs(level) + float(np.abs(self.nonnegative).max()))
        return np.minimum(self._value(level), self._value(level) + values + margin)


def condition_products(
    products: NDArray[np.float64], kept: NDArray[np.int64], chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Condition the products of ``kept`` on the others, of which ``chosen`` are chosen, as if s were normal.

    One fixed client after the other: mean and covariance given its value (the Schur complement of its variance).
    """
    mean = products.diagonal().copy()
    covariance = products - np.outer(mean, mean)
    value = np.zeros(mean.size)
    value[chosen] = 1.0
    for client in np.setdiff1d(np.arange(mean.size), kept):
        if abs(value[client] - mean[client]) < _FIXED_TOLERANCE:
            continue
        # An unfinished X need not be positive semidefinite; without what that implies errors would multiply.
        own = max(float(covariance[client, client]), 0.0)
        largest = np.sqrt(np.maximum(covariance.diagonal(), 0.0) * own)
        row = np.clip(covariance[client], -largest, largest)
        share = row / (own + _FIXED_TOLERANCE)
        mean = np.clip(mean + share * (value[client] - mean[client]), 0.0, 1.0)
        covariance -= np.outer(share, row)
    mean = mean[kept]
    return covariance[np.ix_(kept, kept)] + np.outer(mean, mean)
