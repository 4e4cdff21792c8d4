"""Quadratic fixing: bounds of both sides of every client against enumeration, and what is fixed."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from solvers import instances, solve
from solvers.benchmark.rounds import Round
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem
from solvers.dispersion.methods.constrained import solve_constrained
from solvers.dispersion.methods.exact import brute_force
from solvers.dispersion.methods.fixing import Fixing, fix_by_products, fix_clients, union_of_shifts
from solvers.dispersion.neighbourhood import ascend, ensure_incumbent
from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations.dominance import dominance
from solvers.dispersion.relaxations.fixing import client_bounds
from solvers.dispersion.relaxations.low_rank import LowRankRelaxation
from solvers.dispersion.relaxations.semidefinite import relax
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.subproblem import SubproblemRun
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP
from tests.solvers.dispersion.cases import problem_with_a_choice, selections
from tests.solvers.dispersion.constrained.cases import feasible_cases
from tests.thoroughly import few_of


def small_case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """A quadratic and a linear term, with ties, equal clients and costs of any size among them, and m."""
    n = int(rng.integers(2, 8))
    m = int(rng.choice([1, n - 1, rng.integers(1, n)]))
    kind = rng.integers(5)
    if kind == 0:
        h = rng.random((n, n))
    elif kind == 1:
        h = rng.integers(0, 3, (n, n)).astype(float)
    elif kind == 2:
        points = rng.normal(size=(n, 2))
        h = np.linalg.norm(points[:, None] - points, axis=2)
    elif kind == 3:
        h = np.ones((n, n))
    else:
        types, apart = rng.integers(0, 3, n), rng.random((3, 3))
        h = (apart + apart.T)[np.ix_(types, types)]
    h = np.triu(h, 1) * 10.0 ** rng.integers(-6, 7)
    costs = (np.zeros(n), rng.normal(size=n), rng.integers(0, 3, n) * 0.5)[rng.integers(3)]
    return h + h.T, costs * 10.0 ** rng.integers(-6, 10), m


def swept(h: np.ndarray, linear: np.ndarray, m: int) -> LowRankRelaxation:
    """The low-rank relaxation after twenty sweeps."""
    relaxation = LowRankRelaxation(h, linear, m, 0.2)
    relaxation.sweep(20)
    return relaxation


def exact_values(h: np.ndarray, linear: np.ndarray, chosen: np.ndarray) -> list[Fraction]:
    """Values of selections, a row each, in whole numbers and fractions."""
    pairs, worth = [[Fraction(v) for v in row] for row in h], [Fraction(v) for v in linear]
    values = []
    for row in chosen:
        ids = np.flatnonzero(row)
        values.append(sum((pairs[i][j] for i in ids for j in ids), Fraction(0)) + sum(worth[i] for i in ids))
    return values


@pytest.mark.parametrize("seed", few_of(range(40), 1))
def test_no_bound_is_below_a_restricted_optimum(seed):
    rng = np.random.default_rng(seed)
    certified = 0
    for _ in range(100):
        h, linear, m = small_case(rng)
        n = linear.size
        chosen = selections(n, m)
        values = exact_values(h, linear, chosen)
        relaxation = swept(h, linear, m)
        raised = h
        if rng.random() < 0.5:  # multipliers of products raise the objective, and never a bound below it
            relaxation.raise_products(0.05)
            relaxation.sweep(20)
            raised = h + relaxation.raised()
        diagonal = relaxation.diagonal()
        unit = max(float(np.abs(diagonal).mean()), float(np.abs(h).max()), 1e-300)
        for shift in (1e-9, 1e-6, 1e-3, 0.3, 3.0):
            bounds = client_bounds(raised, linear, m, diagonal + shift * unit)
            if bounds is None:
                continue
            certified += 1
            assert Fraction(bounds.bound) >= max(values)
            for i in range(n):
                with_it = [v for v, row in zip(values, chosen, strict=True) if row[i]]
                without = [v for v, row in zip(values, chosen, strict=True) if not row[i]]
                assert not with_it or Fraction(float(bounds.chosen[i])) >= max(with_it)
                assert not without or Fraction(float(bounds.left_out[i])) >= max(without)
    assert certified > 150


def test_the_curvature_alone_bounds_a_client_as_it_should():
    h = np.zeros((3, 3))
    linear, diagonal = np.array([3.0, 1.0, 0.0]), np.full(3, 8.0)
    # f(s) = -8|s|² + (l + 8)ᵀs on 1ᵀs = 1: y = 1/3 + (l - mean l) / 16, (A⁻¹)_ii on the slice is (1 - 1/3) / 8.
    y = 1 / 3 + (linear - linear.mean()) / 16
    top = float(-8 * y @ y + (linear + 8) @ y)
    bounds = client_bounds(h, linear, 1, diagonal)
    assert bounds is not None
    assert bounds.bound == pytest.approx(top, rel=1e-9)
    assert top - bounds.chosen == pytest.approx((1 - y) ** 2 * 8 / (2 / 3), rel=0.01)
    assert top - bounds.left_out == pytest.approx(y**2 * 8 / (2 / 3), rel=0.01)
    assert (bounds.chosen >= linear).all()


@pytest.mark.parametrize("seeds", few_of([range(2), range(2, 20)], 1))
def test_bounds_under_an_order_hold_for_the_selections_that_keep_it(seeds):
    certified, better = 0, np.zeros(2, dtype=int)
    for seed, number in itertools.product(seeds, range(100)):
        h, linear, _ = small_case(np.random.default_rng((seed, number)))
        if linear.size < 4:
            continue
        m = 2 + number % (linear.size - 3)
        bounds = client_bounds(h, linear, m, swept(h, linear, m).diagonal() + 3 * np.abs(h).max())
        if bounds is None:
            continue
        certified += 1
        order, chosen = dominance(h, linear, m), selections(linear.size, m)
        values = np.array([float(v) for v in exact_values(h, linear, chosen)])
        kept = (chosen[:, order.pairs[:, 0]] >= chosen[:, order.pairs[:, 1]]).all(axis=1)
        ordered, scale = bounds.ordered(order.pairs), 1e-9 * (1 + np.abs(values).max())
        for client in range(linear.size):
            inside = chosen[:, client] == 1
            assert values[kept & inside].max(initial=-np.inf) <= ordered.chosen[client] + scale
            assert values[kept & ~inside].max(initial=-np.inf) <= ordered.left_out[client] + scale
        better += [(ordered.chosen < bounds.chosen).sum(), (ordered.left_out < bounds.left_out).sum()]
    assert certified > 40 * len(seeds)
    assert (better > 20 * len(seeds)).all()


def test_multipliers_that_leave_a_direction_convex_bound_nothing():
    h = np.ones((6, 6)) - np.eye(6)  # -zᵀhz = |z|² where 1ᵀz = 0
    assert client_bounds(h, np.zeros(6), 3, np.zeros(6)) is not None
    assert client_bounds(h, np.zeros(6), 3, np.full(6, -0.999)) is not None
    assert client_bounds(h, np.zeros(6), 3, np.full(6, -1.001)) is None
    assert client_bounds(-h, np.zeros(6), 3, np.zeros(6)) is None
    assert client_bounds(h, np.zeros(6), 3, -np.ones(6)) is None  # on the brink, which rounding decides


def federation(n: int, size: int, seed: int = 0, spread: int = 40) -> DispersionProblem:
    """A round between clients with Dirichlet shares of ten labels, with counts drawn at random."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(10, 0.3), n)
    h = np.linalg.norm(shares[:, None] - shares, axis=2)
    return DispersionProblem.fedgs(h, rng.poisson(spread, n), np.ones(n, dtype=bool), size, 1.0)


