"""Certificates of dispersion problems: the bound of a solution, proved again in whole numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.certificate_writers import certificate_writer
from solvers.certificates import Certificate, CertificateError, problem_digest
from solvers.certificates.exact.dispersion import FREE, ONE
from solvers.certificates.schema import POINT
from solvers.dispersion.kernels import seconds_loading
from solvers.dispersion.methods.constrained_points import solve_by_prices
from solvers.dispersion.methods.fixing import Fixing, Terms, close_rest, fix_by_counts, fix_by_products, fix_clients
from solvers.dispersion.methods.points import relaxed as climbed
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.prelude import single_threaded_blas
from solvers.dispersion.problem import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.quadratic import QuadraticProblem
from solvers.dispersion.relaxations.attainable import Attainable
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation
from solvers.dispersion.relaxations.fixing import client_bounds
from solvers.dispersion.relaxations.group_counts import CountPrices, GroupCounts
from solvers.dispersion.relaxations.slice_form import ScaledProblem, SliceForm
from solvers.dispersion.tree.certificate import CertificateTree, NodeForm, row_prices
from solvers.dispersion.tree.certificate_builder import CertificateBuilder, narrow, on_grain
from solvers.dispersion.tree.conditional import Conditioned
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP, Solution

#: Clients of a problem between kinds, at most, of which a certificate has each by itself.
LARGEST_EXPANDED = 1_000

#: Bits of the largest number where a certificate says that there is no selection.
COARSE_BITS = 8

#: What makes the form of counts of groups concave, in units of the largest weight of a group: more than rounding.
_COUNTS_SHIFT = 1e-7


@certificate_writer(KindDispersionProblem, constraints=True, pool=True)
def write_kinds_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """A tree over the clients; refused where there are more than 1 000.

    Without side constraints and pool, those of a kind come in the order of their costs.
    """
    problem = solution.problem
    assert isinstance(problem, KindDispersionProblem)
    if problem.n > LARGEST_EXPANDED:
        raise CertificateError(f"those of kinds are for up to {LARGEST_EXPANDED} clients, and there are {problem.n}")
    found = write_certificate(replace(solution, problem=problem.expanded()), time_limit, relaxed=relaxed)
    return None if found is None else replace(found, kind="kinds", problem=problem_digest(problem))


@certificate_writer(DispersionProblem, constraints=True, pool=True)
def write_certificate(
    solution: Solution,
    time_limit: float,
    *,
    relaxed: bool,
    recorded: Certificate | None = None,
    most_work: float = DEFAULT_POLICY.certificate_work,
) -> Certificate | None:
    """A tree that proves the bound; where time does not allow it (or ``relaxed``), one tangent below fixed clients.

    Where the bound rests on the values that a selection can have at all (`solvers.dispersion.relaxations.attainable`),
    the tree bounds below the next of them. ``recorded`` is one of kind ``rlt``: the tree has the clients that its
    multipliers leave.
    """
    problem = solution.problem
    assert isinstance(problem, DispersionProblem)
    begun, loading = time.perf_counter(), seconds_loading()

    def elapsed() -> float:
        return time.perf_counter() - begun - (seconds_loading() - loading)

    def expired(share: float = DEFAULT_POLICY.certificate_time_share) -> bool:
        return elapsed() > share * time_limit

    if solution.pool or solution.vetoed:
        return _of_pool(problem, solution, expired, math.inf if math.isfinite(time_limit) else most_work)
    if solution.status == "infeasible":
        return _without_selection(problem, expired)
    assert solution.bound is not None
    if problem.size in (1, problem.n - 1, problem.n):
        tree = CertificateTree(problem, solution.bound, expired)
        tree.enumerated()
        return tree.certificate(_within(problem, solution))
    with single_threaded_blas(problem):
        if not relaxed:
            claim = _within(problem, solution)
            for target in _targets(problem, solution, claim):
                # Without a time limit a tree that took far longer than the solve would end only when it is written.
                work = math.inf if math.isfinite(time_limit) else most_work
                tree = CertificateTree(problem, target, expired, most_work=work, stages=recorded)
                if recorded is None:
                    _fix(tree, solution, DEFAULT_POLICY.certificate_time_share * time_limit)
                if tree.tree():
                    return tree.certificate(claim)
        tree = CertificateTree(problem, solution.bound, lambda: expired(DEFAULT_POLICY.leaf_time_share))
        left = DEFAULT_POLICY.leaf_time_share * time_limit - elapsed()
        _fix(tree, solution, left / 2)
        left = DEFAULT_POLICY.leaf_time_share * time_limit - elapsed()
        return tree.certificate(tree.root(left))


class _WrittenFixing(Fixing):
    """Fixing whose passes are nodes of a certificate, fixed as its checkers will see them."""

    def __init__(self, tree: CertificateTree, run: Run) -> None:
        super().__init__(tree.problem, run)
        self.tree = tree

    @property
    def is_open(self) -> bool:
        """Whether there is something to fix, and time."""
        return super().is_open and not self.tree.is_closed and self.tree.written <= self.tree.most

    def fix_by(
        self, linear: Terms, diagonal: Terms, quadratic: Terms, raised: Terms | None, constant: float, policy: Policy
    ) -> int | None:
        """As `Fixing.fix_by`, by the shift that fixes most."""
        whole = quadratic if raised is None else quadratic + raised
        best: tuple[int, float, Terms] | None = None
        for shift in policy.fixing_shifts:
            raise_by = shift * float(np.abs(diagonal).mean())
            found = self._fixable(whole, linear, diagonal + raise_by, constant)
            if found is None or (best is not None and found[0] <= best[0]):
                break
            best = found[0], raise_by, found[1]
        if best is None or best[0] == 0:
            return None if best is None else 0
        _, raise_by, x = best
        back = 1 / self.scaled.factor
        raised = None if raised is None else raised * back
        return self._fixed(self.tree.form((diagonal + raise_by) * back, raised, x, is_curved=True))

    def order(self) -> Dominance:
        """As `Fixing.order`, of the pairs that the checkers accept; equal ones come in the certificate's order.

        Those with fewest others between them are asked about, few for each client: a checker tests them, too.
        """
        found, ids, order, c = super().order(), self.ids, self.tree.builder.order, self.problem.costs
        first, second = found.pairs.T
        turned = ~found.certain & (c[ids[first]] == c[ids[second]]) & (order[ids[first]] > order[ids[second]])
        pairs = np.where(turned[:, None], found.pairs[:, ::-1], found.pairs)
        above = np.bincount(pairs[:, 1], minlength=ids.size)
        near = np.argsort(above[pairs[:, 1]] - above[pairs[:, 0]], kind="stable").tolist()
        most = self.tree.policy.certificate_order * ids.size
        rows = [row for row in near[:most] if self.tree.accepts(*ids[pairs[row]].tolist())]
        rows.sort(key=lambda row: int(pairs[row, 0]))
        return Dominance.of(pairs[rows], found.certain[rows], ids.size)

    def fix_by_form(
        self, relaxation: DNNRelaxation, form: SliceForm, unit: float, constant: float, order: Dominance, policy: Policy
    ) -> int | None:
        """As `Fixing.fix_by_form`, by the shift that fixes most."""
        best: tuple[int, float, Terms] | None = None
        for shift in policy.fixing_form_shifts:
            found = self._fixable(form.curved, form.linear, np.full(self.ids.size, shift * unit), constant)
            if found is not None and (best is None or found[0] > best[0]):
                best = found[0], shift * unit, found[1]
        if best is None or best[0] < policy.fixing_least * self.ids.size:
            return None if best is None else 0
        return self._fixed(self._form(relaxation, form, best[1], best[2], order, is_curved=True))

    def rank(self) -> NDArray[np.int64]:
        """As `Fixing.rank`; those that cost the same in the certificate's order."""
        return np.argsort(np.lexsort((self.tree.builder.order[self.ids], self.problem.costs[self.ids])))

    def fix_by_counts(self, counts: GroupCounts, prices: CountPrices, constant: float) -> int | None:
        """As `Fixing.fix_by_counts`, where no group is too wide and the checkers accept the order."""
        back = 1 / self.scaled.factor
        stated = counts.form(prices, _COUNTS_SHIFT * float(counts.weights.max()))
        if stated is None:
            return None
        diagonal, held, (cuts, weights), dominated = stated
        pairs = np.argwhere(dominated)
        if len(pairs) > self.tree.policy.certificate_order * self.ids.size:
            return None
        if not all(self.tree.accepts(*self.ids[pair].tolist()) for pair in pairs):
            return None
        order, counted = (pairs, dominated[tuple(pairs.T)] * back), (cuts, weights * back)
        form = self.tree.form(diagonal * back, held * back, prices.x, counted, order, is_curved=True)
        self.tree.last = form
        return self._fixed(form)

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
        """As `Fixing.search`, written down where it is done."""
        most = min(most, policy.certificate_conditioned)
        found = super().search(relaxation, form, unit, constant, most, order, policy)
        shift = policy.fixing_search_shift * unit
        is_done = found.is_done and self.tree.condition(
            self._form(relaxation, form, shift, np.clip(relaxation.x, 0.0, 1.0), order, is_curved=True),
            policy.certificate_conditioned_pairs,
        )
        return replace(found, is_done=is_done, settled=found.settled[:0])

    def target(self, constant: float) -> float:
        """As `Fixing.target`, of the bound that the certificate is to prove."""
        return self.scaled.value(self.tree.target) - constant

    def _fixable(self, curved: Terms, linear: Terms, diagonal: Terms, constant: float) -> tuple[int, Terms] | None:
        """Count the clients that a form fixes, and return its maximiser, too; None where it bounds nothing."""
        bounds, target = client_bounds(curved, linear, self.size, diagonal), self.target(constant)
        if bounds is None:
            return None
        self.gap = min(self.gap, (bounds.bound - target) / self.scaled.factor)
        return int(np.count_nonzero((bounds.chosen <= target) | (bounds.left_out <= target))), bounds.x

    def _form(
        self,
        relaxation: DNNRelaxation,
        form: SliceForm,
        shift: float,
        x: Terms,
        order: Dominance | None,
        *,
        is_curved: bool,
    ) -> NodeForm:
        """Return the form of a relaxation, more concave by ``shift``, as the certificate states it."""
        cuts, weights, back = relaxation.cuts.cuts, 0.5 * relaxation.cuts.weights, 1 / self.scaled.factor
        # A cut has (2k + 1) b's here, and the same of s² there, which the multipliers of s - s² make up for.
        moved = np.bincount(
            cuts.members.ravel(), ((weights * (2 * cuts.k + 1))[:, None] * cuts.signs).ravel(), relaxation.n
        )
        diagonal, held, dominated = form.linear - relaxation.linear + shift + moved, relaxation.nonnegative, None
        if order is not None and len(order.pairs):
            # Here 2 S_ij s_i s_j and S_jj s_j², the latter less 2 S_ij for each i; there -2 S_ij (s_j - s_i s_j).
            diagonal, held = diagonal - held.diagonal(), held.copy()
            first, second = order.pairs.T
            dominated = order.pairs, -(held[first, second] + held[second, first]) * back
            held[first, second] = held[second, first] = 0.0
        return self.tree.form(diagonal * back, held * back, x, (cuts, weights * back), dominated, is_curved=is_curved)

    def _fixed(self, form: NodeForm) -> int:
        """Write a node of a form, and take over what it fixes; return how many."""
        fixed = self.tree.fix(form)
        self.ids, self.ones = np.flatnonzero(self.tree.start == FREE), np.flatnonzero(self.tree.start == ONE)
        return fixed


