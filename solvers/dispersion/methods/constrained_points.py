"""Points under side constraints: prices of rows at the concave relaxation, and heuristics."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from solvers.constrained_set import ConstrainedSelections
from solvers.dispersion.geometry import StoredPointGeometry
from solvers.dispersion.methods.tabu import tabu as tabu_with_matrix
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import SMALLEST, DispersionProblem, PointDispersionProblem
from solvers.dispersion.relaxations.points import PointRelaxation
from solvers.dispersion.subproblem import SubproblemRun
from solvers.errors import InvalidProblem
from solvers.feasible_set import FREE, ONE, ZERO
from solvers.run import Run

_EPS = float(np.finfo(np.float64).eps)


def first_selection(problem: PointDispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY) -> NDArray[np.int64]:
    """Return a selection near the best point of the concave relaxation, by steps of Frank-Wolfe over the rows.

    A step of 2 / (k + 2) goes towards the selection that is best for the gradient at the rows' prices; the point is
    rounded to a selection that keeps all rows.
    """
    feasible = _set_of(problem)
    sample = feasible.decision(
        np.random.default_rng(run.seed).choice(problem.n, min(problem.n, policy.point_sample), replace=False)
    )
    share = (problem.size - 1) / sample.sum()
    x = feasible.round(2 * problem.weight * share * _sums(problem, sample, run) + problem.linear)
    run.offer(x)
    point, sums = x.astype(np.float64), _sums(problem, x, run)
    for k in range(policy.first_steps):
        if run.time_limit is not None and run.seconds > policy.first_steps_time_share * run.time_limit:
            break
        g = 2 * problem.weight * sums + problem.linear
        towards = feasible.core.best(feasible.at_prices(g, feasible.prices(g))[1])
        if feasible.violation(towards) == 0:
            run.offer(towards)
        step = 2.0 / (k + 2.0)
        point += step * (towards - point)
        sums += step * (_sums(problem, towards, run) - sums)
    g = 2 * problem.weight * sums + problem.linear
    return feasible.round(point + 1e-3 * g / max(float(np.abs(g).max()), 1e-300))


def search_in_constraints(
    problem: PointDispersionProblem, run: Run, rounds: int, moves: int = 0, policy: Policy = DEFAULT_POLICY
) -> None:
    """Improve a selection by small problems until one changes nothing, or ``rounds`` are made.

    Those clients whose gain at the rows' prices is nearest to the threshold of their groups are free in a small problem
    with a matrix, all others stay where they are, and the rows have what these leave.

    Parameters
    ----------
    problem, run : PointDispersionProblem, Run
        The problem and its run, whose decision is the start.
    rounds : int
        Small problems, at most.
    moves : int
        Moves of tabu search in each; swap ascent alone by default.
    policy : Policy
        Tuning constants.
    """
    feasible = _set_of(problem)
    if run.x is None:
        run.offer(first_selection(problem, run, policy))
    for _ in range(rounds):
        if run.expired:
            return
        assert run.x is not None
        known, x = run.objective, problem.decision(run.x)
        g = 2 * problem.weight * _sums(problem, x, run) + problem.linear
        _improve(problem, run, x, g, _near(feasible, x, g, policy.nearest), moves)
        if run.objective == known:
            return


def incumbent_value(run: Run) -> float:
    """Return the value of the run's best decision; there must be one."""
    assert run.objective is not None
    return run.objective


def _set_of(problem: PointDispersionProblem) -> ConstrainedSelections:
    assert isinstance(problem.feasible, ConstrainedSelections)
    return problem.feasible


def _sums(problem: PointDispersionProblem, x: NDArray[np.int64], run: Run) -> NDArray[np.float64]:
    """Return ``Hx``."""
    chosen = np.flatnonzero(x)
    return problem.geometry.potentials(chosen, np.ones(chosen.size), run)