def test_twenty_sweeps_are_near_the_interior_point_method():
    problem = federation(120, 12)
    scaled = ScaledProblem.of(problem)
    best = relax(scaled.quadratic, scaled.linear, 12).bound
    relaxation = swept(scaled.quadratic, scaled.linear, 12)
    diagonal, x = relaxation.diagonal(), relaxation.x()
    bounds = client_bounds(scaled.quadratic, scaled.linear, 12, diagonal + 1e-4 * np.abs(diagonal).mean())
    assert bounds is not None
    assert best - 1e-6 <= bounds.bound <= best * (1 + 5e-3)
    assert x.sum() == pytest.approx(12, abs=0.1)


@pytest.mark.parametrize("seed", few_of(range(30), 2))
def test_no_better_selection_is_fixed_away(seed):
    rng = np.random.default_rng(seed)
    fixed = 0
    for _ in range(80):
        problem = problem_with_a_choice(rng, 9)
        run = Run(problem, "test", None, 0)
        ensure_incumbent(problem, run)
        start = run.objective
        fix = fix_by_products if seed % 2 else fix_clients
        fixing = fix(problem, run, Policy(fixing_shifts=(0.3, 0.1, 0.03, 1e-2, 1e-3), fixing_few=2))
        kept = fixing.problem.size - fixing.size
        assert kept == fixing.ones.size
        if fixing.ids.size == problem.n:
            continue
        fixed += 1
        chosen = selections(problem.n, problem.size)
        values = np.array([problem.objective(row) for row in chosen])
        within = chosen[:, fixing.ones].all(axis=1) & ((chosen[:, fixing.ids].sum(axis=1) + kept) == problem.size)
        slack = problem.tolerance_at(run.objective, OPTIMALITY_GAP) + 2 * problem.rounding
        assert run.objective >= start
        assert (values[~within] <= run.objective + slack).all()
        assert values.max() <= run.bound + 2 * problem.rounding
        if 0 < fixing.size < fixing.ids.size:
            few, inner = fixing.part()
            few_chosen = selections(few.n, few.size)[:50]
            for row in few_chosen:
                whole = np.zeros(problem.n, dtype=np.int64)
                whole[fixing.ones], whole[fixing.ids] = 1, row
                assert abs(few.objective(row) - problem.objective(whole)) <= inner.slack
    assert fixed >= 3