def _fix(tree: CertificateTree, solution: Solution, seconds: float) -> None:
    """Write nodes that fix clients before the tree."""
    problem, policy = tree.problem, DEFAULT_POLICY
    if problem.is_constrained or not policy.few_clients <= problem.n <= policy.fixing_certified or solution.x is None:
        return
    run = Run(problem, "certificate", None if math.isinf(seconds) else seconds, 0)
    run.offer(solution.x)
    # Every pass pays here: one by multipliers of the diagonal is written in n numbers, a later one in n².
    fixing = fix_clients(problem, run, replace(policy, fixing_settled=0.0), _WrittenFixing(tree, run))
    fix_by_counts(fixing)
    if problem.n <= policy.fixing_ratio * problem.size:
        fix_by_products(problem, run, fixing=fixing)
        close_rest(fixing)


def _of_pool(
    problem: DispersionProblem, solution: Solution, expired: Callable[[], bool], most_work: float
) -> Certificate | None:
    """A tree that bounds every selection outside a pool; None without such a bound or a member, or where it gave up."""
    if solution.pool_bound is None or not solution.pool:
        return None
    listed = {}
    for name, members in (("pool", solution.pool), ("vetoed", solution.vetoed)):
        places = [np.searchsorted(problem.clients, each.selected) for each in members]
        if places:
            listed[name] = narrow(np.concatenate(places))
    asked = solution.details.get("pool") or {}
    if (diverse := int(asked.get("diverse") or 0)) > 1:
        listed["diverse"] = np.array([diverse])
    builder = CertificateBuilder(problem)
    # In whole numbers a selection may be worth more by what rounding the problem takes.
    spare = 2 * float(builder.data.error) + 8 * problem.rounding + 2 * float(builder.data.unit)
    target = solution.pool_bound + spare
    tree = CertificateTree(problem, target, expired, most_work=most_work, listed=listed)
    if problem.size in (1, problem.n - 1, problem.n):
        tree.enumerated()
    else:
        with single_threaded_blas(problem):
            if not tree.tree():
                return None
    # What a veto refused is no better than what the certificate claims, either.
    decisions = [problem.feasible.decision(np.searchsorted(problem.clients, each.selected)) for each in solution.vetoed]
    refused = max(map(problem.objective, decisions), default=-math.inf)
    assert solution.objective is not None
    assert solution.bound is not None
    best = replace(solution, objective=max(solution.objective, refused), bound=max(solution.bound, refused))
    return tree.certificate(_within(problem, best))


