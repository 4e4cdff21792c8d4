"""Search log of the first-order tree: a certificate, written as the search goes.

While it keeps a log, the tree works on what the checker will see: the problem and the multipliers in whole numbers,
points that are multiples of a grain. What rounding the problem can have changed is part of every bound's margin, so
what the tree closes the checker closes.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate, CertificateError
from solvers.certificates.exact.dispersion import Exchanges
from solvers.dispersion.kernels.tree_data import Log
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.slice_form import Multipliers, ScaledProblem, SliceForm, tangent_margin
from solvers.dispersion.tree.certificate_builder import CertificateBuilder


class SearchLog:
    """Forms and nodes of one tree.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    scaled : ScaledProblem
        The same in the units of the tree.
    tolerance : float
        Most that a bound may exceed the incumbent by, in those units.
    policy : Policy
        Tuning constants.
    """

    def __init__(
        self, problem: DispersionProblem, scaled: ScaledProblem, tolerance: float, policy: Policy = DEFAULT_POLICY
    ) -> None:
        self.problem, self.scaled, self.policy = problem, scaled, policy
        n = problem.n
        rank = 2 * (scaled.size - 1) / max(n - 2, 1) * scaled.quadratic.sum(axis=1) + scaled.linear
        self.grain = policy.log_coarse_grain if n <= policy.log_coarse_clients else policy.log_fine_grain
        self.builder = CertificateBuilder(problem, np.lexsort((np.arange(n), -rank)))
        self.data = self.builder.data
        self.scale = float(self.data.unit) * scaled.factor
        self.margin = (float(self.data.error / self.data.unit) + 2) * self.scale
        self.is_kept = self.margin <= policy.log_rounding * tolerance
        self._exchanges = Exchanges(problem, self.builder.order)
        self._logs: list[tuple[int, Log]] = []
        self._nodes = self._shares = 0
        self._searched = False  # whether anybody was fixed, by dominance perhaps

    # -- forms ---------------------------------------------------------------------------------------------------

    def form(
        self,
        ids: NDArray[np.int64],
        ones: NDArray[np.int64],
        found: Multipliers,
        order: Dominance,
        equal: NDArray[np.int64],
        pairs: NDArray[np.int64],
    ) -> tuple[SliceForm, float, int]:
        """The multipliers in whole numbers: the form, what the chosen are worth, both for the tree, and its number."""
        back = 1 / self.scaled.factor
        held, dominated = (pairs, found.nonnegative * back), (equal, found.dominated * back)
        number, whole = self.builder.form(ones, ids, found.diagonal * back, held, dominated, order.pairs)
        linear = whole.linear
        middle = round(Fraction(self.scaled.offset) / self.scaled.size / self.data.unit)
        curved = whole.matrix.astype(np.float64) * self.scale
        raised = np.zeros_like(curved)
        for first, second in ((0, 1), (1, 0)):
            np.add.at(raised, (whole.raised[:, first], whole.raised[:, second]), whole.raised[:, 2] * self.scale)
        exact = curved - raised if len(pairs) else curved
        lifted = (linear + middle).astype(np.float64) * self.scale
        rest = Fraction(self.scaled.offset) / self.data.unit - whole.open * middle
        constant = float(whole.constant + rest) * self.scale
        margin = tangent_margin(curved, lifted, whole.open) + self.margin
        return SliceForm(curved, exact, lifted, whole.open, margin), constant, number

    def certain(self, order: Dominance, ids: NDArray[np.int64], ones: NDArray[np.int64]) -> Dominance:
        """Those pairs of clients of which exact arithmetic says the same."""
        kept = order.certain.copy()
        near = np.flatnonzero(~kept)
        first, second = ids[order.pairs[near]].T
        h, c, place = self.problem.distances, self.problem.costs, self.builder.order
        company = np.concatenate([ids, ones])
        differs = h[np.ix_(first, company)] != h[np.ix_(second, company)]
        differs &= (company != first[:, None]) & (company != second[:, None])
        alike = ~differs.any(axis=1)  # but for the costs
        kept[near] = alike & ((c[first] < c[second]) | ((c[first] == c[second]) & (place[first] < place[second])))
        for k in np.flatnonzero(~alike)[: self.policy.log_compared].tolist():
            with suppress(CertificateError):
                self._exchanges.require(int(first[k]), int(second[k]), ones.tolist(), ids.tolist())
                kept[near[k]] = True
        return Dominance.of(order.pairs[kept], order.certain[kept], ids.size)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def buffer(self, n: int) -> Log:
        """Room for what the tree looks at next; none where this was given up."""
        if not self.is_kept:
            return Log.empty(0, n)
        return Log.empty(
            max(100, min(self.policy.log_batch, 2 * self.policy.log_shares // n)), n, self._nodes, self.grain
        )

    def add(self, form: int, log: Log) -> None:
        """Keep what was written."""
        self._searched |= bool(log.used[0])
        if self.is_kept:
            self._add(form, log)

    def _add(self, form: int, log: Log) -> None:
        self._logs.append((form, log))
        self._nodes += int(log.used[0])
        self._shares += int(log.used[0]) * log.points.shape[1]
        if self._shares > self.policy.log_shares:
            self.stop()

    def add_fathomed(self, form: int, origin: int, point: NDArray[np.float64] | None) -> None:
        """Write down a node that is closed outside the compiled tree, by the tangent at a point of the grid.

        Without a point a tangent above closes it, and nothing is written; where there is none above, the log ends.
        """
        if point is None:
            if origin < 0:
                self.stop()
            return
        log = self.buffer(point.size)
        if log.origins.size:
            log.origins[0], log.clients[0], log.used[0] = origin, -1, 1
            log.points[0] = point / self.grain
            self._add(form, log)

    def restart(self) -> None:
        """Forget the nodes: the search begins again."""
        self._logs.clear()
        self._nodes = self._shares = 0

    def stop(self) -> None:
        """Give up: something happened that is not written down, or too much."""
        self.is_kept = False
        self.restart()

    def certificate(self, reached: float, objective: float, claim: float | None = None) -> Certificate | None:
        """The search as a certificate; None where it was given up, or its grid is too coarse.

        Parameters
        ----------
        reached : float
            Value at which it dropped nodes, in units of the tree.
        objective : float
            The incumbent's, in the problem's.
        claim : float, optional
            The bound to claim, where the values that a selection can have say more than the search.
        """
        if not self.is_kept or not self._logs:
            return None
        above = self.scaled.certified(reached)
        goal = math.floor((Fraction(above) - self.data.error) / self.data.unit)
        proved = goal * self.data.unit + self.data.error
        if proved < Fraction(objective):
            return None  # costs that dwarf the distances: the grid is coarser than what was proved
        if claim is None:
            claim = float(proved)
            claim = claim if Fraction(claim) >= proved else float(np.nextafter(claim, math.inf))
        nodes = []
        for form, log in self._logs:  # not those that a fresh start has left behind
            many, ids = int(log.used[0]), np.append(self.builder.forms[form][1], -1)  # -1, nobody, stays what it is
            nodes.append((form, log.origins[:many], ids[log.clients[:many]], log.points[:many]))
        return self.builder.certificate(claim, goal, round(1 / self.grain), nodes, searched=self._searched)