def test_a_union_of_shifts_fixes_more_than_each_alone():
    problem = federation(300, 30)
    run = Run(problem, "test", None, 0)
    ensure_incumbent(problem, run)

    def fixed(shifts: tuple[float, ...]) -> int:
        fixing = Fixing(problem, run)
        quadratic, linear, constant = fixing.terms()
        diagonal = swept(quadratic, linear, 30).diagonal()
        bounds = union_of_shifts(fixing, quadratic, linear, diagonal, constant, Policy(fixing_shifts=shifts))
        assert bounds is not None
        return fixing.fix(bounds, constant)

    shifts = Policy().fixing_shifts
    each = [fixed((shift,)) for shift in shifts]
    assert max(each) > 200
    assert fixed(shifts) >= max(each)


def test_multipliers_of_products_fix_where_those_of_the_diagonal_do_not():
    problem = Round(200, "0.3", "played")()
    left = []
    for fix in (fix_clients, fix_by_products):
        run = Run(problem, "test", 60.0, 0)
        ensure_incumbent(problem, run)
        left.append((fix(problem, run, Policy(fixing_time_share=1.0)).ids.size, run.bound))
    assert left[0][0] > 1.3 * left[1][0]
    assert left[0][1] > left[1][1]


def test_what_a_short_search_proves_is_not_fixed_first():
    problem = instances.load("fedgs-synthetic-n300-m30-lessdata-r10")
    found = solve(problem)
    assert found.status == "optimal"
    assert "fixed" not in found.details
    assert "fixed" in solve(problem, policy=Policy(short_search=0.0)).details