def _without_selection(problem: DispersionProblem, expired: Callable[[], bool]) -> Certificate | None:
    """A certificate of a bound that any m clients would exceed: that no selection keeps the constraints."""
    least = -float(np.sort(problem.costs)[-problem.size :].sum()) - problem.scale
    # Numbers are coarse, so that prices of rows are large beside them.
    tree = CertificateTree(problem, least, expired, bits=COARSE_BITS)
    if problem.size in (1, problem.n - 1, problem.n):
        tree.enumerated()
    elif not tree.contradiction():
        return None
    return tree.certificate(least)


def _within(problem: DispersionProblem, solution: Solution) -> float:
    """The bound, or the objective and half of what counts as optimal, whichever is larger."""
    if solution.objective is None:
        return float(solution.bound)  # type: ignore[arg-type]
    enough = problem.tolerance_at(solution.objective, 0.5 * OPTIMALITY_GAP)
    return max(float(solution.bound), solution.objective + enough)  # type: ignore[arg-type]


def _targets(problem: DispersionProblem, solution: Solution, claim: float) -> list[float]:
    """Return the bounds a tree may aim at: below the next attainable value where they are known, else the claim."""
    scaled = ScaledProblem.of(problem)
    attainable = Attainable(scaled)
    if solution.objective is None or not attainable.known or claim - solution.objective > 1e-3 * problem.scale:
        return [claim]
    above = scaled.original(attainable.above(scaled.value(solution.objective)) - 3 * attainable.error)
    ceiling = problem.trivial_bound()
    return [max(claim, min(above, ceiling) - 1e-9 * problem.scale)]


