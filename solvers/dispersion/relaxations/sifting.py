r"""Doubly nonnegative bound over many clients, from the relaxation over a core of them.

Where few of many are chosen, few clients have a share in the solution of the doubly nonnegative relaxation
(`solvers.dispersion.relaxations.doubly_nonnegative`): it is solved over a core K of some hundred, and its multipliers
are extended to all. For any positive semidefinite M,

.. math:: f(s) \le f(s) + s^\top M s = \sum_i (l_i + M_{ii}) s_i + \sum_{i \ne j} (q_{ij} + M_{ij}) s_i s_j,

and the level-1 RLT bound of that objective (`solvers.dispersion.relaxations.rlt`) is a bound on f, with reduced costs
that hold. With the slack :math:`M_K` of the core's relaxation, of bound :math:`m τ`, the pairs in K divide so that each
row is worth τ: a client of the core earns a price :math:`u_i = (τ - l_i - M_{ii}) / (m - 1)` at most with each other.
The others are represented in the core by weights :math:`y_j \ge 0`:

.. math:: M = E M_K E^\top, \quad E = \begin{pmatrix} I \\ -Y \end{pmatrix}, \qquad
    v_j = l_j + \max_y \sum_{i \in K} (2 q_{ij} - u_i) y_i - y^\top M_K y \quad (0 \le y \le 1, 1^\top y = m - 1),

the y of that maximum being the best weights (a saddle point: :math:`M_{jj} = y^\top M_K y`, :math:`M_{jK} = -M_K y`).
That is the relaxation's value of client j among those of the core: with :math:`v_j \le τ` it need not be in the core.
Pairs outside the core are divided by RLT steps, and clients whose rows are worth more than τ join the core.

**Soundness.** :math:`M_K` is certified by a Cholesky factorisation; what rounding may have changed about M is added to
the linear term. Any E gives a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation
from solvers.dispersion.relaxations.rlt import LARGEST_GAIN, Raised, RowRelaxation
from solvers.dispersion.relaxations.slice_form import certified_level
from solvers.dispersion.relaxations.stopping import StoppingRule

Reals = NDArray[np.float64]
Clients = NDArray[np.int64]

_EPS = float(np.finfo(np.float64).eps)

#: Multipliers are of the size of the objective, here some units. Eigenvalues of matrices beyond 1e150 overflow.
_LARGEST_MULTIPLIER = 1e9


@dataclass(frozen=True)
class CoreMultipliers:
    """Multipliers of the relaxation over a core, from which that of the same distances and other costs starts.

    Any numbers of moderate size will do: what is certified is what the ADMM steps after them end with.

    Attributes
    ----------
    core : (b,) ndarray of int
        The core, sorted.
    linear : (b,) ndarray
        Its linear term, the diagonal of the relaxation's objective.
    slack, products : (b, b) ndarray
        :math:`M_K` and X.
    level, penalty : float
        τ, and the penalty of the augmented Lagrangian.
    """

    core: Clients
    linear: Reals
    slack: Reals
    products: Reals
    level: float
    penalty: float

    @property
    def is_usable(self) -> bool:
        """Whether a relaxation can start here: every number is finite and at most 1e9, and the penalty is positive."""
        numbers = (self.linear, self.slack, self.products, self.level, self.penalty)
        return self.penalty > 0 and all(bool(np.all(np.abs(each) <= _LARGEST_MULTIPLIER)) for each in numbers)

    def among(self, kept: NDArray[Any], unit: float = 1.0, dtype: type = np.float64) -> CoreMultipliers:
        """Return those of some of the clients, by their places in the core, multiplied by a unit."""
        block = np.ix_(kept, kept)
        return CoreMultipliers(
            self.core[kept],
            self.linear[kept] * unit,
            (self.slack[block] * unit).astype(dtype),
            self.products[block].astype(dtype),
            self.level * unit,
            self.penalty * unit,
        )

    def start(self, relaxation: DNNRelaxation) -> float:
        """Start a relaxation over these clients, whose costs may be others; return its τ, which moves with them."""
        level = self.level + float(np.median(relaxation.linear - self.linear))
        relaxation.begin(self.slack, self.products, level, self.penalty)
        return level


class SiftedRelaxation:
    """The relaxation over a growing core, and its extension to the clients that may still be chosen.

    Parameters
    ----------
    rows : RowRelaxation
        Level-1 RLT bound of the problem, some steps made: its clients of largest value are the first core.
    chosen : (c,) ndarray of int
        Clients that the core contains besides: those of the incumbent, those of a core that served before.
    known : CoreMultipliers, optional
        Where to start from, of clients among those of ``rows``; they are in the first core.
    policy : Policy
        Tuning constants.

    Attributes
    ----------
    rows : RowRelaxation
        That of the objective raised by M; its ``ids`` are the clients that a better selection can contain.
    core : (b,) ndarray of int
        The core, sorted.
    x : (n,) ndarray
        The fractional solution.
    is_done : bool
        Whether the bound over the core has settled and no client is worth taking into it, or numbers are too large.
    """

    def __init__(
        self,
        rows: RowRelaxation,
        chosen: Clients,
        known: CoreMultipliers | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        first, more, self.policy = policy.first_core, policy.joining_core, policy
        self.scaled, self.rows, self.run, self.m = rows.scaled, rows, rows.run, rows.m
        best = rows.ids[np.argsort(-rows.values, kind="stable")[: max(first - chosen.size, first // 2)]]
        self.core, self.first, self.more = np.union1d(best, chosen), first, more
        self.x = np.zeros(self.scaled.linear.size)
        self.relaxation: DNNRelaxation | None = None
        self.is_done = self.is_settled = False
        if known is not None:
            self._resume(known)

    def multipliers(self) -> CoreMultipliers | None:
        """Return what another round may start from; None before the first core has been solved."""
        if self.relaxation is None:
            return None
        linear = self.scaled.linear[self.core]
        return CoreMultipliers(
            self.core, linear, self.slack, self.relaxation.products, self.level, self.relaxation.penalty
        )

    def advance(
        self,
        target: float,
        expired: Callable[[], bool],
        keep: Callable[[RowRelaxation, Reals, Reals], None] | None = None,
    ) -> bool:
        """Solve over the core, extend to all, leave out clients, and choose the next core.

        Parameters
        ----------
        target : float
            The incumbent's value: selections worth no more do not count.
        expired : callable
            Whether the time is over.
        keep : callable, optional
            Given the rows at their least bound, before they leave out clients, with E and :math:`M_K`.

        Returns
        -------
        bool
            Whether it got on: not where numbers are too large, or the time was too short. ``rows`` stay as they are
            where the first core grows before it is extended.
        """
        if self.relaxation is None:
            self.relaxation = self._over(self.core)
            self._solve(self.policy.first_core_steps, expired)
        else:
            self._solve(self.policy.core_steps, expired)
        if expired():
            return False
        if self._grows():
            return True
        raised, values, embedding = self._raised()
        largest = max(float(np.abs(each).max()) for each in (raised.quadratic, raised.linear, raised.prices))
        if not largest < LARGEST_GAIN:
            self.is_done = True
            return False
        self.rows = RowRelaxation(self.scaled, self.run, raised, self.policy)
        while self.rows.iterations < self.policy.core_row_steps and not self.rows.has_converged:
            self.rows.descend(target, 50)
            if keep is None:
                self.rows.leave_out(target)
            else:
                self.rows.remember()
            if self.run.expired:  # of the whole time, not of a share of it; any number of steps gives a bound
                break
        if keep is not None:
            self.rows.restore()
            keep(self.rows, embedding, self.slack)
            self.rows.leave_out(target)
        self._choose(raised, values)
        return True

    def survivors(self, target: float, expired: Callable[[], bool]) -> Clients:
        """Return the clients of ``rows`` that some selection worth more than ``target`` may contain."""
        ids = self.rows.ids
        if ids.size <= self.m + 1:
            return ids
        self._solve(self.policy.core_chunk, expired)
        self._start(ids)
        assert self.relaxation is not None
        load("ascent", self.run)  # nor have bounds with a client
        kept = self.relaxation.bounds_with(self.m * self.level - target) > target
        return ids[kept] if np.count_nonzero(kept) > self.m else ids

    # -- over the core -------------------------------------------------------------------------------------------------

    def _resume(self, known: CoreMultipliers) -> None:
        """Begin the first core's relaxation where that of another round ended; τ moves with the costs."""
        first, self.core = self.core, known.core
        linear = self.scaled.linear[known.core]
        self.slack, self.relaxation = known.slack, self._over(known.core)
        self.level = known.start(self.relaxation)
        self.prices = (self.level - linear - self.slack.diagonal()) / (self.m - 1)
        self.x[known.core] = known.products.diagonal()
        self._start(np.union1d(known.core, first))

    def _over(self, core: Clients) -> DNNRelaxation:
        scaled = self.scaled
        load("admm", self.run)  # iterations have no clock to stop
        return DNNRelaxation(
            np.ascontiguousarray(scaled.quadratic[np.ix_(core, core)]), scaled.linear[core], self.m, policy=self.policy
        )

    def _solve(self, steps: int, expired: Callable[[], bool]) -> None:
        """Make ADMM steps, and keep the multipliers of the least bound: slack, level, prices and the solution."""
        relaxation = self.relaxation
        assert relaxation is not None
        best = np.inf
        chunk, bests = self.policy.core_chunk, [np.inf]

        def is_over() -> bool:
            self.run.spend(self.policy.iteration_work(relaxation.n))
            return expired()

        for _ in range(0, steps, chunk):
            relaxation.iterate(chunk, is_over)
            slack = relaxation.dual_slack()
            slack = (slack + slack.T) / 2
            largest = float(np.abs(slack).max())
            excess = certified_level(slack, largest)
            if relaxation.level + excess < best:
                # What the addition loses is less than what is added beside.
                slack[relaxation.index, relaxation.index] += excess + 4 * _EPS * (abs(excess) + largest)
                best = self.level = relaxation.level + excess
                self.slack = slack
                x = relaxation.x.copy()
            bests.append(best)
            if expired():
                break
        self.is_settled = StoppingRule.over_core(self.policy).has_stalled(bests)
        self.x[:] = 0.0
        self.x[self.core] = x
        linear = self.scaled.linear[self.core]
        self.prices = (self.level - linear - self.slack.diagonal()) / (self.m - 1)

    # -- to all --------------------------------------------------------------------------------------------------------

    def _start_weights(self) -> Reals:
        """The fractional solution as a point of the slice of m − 1, nearly."""
        start = np.clip(self.x[self.core], 0.0, 1.0)
        for _ in range(20):  # what is cut off at 1 goes to the rest
            below = np.where(start < 1, start, 0.0)
            start += below * ((self.m - 1 - start.sum()) / max(float(below.sum()), 1e-9))
            start = np.clip(start, 0.0, 1.0)
        return start

    def _weigh(self, slack: Reals, swaps: int, worth: Reals, weights: Reals) -> None:
        """Improve weights; ``worth`` is what partners are worth beside them, before and after."""
        least = self.policy.weight_swap * abs(self.level) / self.m
        steps = 2 * swaps * worth.size
        self.run.spend(steps)
        load("ascent", self.run, steps=steps).climb(slack, -1.0, 0.0, weights, worth, swaps, least, 0.0)

    def _weights(self, others: Clients) -> Reals:
        """For each of the others its weights over the core, no longer than they are worth.

        Their own part counts twice, since long ones raise pairs outside the core.
        """
        weights, worth, image = self._longest_weights(others, self.policy.weight_swaps)
        own = np.einsum("ij,ij->i", image, weights)
        least, best = np.full(others.size, np.inf), np.ones(others.size)
        for share in np.linspace(0.0, 1.0, 9):
            value = _largest_sum(worth + 2 * (1 - share) * image, self.m - 1) + 2 * share**2 * own
            best = np.where(value < least, share, best)
            least = np.minimum(value, least)
        return weights * best[:, None]

    def _longest_weights(self, others: Clients, swaps: int) -> tuple[Reals, Reals, Reals]:
        """Weights of the others over the core, what partners are worth beside them, and M times the weights."""
        weights = np.repeat(self._start_weights()[None], others.size, axis=0)
        worth = 2 * self.scaled.quadratic[np.ix_(others, self.core)] - self.prices
        worth -= 2 * (weights @ self.slack)
        self._weigh(self.slack, swaps, worth, weights)
        return weights, worth, weights @ self.slack

    def _grows(self) -> bool:
        """Let the clients of largest v join the first core before it is extended, where many are worth nearly τ."""
        if self.core.size > self.first:
            return False
        others = np.setdiff1d(self.rows.ids, self.core)
        weights, worth, image = self._longest_weights(others, self.policy.pricing_swaps)
        values = self.scaled.linear[others] + np.einsum("ij,ij->i", worth + image, weights)
        if np.count_nonzero(values > self.policy.near_core * self.level) <= self.policy.many_near_core:
            return False
        self._start(np.union1d(self.core, others[np.argsort(-values, kind="stable")[: self.policy.core_growth]]))
        return True

    def _raised(self) -> tuple[Raised, Reals, Reals]:
        """The objective raised by M over core and others, the others' values v (-∞ for the core), and E."""
        scaled, m, core = self.scaled, self.m, self.core
        others = np.setdiff1d(self.rows.ids, core)
        ids = np.union1d(core, others)
        inside, outside = np.searchsorted(ids, core), np.searchsorted(ids, others)
        original = scaled.quadratic[np.ix_(ids, ids)]
        embedding = np.zeros((ids.size, core.size))
        embedding[inside, np.arange(core.size)] = 1.0
        embedding[outside] = -self._weights(others)
        values = np.full(ids.size, -np.inf)
        for swaps in (self.policy.second_weight_swaps, 0):
            raise_by = (embedding @ self.slack) @ embedding.T
            raise_by = (raise_by + raise_by.T) / 2
            linear = scaled.linear[ids] + raise_by.diagonal()
            prices = (self.level - linear) / (m - 1)
            worth = 2 * (original[outside] + raise_by[outside]) - prices
            worth[np.arange(others.size), outside] = -LARGEST_GAIN
            values[outside] = linear[outside] + _largest_sum(worth, m - 1)
            high = np.flatnonzero(values[outside] > self._limit)
            if swaps == 0 or high.size == 0:
                break
            # Rows of too large a value are weighed anew, now beside all.
            places = outside[high]
            weights = np.zeros((high.size, ids.size))
            weights[:, inside] = -embedding[places]
            worth = 2 * original[places] - prices - 2 * (weights @ raise_by)
            worth[np.arange(high.size), places] = -LARGEST_GAIN
            self._weigh(raise_by, swaps, worth, weights)
            embedding[places] = -(weights @ embedding)
        quadratic = original + raise_by
        # An entry of M is a sum of b² products, rounded b times twice over; a selection adds up m² of them.
        reach = float(np.abs(embedding).sum(axis=1).max()) ** 2 * float(np.abs(self.slack).max())
        largest = reach + float(np.abs(quadratic).max()) + float(np.abs(scaled.linear).max())
        linear += m * (core.size + 8) * 4 * _EPS * largest
        return Raised(ids, quadratic, linear, prices, np.isin(ids, core, assume_unique=True)), values, embedding

    @property
    def _limit(self) -> float:
        """The most that a row may be worth without being too large."""
        return self.level + self.policy.core_progress * abs(self.level)

    def _choose(self, raised: Raised, values: Reals) -> None:
        """Take clients worth more than τ into the core, by v first, then by rows; drop idle ones where it is full."""
        rows, limit = self.rows, self._limit
        place = np.searchsorted(raised.ids, rows.ids)
        is_other = ~raised.is_core[place]
        values, worth, ids = values[place][is_other], rows.values[is_other] / rows.grid, rows.ids[is_other]
        first = np.argsort(-values, kind="stable")
        first = first[values[first] > limit][: self.more]
        rest = np.argsort(-worth, kind="stable")
        rest = rest[(worth[rest] > limit) & ~np.isin(rest, first)][: self.more - first.size]
        fresh = ids[np.concatenate([first, rest])]
        kept = np.intersect1d(self.core, rows.ids)
        proves_little = self.core.size > self.policy.crowded_core and rows.ids.size > self.policy.shrunk * self.x.size
        if kept.size + fresh.size > (self.policy.largest_core if proves_little else self.policy.crowded_core):
            kept = kept[self.x[kept] > self.policy.idle_share]
        core = np.union1d(kept, fresh)
        self.is_done = fresh.size == 0 and self.is_settled
        if fresh.size:
            self._start(core)

    def _start(self, core: Clients) -> None:
        """Begin the next core's relaxation where this one's extension ends."""
        before = self.relaxation
        assert before is not None
        old = np.isin(core, self.core, assume_unique=True)
        place = np.searchsorted(self.core, core[old])
        embedding = np.zeros((core.size, self.core.size))
        embedding[np.flatnonzero(old), place] = 1.0
        embedding[~old] = -self._weights(core[~old])
        after = self._over(core)
        products = np.zeros((core.size, core.size))
        products[np.ix_(old, old)] = before.products[np.ix_(place, place)]
        slack = embedding @ self.slack @ embedding.T
        self.slack = (slack + slack.T) / 2
        after.begin(self.slack, products, self.level, before.penalty)
        self.core, self.relaxation = core, after


def _largest_sum(rows: Reals, count: int) -> Reals:
    """The sum of the largest entries of each row."""
    first = rows.shape[1] - count
    return np.asarray(np.partition(rows, first, axis=1)[:, first:].sum(axis=1))