def test_what_a_restart_takes_over_are_the_rows_and_multipliers_of_its_clients():
    problem = federation(60, 6)
    scaled = ScaledProblem.of(problem)
    relaxation = swept(scaled.quadratic, scaled.linear, 6)
    relaxation.raise_products(0.05)
    kept = np.array([3, 4, 10, 50])
    rows, nonnegative = relaxation.among(kept)
    assert np.array_equal(rows, relaxation.rows[[0, 4, 5, 11, 51]])
    assert np.array_equal(nonnegative, relaxation.nonnegative[np.ix_(kept, kept)])
    few = LowRankRelaxation(scaled.quadratic[np.ix_(kept, kept)], scaled.linear[kept], 2, 0.1, (rows, nonnegative))
    few.sweep(40)
    bounds = client_bounds(
        scaled.quadratic[np.ix_(kept, kept)] + few.raised(), scaled.linear[kept], 2, few.diagonal() + 1e-2
    )
    chosen = selections(4, 2)
    values = exact_values(scaled.quadratic[np.ix_(kept, kept)], scaled.linear[kept], chosen)
    assert Fraction(bounds.bound) >= max(values)


@pytest.mark.parametrize("costs", ["drawn", "huge", "equal"])
def test_auto_proves_a_round_of_a_tenth_of_the_clients(costs):
    problem = federation(400, 40, spread=0 if costs == "equal" else 40)
    if costs == "huge":
        problem = DispersionProblem(problem.distances, problem.costs + 1e6, size=40, weight=problem.weight)
    found = solve(problem, time_limit=60)
    assert found.status == "optimal"
    if costs != "equal":  # one shift proves it; without that stage clients are fixed
        alone = solve(problem, time_limit=60, policy=Policy(largest_tree=399))
        assert alone.status == "optimal"
        assert alone.details["fixed"] > 300
        assert abs(alone.objective - found.objective) <= problem.tolerance_at(found.objective, 2 * OPTIMALITY_GAP)
    plain = solve(problem, "branch-and-bound", time_limit=10)
    assert plain.objective <= found.objective + problem.tolerance_at(found.objective, 2 * OPTIMALITY_GAP)
    assert plain.bound >= found.objective - 2 * problem.rounding


def test_where_one_shift_all_but_proves_it_no_client_is_fixed():
    problem = federation(400, 40)
    found = solve(problem, time_limit=60)
    assert found.status == "optimal"
    assert "fixed" not in found.details
    plain = solve(problem, "branch-and-bound", time_limit=10)
    assert plain.objective == pytest.approx(found.objective, rel=2 * OPTIMALITY_GAP)


def test_multipliers_that_ran_out_of_time_before_the_first_product_are_taken_over():
    """A limit may end the sweeps before any multiplier of a product is raised; the next relaxation starts from rows."""
    problem = federation(60, 6)
    scaled = ScaledProblem.of(problem)
    relaxation = swept(scaled.quadratic, scaled.linear, 6)
    kept = np.array([3, 4, 10, 50])
    start = relaxation.among(kept)
    assert start[1].size == 0
    few = LowRankRelaxation(scaled.quadratic[np.ix_(kept, kept)], scaled.linear[kept], 2, 0.1, start)
    assert few.raised() is None
    few.sweep(40)
    chosen = selections(4, 2)
    values = exact_values(scaled.quadratic[np.ix_(kept, kept)], scaled.linear[kept], chosen)
    bounds = client_bounds(scaled.quadratic[np.ix_(kept, kept)], scaled.linear[kept], 2, few.diagonal() + 1e-2)
    assert Fraction(bounds.bound) >= max(values)


def test_the_same_seed_fixes_the_same_clients():
    problem = federation(250, 25)
    left = []
    for _ in range(2):
        run = Run(problem, "test", None, 0)
        ensure_incumbent(problem, run)
        fixing = fix_clients(problem, run)
        left.append((fixing.ids.tolist(), fixing.ones.tolist(), run.bound))
    assert left[0] == left[1]