@certificate_writer(QuadraticProblem, constraints=True, pool=True)
def write_quadratic_certificate(
    solution: Solution, time_limit: float, *, relaxed: bool, recorded: Certificate | None = None
) -> Certificate | None:
    """A tree over the selections of the dispersion problem."""
    problem = solution.problem
    assert isinstance(problem, QuadraticProblem)
    inner = problem.solved_as
    objective = None if solution.x is None else inner.objective(solution.x)
    bound = None if solution.bound is None else problem.value_of(solution.bound)
    if objective is not None and bound is not None:
        bound = max(objective, bound)
    if recorded is not None:
        kind, stated = "rlt", problem_digest(inner)
        recorded = replace(recorded, kind=kind, problem=stated, bound=problem.value_of(recorded.bound))
    others = None if solution.pool_bound is None else problem.value_of(solution.pool_bound)
    given = replace(
        solution, problem=inner, objective=objective, bound=bound, trace=(), certificate=None, pool_bound=others
    )
    found = write_certificate(given, time_limit, relaxed=relaxed, recorded=recorded)  # type: ignore[call-arg]
    return None if found is None else problem.certificate_of(found)


#: Bits of the largest price of a row.
_PRICE_BITS = 39

#: Distances that a certificate is read with; some microseconds each.
_MOST_DISTANCES = 20_000_000


@certificate_writer(PointDispersionProblem, constraints=True)
def write_points_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The tangent at the relaxation's point; refused for Hellinger's distances, and where reading would take minutes.

    Under side constraints the rows have prices. That there is no selection gets no certificate.
    """
    problem = solution.problem
    assert isinstance(problem, PointDispersionProblem)
    if problem.metric != "euclidean":
        raise CertificateError(f"those of points are of Euclidean distances, and these are {problem.metric}")
    if problem.n * problem.size > _MOST_DISTANCES:
        read = problem.n * problem.size
        raise CertificateError(f"those of points are read with up to {_MOST_DISTANCES} distances, here with {read}")
    if solution.bound is None:
        raise CertificateError("those of points do not say that there is no selection")
    y, gradient = _point(problem, solution, time_limit)
    whole = on_grain(y, problem.size, POINT)
    clients = np.flatnonzero(whole)
    arrays, grid = {"clients": clients.astype(np.int64), "shares": whole[clients]}, 0
    if (prices := row_prices(problem, gradient)).any():
        grid = math.frexp(float(prices.max()))[1] - _PRICE_BITS
        arrays["price"] = np.rint(np.ldexp(prices, -grid)).astype(np.int64)
    return Certificate("points", problem_digest(problem), float(solution.bound), grid, arrays)


def _point(problem: PointDispersionProblem, solution: Solution, time_limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Point and gradient of the relaxation in half of the time, from the solution's decision."""
    run = Run(problem, "tangent", None if math.isinf(time_limit) else 0.5 * time_limit, 0)
    if solution.x is not None:
        run.offer(solution.x)
    if problem.size == problem.n:
        return np.ones(problem.n), np.zeros(problem.n)
    relaxation = solve_by_prices(problem, run) if problem.is_constrained else climbed(problem, run)
    return relaxation.y, relaxation.g