def _near(feasible: ConstrainedSelections, x: NDArray[np.int64], g: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return the clients that are out of place at the rows' prices, and those that lose least by a change."""
    reduced = feasible.at_prices(g, feasible.prices(g))[1]
    best = feasible.core.best(reduced)
    loss = np.where(best == x, feasible.core.losses(reduced, best), -1.0)
    loss[feasible.constraints.states != FREE] = np.inf
    return np.sort(np.argsort(loss, kind="stable")[: min(most, int(np.isfinite(loss).sum()))])


def _improve(
    problem: PointDispersionProblem,
    run: Run,
    x: NDArray[np.int64],
    g: NDArray[np.float64],
    places: NDArray[np.intp],
    moves: int,
) -> None:
    """Solve the small problem over the clients at ``places``, and offer what it brings."""
    states = np.where(x == 1, ONE, ZERO).astype(np.int8)
    states[places] = FREE
    places, left = problem.constraints.restricted(states)
    if left.size in (0, places.size):
        return
    distances = problem.geometry.distances(places)
    # What the clients that stay add to the gain of each.
    own = 2 * problem.weight * distances @ x[places]
    try:
        small = DispersionProblem(
            distances, own - g[places], size=left.size, weight=problem.weight, **left.arguments(drawn_in=2e-9)
        )
    except InvalidProblem:  # no selection is left by limits that are drawn in
        return

    def map_back(part: NDArray[np.int64]) -> NDArray[np.int64]:
        whole = x.copy()
        whole[places] = part
        return whole

    constant = problem.objective(x) - small.objective(x[places])
    inner = SubproblemRun(
        small, run, problem.rounding + small.rounding, map_back=map_back, constant=constant, outside=None
    )
    if small.violation(x[places]) == 0:
        inner.offer(ascend(small, x[places], inner))
    if moves:
        tabu_with_matrix(small, inner, moves=moves)
    inner.hand_over()


def solve_by_prices(problem: PointDispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY) -> PointRelaxation:
    """Bound by prices of the rows, and round: the relaxation, which is returned, climbs at the costs that prices make.

    The bound is the tangent at its point, over the linear relaxation of all constraints, whatever the prices are. A
    single price is found between two others; several move towards those of the tangent's linear programme, by ever
    smaller steps.
    """
    feasible = _set_of(problem)
    matrix, limits = feasible.matrix, np.array([row.high for row in feasible.priced])
    assert run.x is not None
    relaxation = PointRelaxation(problem, run, problem.decision(run.x))
    states = problem.constraints.states
    far = 2 * problem.weight * problem.diameter * problem.size + problem.spread
    fixed = np.where(states == ONE, -far, np.where(states == ZERO, far, 0.0))  # keeps the point where states are
    prices, bracket, bounds = feasible.prices(relaxation.g), _Bracket(), list[float]()
    climber = copy(relaxation)
    for step in range(policy.pricings):
        charge = fixed + prices @ matrix
        charge[np.abs(charge) < SMALLEST] = 0.0  # no problem has costs of so little alone
        climber.problem = _repriced(problem, charge)
        climber.take(relaxation, -charge)
        for _ in range(policy.climbs):
            before = climber.y
            climber.climb()
            if np.abs(climber.y - before).sum() < 1e-3 or run.expired:
                break
        relaxation.take(climber, charge)
        towards = feasible.prices(relaxation.g)
        run.tighten(relaxation.bound(feasible.at_prices(relaxation.g, towards)[0]))
        _offer(relaxation, run, feasible.round(relaxation.y), policy.nearest)
        assert run.bound is not None
        assert run.objective is not None
        bounds.append(run.bound)
        gap = run.bound - run.objective
        memory = policy.pricing_memory
        stalls = len(bounds) > memory and bounds[-1 - memory] - bounds[-1] <= policy.pricing_progress * gap
        if run.expired or run.proved or stalls or gap <= policy.pricing_gap * abs(run.objective):
            break
        if len(limits) == 1 and np.isfinite(limits[0]):
            bracket.put(prices[0], float(matrix[0] @ climber.y) - limits[0])
            fresh = np.array([bracket.next(towards[0])])
        else:
            fresh = prices + (towards - prices) / (1 + step / 2)
        if np.array_equal(fresh, prices):
            break
        prices = fresh
    return relaxation


class _Bracket:
    """Interval around the price at which a budget is just used, by secants of what prices use too much."""

    def __init__(self) -> None:
        self.low, self.high = (0.0, np.inf), (np.inf, -np.inf)  # a price and what it uses too much, at either end
        self.last: list[tuple[float, float]] = []

    def put(self, price: float, excess: float) -> None:
        """Take over what the relaxation at a price uses beyond the limit."""
        self.last = [*self.last[-1:], (price, excess)]
        if excess > 0:
            self.low = (price, excess)
        else:
            self.high = (price, excess)

    def next(self, guess: float) -> float:
        """Return the next price: a guess at first, then by a secant; the middle where one end stays for twice."""
        (first, over), (last, under) = self.low, self.high
        inside = np.isfinite(over) and np.isfinite(under)
        ends = (self.low, self.high) if inside else self.last
        if len(ends) < 2 or ends[0][1] == ends[1][1]:
            return guess if first < guess < last else (first + last) / 2 if np.isfinite(last) else 1.1 * first
        (p, e), (q, f) = ends
        met = q - f * (p - q) / (e - f)
        if not inside:  # a little beyond, so that the other end is known
            met += 0.1 * (met - q)
            return float(met) if first < met < last else guess
        if len(self.last) == 2 and (self.last[0][1] > 0) == (self.last[1][1] > 0):
            met = (first + last) / 2
        return float(min(max(met, first + 0.02 * (last - first)), last - 0.02 * (last - first)))


def _offer(relaxation: PointRelaxation, run: Run, x: NDArray[np.int64], most: int) -> None:
    """Offer a decision near the relaxation's point, where it is not worse than the run's as seen from there."""
    problem, change = relaxation.problem, x - relaxation.y
    some = np.flatnonzero(change)
    if run.objective is not None and some.size <= most:
        change = change[some]
        bend = problem.weight * float(change @ problem.geometry.distances(some) @ change)
        if relaxation.value() + float(relaxation.g[some] @ change) + bend < run.objective:
            return
    run.offer(x)


def stored(problem: PointDispersionProblem, run: Run, policy: Policy) -> PointDispersionProblem:
    """Return the problem with distances that are stored, where that many fit."""
    if problem.n > policy.points_stored:
        return problem
    held = copy(problem)
    held.__dict__["geometry"] = StoredPointGeometry(problem.geometry.coordinates, run)
    return held


def _repriced(problem: PointDispersionProblem, charge: NDArray[np.float64]) -> PointDispersionProblem:
    """The problem without side constraints, at costs that are higher by a charge."""
    made = PointDispersionProblem(
        problem.points, problem.costs + charge, size=problem.size, weight=problem.weight, metric=problem.metric
    )
    made.__dict__["geometry"] = problem.geometry
    return made