def test_a_selection_that_grows_at_once_is_the_one_that_grows_step_by_step():
    grown = 0
    for problem, _ in feasible_cases(range(7000, 7150)):

        def gains(problem=problem):
            g = problem.linear + 2 * problem.weight * problem.distances[problem.feasible.included].sum(axis=0)

            def after(client):
                nonlocal g
                g = g + 2 * problem.weight * problem.distances[client]
                return g

            return g, after

        at_once = problem.feasible.grown_at_once(*gains())
        if at_once is not None:
            grown += 1
            assert np.array_equal(at_once, problem.feasible.grown(*gains()))
    assert grown > 15


@pytest.mark.parametrize("seeds", few_of([range(6000, 6060), range(6060, 9120), range(9120, 12120)], 1))
def test_prices_of_rows_fix_no_better_selection_away(seeds):
    fixed = left = 0
    policy = Policy(fixing_shifts=(0.3, 0.1, 0.03, 1e-2, 1e-3), fixing_few=2)
    for seed, (problem, kept) in enumerate(feasible_cases(seeds)):
        run = Run(problem, "test", None, 0)
        decisions = [problem.feasible.decision(each) for each in kept]
        run.offer(ascend(problem, decisions[seed % len(kept)], run))
        start = Fixing(problem, run).ids.size
        fixing = (fix_by_products if seed % 2 else fix_clients)(problem, run, policy)
        within = [x[fixing.ones].all() and x[fixing.ids].sum() + fixing.ones.size == problem.size for x in decisions]
        values = np.array([problem.objective(x) for x in decisions])
        slack = problem.tolerance_at(run.objective, OPTIMALITY_GAP) + 2 * problem.rounding
        assert run.bound is None or run.bound >= values.max() - 2 * problem.rounding
        assert (values[~np.array(within)] <= run.objective + slack).all()
        fixed += fixing.ids.size < start
        if fixing.is_decided or run.proved:
            continue
        if fixing.is_contradictory:
            assert not any(within)
            continue
        few, inner = fixing.part()
        for x in itertools.compress(decisions, within):
            assert few.violation(x[fixing.ids]) == 0
            assert abs(few.objective(x[fixing.ids]) - problem.objective(x)) <= inner.slack
        left += 1
        solve_constrained(few, inner, policy=policy) if few.is_constrained else brute_force(few, inner)
        assert run.objective >= values.max() - slack
        assert run.proved
    assert fixed >= len(seeds) // 100
    assert left >= len(seeds) // 40


@pytest.mark.parametrize(
    "seeds", few_of([range(7100, 7250), *(range(start, start + 400) for start in range(7100, 19100, 400))], 1)
)
def test_no_bound_is_below_what_keeps_the_rows(seeds):
    certified = charging = 0
    for problem, kept in feasible_cases(seeds):
        fixing = Fixing(problem, Run(problem, "test", None, 0))
        if fixing.is_decided:
            continue
        quadratic, linear, constant = fixing.terms()
        relaxation = LowRankRelaxation(quadratic, linear, fixing.size, 0.1, sides=fixing.sides_left())
        relaxation.sweep(20)
        sides, m, diagonal = relaxation.sides, fixing.size, relaxation.diagonal()
        charging += bool(sides.prices.any())
        charged, costs, paid = sides.charged(quadratic, linear, constant)
        decisions = np.array([problem.feasible.decision(each)[fixing.ids] for each in kept])
        values = np.array([s @ quadratic @ s + linear @ s + constant for s in decisions])
        for shift in (0.1, 1.0, 10.0):
            bounds = client_bounds(charged, costs, m, diagonal + shift * max(np.abs(diagonal).mean(), 1e-3))
            if bounds is None:
                continue
            certified += 1
            spare = sides.margin(problem.size) + 1e-12
            assert bounds.bound + paid + spare >= values.max()
            for i, s in enumerate(decisions.T):
                assert bounds.chosen[i] + paid + spare >= values[s == 1].max(initial=-np.inf)
                assert bounds.left_out[i] + paid + spare >= values[s == 0].max(initial=-np.inf)
    assert certified > 3 * len(seeds) // 20
    assert charging > 3 * len(seeds) // 80


