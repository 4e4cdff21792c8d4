"""Quadratic fixing as a stage: low-rank multipliers, both sides' bounds of every client, and again on what is left."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import Constraints
from solvers.dispersion.kernels import load
from solvers.dispersion.kinds import kinds_of
from solvers.dispersion.methods.memetic import HybridSearch
from solvers.dispersion.neighbourhood import ascend, incumbent
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.dominance import Dominance, dominance
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation
from solvers.dispersion.relaxations.fixing import ClientBounds, client_bounds
from solvers.dispersion.relaxations.group_counts import CountPrices, GroupCounts
from solvers.dispersion.relaxations.low_rank import LowRankRelaxation
from solvers.dispersion.relaxations.side_prices import SidePrices
from solvers.dispersion.relaxations.slice_form import ScaledProblem, SliceForm
from solvers.dispersion.subproblem import SubproblemRun
from solvers.dispersion.tree.conditional import Conditioned, search_conditioned
from solvers.feasible_set import FREE, ONE, ZERO
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

_EPS = float(np.finfo(np.float64).eps)

Terms = NDArray[np.float64]

#: Swaps that mend a rounded point under side constraints, at most.
_MENDED = 10

#: Part of what counts as optimal by which a selection that is fixed away may be better: among equal clients no bound
#: is below the incumbent.
_EQUAL = 0.25

#: Part of what counts as optimal by which a bound of counts is raised: whole numbers of a certificate state it, too.
_WRITTEN = 0.02


class Fixing:
    """Clients of a problem that are fixed, in units of `ScaledProblem`; the incumbent of its run is the value to beat.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Its run, with an incumbent.

    Attributes
    ----------
    ids, ones : ndarray of int
        Clients that are left, and those that every better selection contains.
    sides : SidePrices or None
        Side constraints over all clients, with the prices by which clients are fixed.
    gap : float
        Between the last bound and what a selection may be worth that is left out.
    last : tuple of ndarray and LowRankRelaxation, or None
        Clients and relaxation of the last multipliers of products.
    in_vain : tuple of int and float
        How many clients were left when counts of groups fixed none, and the largest value to beat for which they do
        not.
    """

    def __init__(self, problem: DispersionProblem, run: Run) -> None:
        self.problem, self.run, self.scaled = problem, run, ScaledProblem.of(problem)
        self.ids, self.ones = np.arange(problem.n), np.zeros(0, dtype=np.int64)
        self.outside, self.gap = -np.inf, np.inf
        self.sides: SidePrices | None = None
        self.last: tuple[NDArray[np.int64], LowRankRelaxation] | None = None
        self.in_vain = 0, -np.inf
        if problem.is_constrained:
            states = problem.constraints.states
            self.ids, self.ones = np.flatnonzero(states == FREE), np.flatnonzero(states == ONE)
            self.sides = SidePrices.of(problem.constraints)

    @property
    def size(self) -> int:
        """Clients that are still to be chosen."""
        return self.problem.size - self.ones.size

    @property
    def is_decided(self) -> bool:
        """Whether one selection is left at most."""
        return not 0 < self.size < self.ids.size

    @property
    def has_choice(self) -> bool:
        """Whether more than one client is still to be chosen, and to be left out."""
        return 2 <= self.size <= self.ids.size - 2

    @property
    def is_open(self) -> bool:
        """Whether there is something to fix, and time."""
        return not (self.is_decided or self.run.expired or self.run.proved)

    def terms(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return the quadratic and the linear term over the clients that are left, and a constant, without prices."""
        return self.scaled.restricted(self.ids, self.ones)

    def sides_left(self) -> SidePrices | None:
        """Return the side constraints over the clients that are left."""
        return None if self.sides is None else self.sides.among(self.ids, self.ones)

    def target(self, constant: float) -> float:
        """Return what a selection has to exceed, in the units of the terms that are left, beside their constant."""
        return self.scaled.value(self._outside()) - self._margin() - constant

    def fix(self, bounds: ClientBounds, constant: float, least: float = 0.0) -> int:
        """Fix the clients of which a side has no better selection, and report the bound; return how many.

        They are left as they are where they are fewer than ``least``.
        """
        outside = self._outside()
        target = self.target(constant)
        bound = self.scaled.original(bounds.bound + constant + self._margin())
        self.outside, self.gap = max(self.outside, outside), bound - outside
        self.run.tighten(max(bound, self.outside))
        leave, enter = bounds.chosen <= target, bounds.left_out <= target
        if (leave & enter).any():  # no better selection is left
            self.run.tighten(self.outside)
            return self.ids.size
        before = self.ids.size
        if np.count_nonzero(leave | enter) < least:
            return 0
        self.ones = np.union1d(self.ones, self.ids[enter])
        self.ids = self.ids[~(leave | enter)]
        if self.sides is not None:
            self.ids = self.ids[~self.sides.excluded(self.ids, self.ones)]
        return before - self.ids.size

    def fix_by(
        self, linear: Terms, diagonal: Terms, quadratic: Terms, raised: Terms | None, constant: float, policy: Policy
    ) -> int | None:
        """Fix by multipliers of the diagonal and of products; return how many, None where they bound nothing."""
        whole = quadratic if raised is None else quadratic + raised
        bounds = union_of_shifts(self, whole, linear, diagonal, constant, policy)
        return None if bounds is None else self.fix(bounds, constant)

    def fix_by_form(
        self, relaxation: DNNRelaxation, form: SliceForm, unit: float, constant: float, order: Dominance, policy: Policy
    ) -> int | None:
        """Fix by the form of a relaxation; return how many, none where they are few, None where it bounds nothing."""
        bounds = _shifted_bounds(self, form, unit, constant, policy)
        if bounds is None:
            return None
        return self.fix(bounds.ordered(order.pairs), constant, policy.fixing_least * self.ids.size)

    def search(
        self,
        relaxation: DNNRelaxation,
        form: SliceForm,
        unit: float,
        constant: float,
        most: float,
        order: Dominance | None,
        policy: Policy,
    ) -> Conditioned:
        """Search below the form of a relaxation by conditioning it, up to so many entries of inverses."""
        shifted = form.shifted(policy.fixing_search_shift * unit)
        return search_conditioned(shifted, self.target(constant), most, policy.fixing_room, self.run, order)

    def settle(self, settled: NDArray[np.int64]) -> int:
        """Fix clients left, given by twice their places, and one more where they are chosen; return how many."""
        places, is_chosen = settled // 2, settled % 2 == 1
        self.ones = np.union1d(self.ones, self.ids[places[is_chosen]])
        self.ids = np.delete(self.ids, places)
        return settled.size

    def round(self, x: NDArray[np.float64]) -> None:
        """Offer the selection nearest to a fractional solution over the clients that are left."""
        shares = np.zeros(self.problem.n)
        shares[self.ones], shares[self.ids] = 2.0, x
        found = self.problem.feasible.round(shares) if self.sides is None else self._kept(shares)
        if found is not None:
            self.run.offer(ascend(self.problem, found, self.run))

    def _kept(self, shares: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Return a selection of the largest shares that keeps the side constraints; None where few swaps find none."""
        feasible, size = self.problem.feasible, self.problem.size
        assert isinstance(feasible, ConstrainedSelections)
        assert self.sides is not None
        ones, order = self.problem.constraints.states == ONE, np.argsort(-shares, kind="stable")
        chosen = np.flatnonzero(ones)
        for client in order:
            if chosen.size < size and not self.sides.excluded(np.array([client]), chosen)[0] and not ones[client]:
                chosen = np.append(chosen, client)
        x = feasible.completed(feasible.decision(chosen) == 1)
        for _ in range(_MENDED):
            if self.run.expired or feasible.violation(x) == 0:
                break
            swap = feasible.mending_swap(x, shares)
            if swap is None:
                return None
            x[swap[0]], x[swap[1]] = 0, 1
        return x if feasible.violation(x) == 0 else None

    def conclude(self) -> None:
        """Offer the one selection that is left, and report that no other is better."""
        x = self.whole(np.full(self.ids.size, int(self.size > 0)))
        value = self.run.offer(x) + self.problem.rounding if self.problem.violation(x) == 0 else -np.inf
        self.run.tighten(max(value, self.outside))

    def whole(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the decision of all clients, given that of those left."""
        return _among(self.problem.n, self.ids, self.ones, x)

    def order(self) -> Dominance:
        """Return pairs of clients left: some best selection contains the first wherever it contains the second.

        Pairs that are so only up to rounding count where nothing but a cost tells them apart.
        """
        quadratic, linear, _ = self.terms()
        most = self.ids.size if self.sides is None else 0  # rows may not allow an exchange
        found = dominance(quadratic, linear, self.size, most=most, run=self.run)
        company = np.concatenate([self.ids, self.ones])
        first, second = self.ids[found.pairs].T
        h, c = self.problem.distances, self.problem.costs
        differs = h[np.ix_(first, company)] != h[np.ix_(second, company)]
        differs &= (company != first[:, None]) & (company != second[:, None])
        kept = found.certain | (~differs.any(axis=1) & (c[first] <= c[second]))
        return Dominance.of(found.pairs[kept], found.certain[kept], self.ids.size)

    def rank(self) -> NDArray[np.int64]:
        """Rank of each client that is left by its cost, from 0; ties go to the lower place."""
        return np.argsort(np.argsort(self.problem.costs[self.ids], kind="stable"))

    def fix_by_counts(self, counts: GroupCounts, prices: CountPrices, constant: float) -> int | None:
        """Fix by prices of counts of groups; return how many, None where they bound nothing."""
        bounds = counts.bounds(prices)
        if bounds is None:
            return None
        spare = self.problem.tolerance_at(self.value, _WRITTEN * OPTIMALITY_GAP) * self.scaled.factor
        return self.fix(bounds.raised(spare).ordered(counts.order), constant)

    def counts(self, policy: Policy) -> tuple[GroupCounts, float] | None:
        """Return what is left as counts of groups, and the constant of its terms; None where there are no groups."""
        row = self.problem.distances[self.ids[0], self.ids]
        if self.sides is not None or np.unique(row).size > policy.groups_values:
            return None
        quadratic, linear, constant = self.terms()
        company = np.concatenate([self.ids, self.ones])
        found = kinds_of(self.problem.distances[np.ix_(company, company)])
        kinds = np.arange(company.size) if found is None else found[1]
        counts = GroupCounts.of(
            quadratic,
            linear,
            self.size,
            np.unique(kinds[: self.ids.size], return_inverse=True)[1],
            self.rank(),
            policy.groups_rests,
            lambda: self.run.expired,
        )
        return None if counts is None else (counts, constant)

    def part(self) -> tuple[DispersionProblem, SubproblemRun]:
        """Return the problem over the clients that are left, with the same objective, and its run."""
        problem, ids, ones = self.problem, self.ids, self.ones
        k, w = ones.size, problem.weight
        among = w * float(problem.distances[np.ix_(ones, ones)].sum(axis=1, dtype=np.float64).sum())
        constant = among - float(problem.costs[ones].sum())
        beside = 2 * w * problem.distances[np.ix_(ids, ones)].sum(axis=1, dtype=np.float64)
        few = DispersionProblem(
            problem.distances[np.ix_(ids, ids)],
            problem.costs[ids] - beside - constant / self.size,
            size=self.size,
            weight=w,
            **self._statement(),
        ).answering(problem)

        most = float(np.abs(problem.costs).max()) + 2 * w * problem.diameter * k
        slack = problem.rounding + few.rounding + 8 * (k + 4) * problem.size * _EPS * most

        def map_back(x: NDArray[np.int64]) -> NDArray[np.int64]:
            """The incumbent where limits of the part are rounded outwards too far."""
            found = _among(problem.n, ids, ones, x)  # a search of the part may go on when more are fixed
            return found if self.sides is None or problem.violation(found) == 0 else incumbent(self.run)

        inner = SubproblemRun(few, self.run, slack, map_back=map_back, outside=self.outside)
        best = incumbent(self.run)
        if best[ones].all() and best[ids].sum() == self.size and few.violation(best[ids]) == 0:
            inner.offer(best[ids])
        return few, inner

    @property
    def is_contradictory(self) -> bool:
        """Whether the side constraints alone are seen to leave no selection of the clients that are left."""
        return self.sides is not None and ConstrainedSelections.of(self._left()).contradiction() is not None

    def _left(self) -> Constraints:
        """What the clients that are chosen leave of the side constraints."""
        states = np.full(self.problem.n, ZERO, dtype=np.int8)
        states[self.ones], states[self.ids] = ONE, FREE
        return self.problem.constraints.restricted(states)[1]

    def _statement(self) -> dict[str, Any]:
        """Arguments of the problem over the clients that are left: their ids, or their side constraints."""
        if self.sides is None:
            return {"clients": self.problem.clients[self.ids]}
        left = self._left()
        pairs = self.sides.among(self.ids, self.ones).pairs
        rest = replace(left, rows=tuple(row for row in left.rows if row.kind != "conflict"))
        return rest.arguments() | {"conflicts": pairs.tolist()}

    @property
    def value(self) -> float:
        """Value of the incumbent."""
        assert self.run.objective is not None
        return self.run.objective

    def _outside(self) -> float:
        """What a selection may be worth that is left out."""
        value = self.value
        return value + self.problem.tolerance_at(value, _EQUAL * OPTIMALITY_GAP)

    def _margin(self) -> float:
        """Rounding of an objective and of what fixed clients add to it, in these units."""
        scaled, k = self.scaled, self.ones.size
        most = float(np.abs(scaled.linear).max()) + 2 * k * float(scaled.quadratic.max())
        margin = 4 * (scaled.error + self.problem.rounding * scaled.factor) + 8 * (k + 4) * scaled.size * _EPS * most
        return margin if self.sides is None else margin + self.sides.margin(scaled.size)


def fix_by_counts(fixing: Fixing, policy: Policy = DEFAULT_POLICY) -> None:
    """Fix by linear programs over counts of groups, where distances follow shared labels, while that fixes clients."""
    run, fixed = fixing.run, True
    while fixed and fixing.is_open and fixing.has_choice:
        left = fixing.ids.size
        if left == fixing.in_vain[0] and fixing.value <= fixing.in_vain[1]:
            return
        run.spend(policy.groups_work * left**2)
        stated = fixing.counts(policy)
        if stated is None:
            fixing.in_vain = left, math.inf
            return
        counts, constant = stated
        prices = counts.prices(math.inf if run.counts_work else run.remaining)
        if prices is None:
            return
        fixing.round(prices.x)
        fixed = bool(fixing.fix_by_counts(counts, prices, constant))
        if not fixed:
            fixing.in_vain = left, fixing.value
    if fixing.is_decided and not run.proved:
        fixing.conclude()


def fix_clients(
    problem: DispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY, fixing: Fixing | None = None
) -> Fixing:
    """Fix by multipliers of the diagonal, again and again while they leave fewer clients.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Its run, with an incumbent.
    policy : Policy
        Sweeps and shifts.
    fixing : Fixing, optional
        What fixes by the multipliers; one in floating point by default.
    """
    fixing, tries = fixing or Fixing(problem, run), list(policy.fixing_tries)
    while tries and fixing.is_open:
        left, (penalty, sweeps) = fixing.ids.size, tries[0]
        quadratic, linear, constant = fixing.terms()
        relaxation = LowRankRelaxation(quadratic, linear, fixing.size, penalty, sides=fixing.sides_left())
        relaxation.sweep(sweeps, lambda: run.expired)
        run.spend(policy.sweep_work(left, sweeps))
        is_settled = abs(float(relaxation.x().sum()) - fixing.size) <= policy.fixing_settled * fixing.size
        fixed = _bound(fixing, relaxation, quadratic, linear, constant, policy)
        if not fixed or fixed < policy.fixing_least * left:
            if is_settled and fixed is not None:
                break
            tries = tries[1:]
    if fixing.is_decided and not run.proved:
        fixing.conclude()
    return fixing


def fix_by_products(
    problem: DispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY, fixing: Fixing | None = None
) -> Fixing:
    """Fix by multipliers of products too, as `fix_clients` does by those of the diagonal."""
    fixing = fixing or Fixing(problem, run)
    until, start = (1 - policy.fixing_time_share) * run.remaining, None
    while fixing.is_open and fixing.ids.size > policy.fixing_few and not run.remaining < until:
        before, gap = fixing.ids, fixing.gap
        relaxation = _raise_products(fixing, start, until, policy)
        fixing.last = before, relaxation
        is_slow = fixing.gap > (1 - policy.fixing_progress) * gap
        if before.size - fixing.ids.size < (policy.fixing_least * before.size if is_slow else 1):
            break
        start = relaxation.among(np.searchsorted(before, fixing.ids))
    if fixing.is_decided and not run.proved:
        fixing.conclude()
    return fixing


def _raise_products(
    fixing: Fixing, start: tuple[NDArray[np.float32], NDArray[np.float32]] | None, until: float, policy: Policy
) -> LowRankRelaxation:
    """Move multipliers of products until they fix enough to begin anew with fewer clients, or no longer help."""
    run = fixing.run
    quadratic, linear, constant = fixing.terms()
    sides = fixing.sides_left()
    relaxation = LowRankRelaxation(quadratic, linear, fixing.size, policy.fixing_tries[0][0], start, sides)

    def hurried() -> bool:
        return run.remaining < until

    relaxation.sweep(policy.fixing_sweeps, hurried)
    gap = np.inf
    while fixing.is_open and not hurried():
        for _ in range(policy.fixing_steps):
            relaxation.sweep()
            relaxation.raise_products(policy.fixing_step)
            run.spend(policy.sweep_work(linear.size, 3))  # a step is some two sweeps
            if hurried():
                break
        relaxation.sweep(policy.fixing_sweeps, hurried)
        run.spend(policy.sweep_work(linear.size, policy.fixing_sweeps))
        fixed = _bound(fixing, relaxation, quadratic, linear, constant, policy)
        now = fixing.gap
        if fixed is None or fixed or now > (1 - policy.fixing_progress) * gap:
            break
        gap = now
    return relaxation


def _among(n: int, ids: NDArray[np.int64], ones: NDArray[np.int64], x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the decision of n clients, given that of ``ids``, beside ``ones``."""
    found = np.zeros(n, dtype=np.int64)
    found[ones], found[ids] = 1, x
    return found


def close_rest(fixing: Fixing, policy: Policy = DEFAULT_POLICY) -> None:
    """Fix by doubly nonnegative multipliers with cuts, and search below their form.

    The search has as many operations as the multipliers so far, at most; both end where the gap no longer falls. It is
    for some hundred clients: fewer are soon searched by trees, and more take too long.
    """
    run, until = fixing.run, (1 - policy.fixing_close_time_share) * fixing.run.remaining
    if not (fixing.is_open and fixing.has_choice and policy.fixing_few < fixing.ids.size <= policy.fixing_closed):
        return
    for name in ("admm", "cuts", "conditioning"):
        load(name, run)  # iterations have no clock to stop
    quadratic, linear, constant = fixing.terms()
    order, search = fixing.order(), HybridSearch(*fixing.part(), policy)  # what is fixed depends on the incumbent
    relaxation = _begun(fixing, quadratic, linear, constant, order, policy)
    spent = searched = 0.0  # entries of matrices
    gaps: list[float] = []
    tried, least, since, made = fixing.gap, np.inf, 0, 0

    def hurried() -> bool:
        run.spend(policy.iteration_work(relaxation.n))
        return run.remaining < until

    while fixing.is_open and fixing.has_choice and not hurried():
        if made >= 2 * policy.fixing_chunk:
            relaxation.separate(policy.cuts * relaxation.n, groups=True)
        relaxation.iterate(policy.fixing_chunk, hurried)
        made += policy.fixing_chunk
        spent += policy.fixing_chunk * policy.fixing_iteration * relaxation.n**3
        search.advance(policy.tabu_moves)
        fixing.round(np.clip(relaxation.x, 0.0, 1.0))
        form = relaxation.form()
        unit = float(np.abs(quadratic).max())
        before, ones = fixing.ids, fixing.ones
        fixed = fixing.fix_by_form(relaxation, form, unit, constant, order, policy)
        if fixed is None:
            return
        since += 1
        if fixing.gap < policy.fixing_fall * least:
            least, since = fixing.gap, 0
        elif since > policy.fixing_patience:
            return
        gaps.append(fixing.gap)
        falls = (
            len(gaps) <= policy.fixing_falling or fixing.gap < policy.fixing_again * gaps[-1 - policy.fixing_falling]
        )
        tried = tried if np.isfinite(tried) else fixing.gap
        has_halved = fixing.gap < policy.fixing_search_share * tried
        part = 1.0 if not falls else policy.fixing_search_share if has_halved else policy.fixing_search_share**2
        most = min(part * spent - searched, _entries_within(run, until, policy))
        if not fixed and made > 2 * policy.fixing_chunk and most > policy.fixing_iteration * relaxation.n**3:
            tried = fixing.gap if has_halved else tried
            found = fixing.search(relaxation, form, unit, constant, most, order, policy)
            searched += found.entries
            run.details["conditioned"] = run.details.get("conditioned", 0) + found.nodes
            run.spend(policy.conditioning_work * found.entries)
            known = fixing.outside
            if found.best.any():  # no other one that was visited is better but by rounding
                run.offer(ascend(fixing.problem, fixing.whole(found.best), run))
                known = max(known, fixing.value + fixing._margin() / fixing.scaled.factor)
            if found.is_done:
                run.tighten(known)
                return
            fixed = fixing.settle(found.settled)
        if fixed:
            if fixing.is_decided and not run.proved:
                fixing.conclude()
            if not (fixing.is_open and fixing.has_choice):
                return
            quadratic, linear, constant = fixing.terms()
            order = order.among(np.searchsorted(before, fixing.ids), before.size)
            warm = relaxation.warm(before)
            relaxation = DNNRelaxation(quadratic, linear, fixing.size, policy=policy, order=order)
            relaxation.start(warm, fixing.ids, np.setdiff1d(fixing.ones, ones))


def _entries_within(run: Run, until: float, policy: Policy) -> float:
    """Return how many entries the conditioned search, which has no clock, updates until so many seconds remain."""
    return math.inf if math.isinf(until) else policy.conditioning_rate * (run.remaining - until)


def _begun(
    fixing: Fixing, quadratic: Terms, linear: Terms, constant: float, order: Dominance, policy: Policy
) -> DNNRelaxation:
    """Return the doubly nonnegative relaxation of what is left, begun where multipliers of products have ended."""
    relaxation = DNNRelaxation(quadratic, linear, fixing.size, policy=policy, order=order)
    if fixing.last is None or fixing.sides is not None:
        return relaxation
    before, last = fixing.last
    penalty = policy.fixing_tries[0][0]
    start = last.among(np.searchsorted(before, fixing.ids))
    few = LowRankRelaxation(quadratic, linear, fixing.size, penalty, start)
    few.sweep(policy.fixing_sweeps, lambda: fixing.run.expired)
    fixing.run.spend(policy.sweep_work(linear.size, policy.fixing_sweeps))
    raised = few.raised()
    if raised is not None and np.isfinite(fixing.gap):
        value = fixing.target(constant) + fixing.gap * fixing.scaled.factor
        relaxation.resume(few.diagonal(), raised, few.products(), value)
    return relaxation


def _shifted_bounds(
    fixing: Fixing, form: SliceForm, unit: float, constant: float, policy: Policy
) -> ClientBounds | None:
    """Join the bounds of a form at several shifts, in units of ``unit``."""
    n, bounds = form.linear.size, None
    for shift in policy.fixing_form_shifts:
        found = client_bounds(form.curved, form.linear, form.size, np.full(n, shift * unit))
        fixing.run.spend(policy.fixing_work * n**3)
        if found is not None:
            found = found.raised(form.margin)
            bounds = found if bounds is None else bounds.joined(found)
    return bounds


def _bound(
    fixing: Fixing,
    relaxation: LowRankRelaxation,
    quadratic: NDArray[np.float64],
    linear: NDArray[np.float64],
    constant: float,
    policy: Policy,
) -> int | None:
    """Offer the fractional solution's selection, and fix by the multipliers; return how many, None without a bound."""
    fixing.round(relaxation.x())
    if fixing.sides is not None and relaxation.sides is not None:
        fixing.sides = fixing.sides.taking(relaxation.sides, fixing.ids)
        quadratic, linear, constant = relaxation.sides.charged(quadratic, linear, constant)
    return fixing.fix_by(linear, relaxation.diagonal(), quadratic, relaxation.raised(), constant, policy)


def union_of_shifts(
    fixing: Fixing,
    quadratic: NDArray[np.float64],
    linear: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    constant: float,
    policy: Policy,
) -> ClientBounds | None:
    """Join the bounds of shifts of the diagonal, from large to small, while they fix more."""
    target = fixing.target(constant)
    unit, found, fixed = float(np.abs(diagonal).mean()), None, 0
    for k, shift in enumerate(policy.fixing_shifts):
        if fixing.run.remaining <= policy.fixing_seconds * linear.size**3:
            break
        bounds = client_bounds(quadratic, linear, fixing.size, diagonal + shift * unit)
        fixing.run.spend(policy.fixing_work * linear.size**3)
        if bounds is None:
            break
        found = bounds if found is None else found.joined(bounds)
        now = int(np.count_nonzero((found.chosen <= target) | (found.left_out <= target)))
        if now == fixed and k > 0:
            break
        fixed = now
    return found