def test_who_fits_no_selection_beside_those_chosen():
    problem = DispersionProblem(
        np.zeros((6, 6)),
        size=3,
        quotas=[Quota([0, 1, 2], 1, 2), Quota([3, 4], 1)],
        budgets=[Budget([1.0, 2.0, 3.0, 1.0, 1.0, 4.0], 5.0)],
        conflicts=[[0, 4]],
    )
    sides = Fixing(problem, Run(problem, "test", None, 0)).sides
    everyone = np.arange(6)

    def excluded(*ones: int) -> list[int]:
        left = np.setdiff1d(everyone, ones)
        return left[sides.excluded(left, np.array(ones, dtype=int))].tolist()

    assert excluded() == []
    assert excluded(0) == [4]
    assert excluded(4) == [0]  # who uses 4 of the 4 that are left fits
    assert excluded(2) == [5]
    assert excluded(0, 1) == [2, 4, 5]


def test_a_part_without_a_selection_proves_the_incumbent():
    problem = DispersionProblem(np.ones((4, 4)) - np.eye(4), np.arange(4.0), size=2)
    run = Run(problem, "test", None, 0)
    run.offer([0, 1])
    few = DispersionProblem(np.zeros((2, 2)), size=1)
    SubproblemRun(few, run, 0.0, map_back=lambda x: np.append([0, 0], x), outside=run.objective).infeasible()
    assert run.proved
    again = Run(problem, "test", None, 0)
    SubproblemRun(problem, again, 0.0).infeasible()
    assert again.solution().status == "infeasible"


@pytest.mark.parametrize("kind", few_of(["drawn", "played"], 1))
def test_auto_proves_rounds_under_side_constraints(kind):
    plain = Round(320, "0.3", kind)()
    rng = np.random.default_rng(0)
    group, use = rng.permutation(320) % 3, rng.lognormal(0, 0.5, 320)
    pairs = [rng.choice(320, 2, replace=False).tolist() for _ in range(40)]
    problem = DispersionProblem(
        plain.distances,
        plain.costs,
        size=32,
        weight=plain.weight,
        quotas=[Quota(np.flatnonzero(group == 0), 14), Quota(np.flatnonzero(group == 1), 0, 6)],
        budgets=[Budget(use, 0.9 * 32 * use.mean())] if kind == "drawn" else [],
        conflicts=pairs,
    )
    found = solve(problem, time_limit=60)
    assert found.status == "optimal"
    assert found.details["fixed"] > 100
    assert set(found.prices) == {row.name for row in problem.constraints.rows}
    assert problem.violation(found.x) == 0


def test_a_search_of_the_rest_goes_on_when_more_clients_are_fixed():
    """What it finds later is the same selection of all clients, whoever is left by then."""
    rng = np.random.default_rng(5)
    h = np.triu(rng.random((20, 20)), 1)
    problem = DispersionProblem(h + h.T, rng.random(20), size=6)
    run = Run(problem, "test", None, 0)
    run.offer(np.repeat([1, 0], [6, 14]))
    fixing = Fixing(problem, run)
    fixing.settle(np.array([2 * 3, 2 * 0 + 1]))  # client 3 is left out, client 0 chosen
    few, inner = fixing.part()
    fixing.settle(np.array([2 * 1, 2 * 2 + 1]))
    brute_force(few, inner)
    assert run.x[[0, 3]].tolist() == [1, 0]
    assert problem.objective(run.x) == pytest.approx(few.objective(inner.x))
    assert np.array_equal(np.delete(run.x, [0, 3]), inner.x)
