"""Methods on problems with side constraints: against enumeration, against each other, and with one constraint less."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers import Solution, methods, solve, with_dropped_constraints
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.errors import InvalidProblem
from tests.solvers.dispersion.constrained.cases import draw_case, draw_constraints, feasible_cases, keeps
from tests.thoroughly import few_of

SEEDS = few_of([range(10), range(10, 20), *(range(start, start + 20) for start in range(20, 1200, 20))], 1)

OURS = [each.name for each in methods(DispersionProblem) if each.constraints and not each.requires]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("seeds", SEEDS)
def test_decisions_keep_constraints_and_bounds_hold(name, seeds):
    for problem, kept in feasible_cases(seeds):
        optimum = max(problem.objective(problem.feasible.decision(each)) for each in kept)
        solution = solve(problem, name, time_limit=20)
        assert solution.x is not None
        assert tuple(np.flatnonzero(solution.x).tolist()) in set(kept)
        if solution.bound is not None:
            assert solution.bound >= optimum - problem.rounding
        if solution.status == "optimal":
            assert solution.objective == pytest.approx(optimum, abs=2e-6)


@pytest.mark.parametrize("seeds", SEEDS)
def test_rows_hardly_weaken_the_semidefinite_bound(seeds):
    """The free relaxation converges, the root under rows ends earlier; nearly all clients are enumerated where free."""
    tried = 0
    for problem, _ in feasible_cases(seeds):
        if problem.size >= problem.n - 1:
            continue
        tried += 1
        free = DispersionProblem(problem.distances, problem.costs, size=problem.size)
        bound, alone = (solve(each, "sdp", strength="basic").bound for each in (problem, free))
        assert bound <= alone + 1e-3 * problem.scale
    assert tried >= 2


@pytest.mark.parametrize("name", ["greedy", "local-search", "tabu", "random"])
def test_points_and_kinds_keep_constraints(name):
    rng = np.random.default_rng(3)
    n, m = 60, 6
    points, kinds = rng.random((n, 2)), np.arange(n) % 9
    stated = {
        "quotas": [Quota(range(30), 2, 3)],
        "budgets": [Budget(rng.random(n), 2.0, "seconds")],
        "include": [4],
        "conflicts": [(4, 5)],
    }
    places = rng.random((9, 2))
    between = np.linalg.norm(places[:, None] - places, axis=2)
    for problem in (
        PointDispersionProblem(points, size=m, **stated),
        KindDispersionProblem(between, kinds, rng.random(n), size=m, **stated),
    ):
        solution = solve(problem, name, time_limit=5)
        best = solve(problem.expanded(), "tabu", moves=3000)
        assert problem.violation(solution.x) == 0
        assert solution.objective <= best.objective + 1e-6 or name == "tabu"
        if name == "tabu":
            assert solution.objective >= 0.99 * best.objective


@pytest.mark.parametrize("seeds", SEEDS)
def test_points_are_proved_by_prices_and_a_tree_over_what_is_left(seeds):
    proved = 0
    for seed in seeds:
        rng = np.random.default_rng([seed, 5])
        n = int(rng.integers(4, 12))
        m, points = int(rng.integers(2, n)), rng.random((n, int(rng.integers(1, 4))))
        points = np.round(3 * points) if rng.random() < 0.3 else points
        stated, costs = draw_constraints(rng, n, m), rng.normal(size=n) * (rng.random() < 0.5)
        try:
            problem = PointDispersionProblem(points, costs, size=m, **stated)
        except InvalidProblem:
            continue
        found = solve(problem, "branch-and-bound", time_limit=20)
        kept = [each for each in itertools.combinations(range(n), m) if keeps(stated, each)]
        assert (found.status == "infeasible") == (not kept)
        if kept:
            optimum = max(problem.objective(problem.feasible.decision(each)) for each in kept)
            assert found.status == "optimal"
            assert found.objective == pytest.approx(optimum, rel=2e-6, abs=2e-6)
            relaxed = solve(problem, "tangent")
            assert problem.violation(relaxed.x) == 0
            assert min(found.bound, relaxed.bound) >= optimum - problem.rounding
            proved += 1
    assert proved


def test_many_points_have_stored_distances_and_the_optimum_of_their_matrix():
    rng = np.random.default_rng(0)
    use = rng.integers(0, 1000, 160)
    problem = PointDispersionProblem(
        100 * rng.random((160, 2)), size=16, include=[5], exclude=[7, 8], budgets=[Budget(use, 0.06 * use.sum(), "use")]
    )
    found, by_matrix = solve(problem, "auto", time_limit=20), solve(problem.expanded(), "auto", time_limit=20)
    assert [each["name"] for each in found.details["phases"]] == ["prices of rows", "swaps"]
    assert found.status == by_matrix.status == "optimal"
    assert found.objective == pytest.approx(by_matrix.objective, rel=2e-6)


@pytest.mark.parametrize(
    ("name", "n", "has_prices"), [("auto", 60, True), ("auto", 160, False), ("branch-and-bound", 60, False)]
)
def test_prices_between_points_are_those_of_all_clients_or_none(name, n, has_prices):
    """What reduced costs leave is a smaller problem, whose prices and bound say nothing of the whole."""
    rng = np.random.default_rng(0)
    points, use = rng.random((n, 2)), rng.random(n)

    def solved(limit: float, name: str = "auto") -> Solution:
        budget = Budget(use, limit, "seconds")
        return solve(PointDispersionProblem(points, size=10, budgets=[budget]), name, time_limit=20)

    found = solved(3.0, name)
    assert found.status == "optimal"
    assert bool(found.prices) == (found.priced_bound is not None) == has_prices
    assert not has_prices or found.prices.slack > 0  # the matrix rounds otherwise than the points
    for moved in (-1.0, 0.0, 1.0) if has_prices else ():
        assert solved(3.0 + moved).objective <= found.priced_bound + moved * found.prices["seconds"]


#: Two budgets that each allow a selection, and no selection that keeps both.
_TIED = {"budgets": [Budget([1, 1, 0, 0], 1.0, "a"), Budget([0, 0, 1, 1], 0.5, "b")]}


@pytest.mark.parametrize("name", OURS)
def test_what_has_no_selection_is_infeasible(name):
    problem = DispersionProblem(1 - np.eye(4), size=2, **_TIED)
    solution = solve(problem, name, time_limit=20)
    assert solution.status == "infeasible"
    assert solution.x is None


@pytest.mark.parametrize("seeds", SEEDS)
def test_one_constraint_less_never_lowers_the_optimum(seeds):
    for problem, _ in feasible_cases(seeds):
        value = solve(problem, "brute-force").objective
        stated = problem.stated_constraints()
        for name, given in stated.items():
            for k in range(len(given)):
                fewer = {**stated, name: given[:k] + given[k + 1 :]}
                freed = DispersionProblem(problem.distances, problem.costs, size=problem.size, **fewer)
                assert solve(freed, "brute-force").objective >= value - 2 * problem.rounding


def test_objectives_with_and_without_each_constraint_by_hand():
    """On a line the two ends are best; a quota keeps the left one out, a budget the right one."""
    problem = PointDispersionProblem(
        [[0.0], [1.0], [4.0], [8.0], [9.0]],
        size=2,
        quotas=[Quota([0, 1], at_most=0), Quota([3, 4], 1, name="right")],
        budgets=[Budget([0, 0, 0, 1, 5], 2, "bytes")],
    )
    solution = solve(problem, "brute-force")
    assert (solution.selected.tolist(), solution.objective) == ([2, 3], 8.0)
    told = with_dropped_constraints(solution, "branch-and-bound")
    assert {name: each["objective"] for name, each in told.dropped.items()} == pytest.approx(
        {"quotas[0]": 16.0, "right": 8.0, "bytes": 10.0, "all": 18.0}
    )
    assert all(each["bound"] >= each["objective"] for each in told.dropped.values())
    assert "without bytes" in told.summary()
    assert not told.problem.without().is_constrained
    assert told.problem.without("quotas[0]").constraint_names == ("right", "bytes")
    with pytest.raises(InvalidProblem, match="no constraint 'byte' \\(it has 'quotas\\[0\\]', 'right', 'bytes'\\)"):
        problem.without("byte")
    with pytest.raises(InvalidProblem, match="the solution has no side constraints"):
        with_dropped_constraints(solve(problem.without(), "greedy"))


def test_infeasible_cases_are_said_to_be():
    drawn = [problem for problem, kept in map(draw_case, range(100)) if problem is not None and not kept]
    assert drawn
    assert {solve(problem, "brute-force").status for problem in drawn} == {"infeasible"}
    assert {solve(problem, "milp", time_limit=20).status for problem in drawn} == {"infeasible"}


def test_a_round_with_quotas_and_a_budget_improves_by_swaps():
    rng = np.random.default_rng(7)
    n, m = 60, 8
    points = rng.random((n, 3))
    seconds = rng.lognormal(size=n)
    problem = DispersionProblem(
        np.linalg.norm(points[:, None] - points, axis=2), size=m, include=[3],
        quotas=[Quota(range(k * 15, k * 15 + 15), 1, 3, f"region {k}") for k in range(4)],
        budgets=[Budget(seconds, 0.8 * m * seconds.mean(), "seconds")],
    )  # fmt: skip
    greedy, searched = (solve(problem, name) for name in ("greedy", "local-search"))
    assert searched.objective >= greedy.objective
    assert problem.violation(searched.x) == 0


@pytest.mark.parametrize("name", ["auto", "branch-and-bound", "cp-sat"])
def test_nothing_is_left_to_choose(name):
    """Where every client is included or excluded there is one selection, or none."""
    h = np.ones((4, 4)) - np.eye(4)
    one = DispersionProblem(h, [1.0, 2.0, 3.0, 4.0], size=2, include=[1, 3], exclude=[0, 2])
    solution = solve(one, name)
    assert (solution.status, solution.selected.tolist()) == ("optimal", [1, 3])


def test_rows_of_cp_sat_are_coarse_enough_for_its_presolve():
    """With coefficients of 2³⁴ CP-SAT 9.15 calls the third best of these four selections optimal."""
    h = np.zeros((4, 4))
    h[np.triu_indices(4, 1)] = 0.557, 0.486, 0.152, 0.658, 0.12, 0.029
    budget = Budget([0.8367, 0.2124, 0.9145, 0.3154], 1.19055)
    problem = DispersionProblem(h + h.T, [0.352, -0.498, 0.593, 1.388], size=2, budgets=[budget])
    assert solve(problem, "cp-sat").selected.tolist() == [0, 1]


#: Costs that ask for clients 1 and 3 of four; the nearest others are 0 and 3.
_COSTS = [2.0, 0.0, 9.0, 1.0]
_EDGES = {
    "limits beyond everything": (
        {"budgets": [Budget([1e-90, 2e-90, 0, 0], 1e300, "a"), Budget([1, 1, 1, 1], 1.7e308, "b")]},
        [1, 3],
    ),
    "names of other rows": (
        {
            "budgets": [Budget([1, 2, 1, 1], 2.0, "size"), Budget([1, 1, 1, 1], 2.0, "include")],
            "quotas": [Quota([0, 1], 1, 1, "exclude")],
        },
        [0, 3],
    ),
    "uses of no client": ({"budgets": [Budget(np.zeros(4), 0.0, "a"), Budget([1, 1.5, 0, 1], 2.0, "b")]}, [0, 3]),
    "a limit that one client exceeds by far": ({"budgets": [Budget([1e-9, 1e9, 1e-9, 1e-9], 2e-9)]}, [0, 3]),
    "a limit below the others' rounding": (
        {"budgets": [Budget([0.1, 0.2, 0.7, 0.1 + 1e-8], 0.3 + 5e-9, "a"), Budget([1, 1, 1, 1], 2.0, "b")]},
        [0, 1],
    ),
    "no client fits": ({"budgets": [Budget([1e3, 1, 1e3, 1e-11], 2e-11, "a"), Budget([1, 1, 1, 1e9], 2.0, "b")]}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", [each for each in OURS if each in ("auto", "branch-and-bound", "cp-sat", "milp")])
@pytest.mark.parametrize("edge", _EDGES)
def test_rows_at_their_edges(edge, name):
    """Rows are scaled for the programmes that read them: nothing may overflow or vanish."""
    stated, selected = _EDGES[edge]
    problem = DispersionProblem(1 - np.eye(4), _COSTS, size=1 if selected is None else 2, **stated)
    solution = solve(problem, name, time_limit=20)
    if selected is None:
        assert (solution.status, solution.x) == ("infeasible", None)
    else:
        assert solution.selected.tolist() == selected
        assert solution.status == "optimal" or name == "milp"


def test_one_client_beside_huge_distances_is_stated_in_64_bits():
    problem = DispersionProblem(1e70 * (1 - np.eye(3)), size=1, quotas=[Quota([0, 1], 0, 0), Quota([1, 2], 0, 1)])
    assert solve(problem, "cp-sat").selected.tolist() == [2]


@pytest.mark.parametrize("name", ["local-search", "tabu"])
def test_points_in_conflict_are_searched(name):
    """A part of the problem states its conflicts anew; where limits are met to the last bit none is left."""
    points = np.arange(8.0)[:, None]
    problem = PointDispersionProblem(points, size=3, conflicts=[(0, 7), (1, 6)])
    assert solve(problem, name).objective == solve(problem, "auto").objective
    tight = PointDispersionProblem(points, size=1, budgets=[Budget(np.full(8, 0.1), 0.1 * (1 - 0.9e-9))])
    assert solve(tight, name).x is not None


@pytest.mark.parametrize("options", [{}, {"certificate": True}])
def test_one_client_beside_a_cost_that_dwarfs_the_others(options):
    """Costs less their common part had lost five digits, and the bound of the tree lay below its own decision."""
    distances = np.array([[0.0, 1e6], [1e6, 0.0]])
    costs = [2.2691996347275357e11, -1.4789300043990061]
    problem = DispersionProblem(distances, costs, size=1, conflicts=[[0, 1]])
    solution = solve(problem, "branch-and-bound", **options)
    assert (solution.status, solution.objective, solution.bound) == ("optimal", -costs[1], -costs[1])
    left = DispersionProblem(distances, costs, size=1, conflicts=[[0, 1]], budgets=[Budget([1.0, 5.0], 2.0, "s")])
    assert solve(left, "branch-and-bound", **options).objective == -costs[0]


@pytest.mark.parametrize("name", [each.name for each in methods(PointDispersionProblem) if each.constraints])
@pytest.mark.parametrize("points", ["equal", "weightless"])
def test_a_budget_where_nothing_else_decides(name, points):
    """No price of it is needed; once it was halved to a number too small for the costs of a problem."""
    rng = np.random.default_rng(0)
    data = np.ones((200, 2)) if points == "equal" else rng.random((200, 2))
    use = rng.integers(1, 3, 200).astype(float)
    weight = 1.0 if points == "equal" else 0.0
    problem = PointDispersionProblem(data, size=3, weight=weight, budgets=[Budget(use, 3.0)])
    if name == "brute-force":  # 1.3 million selections
        problem = PointDispersionProblem(data[:9], size=3, weight=weight, budgets=[Budget(np.ones(9), 3.0)])
    found = solve(problem, name)
    assert found.objective == 0.0
    assert found.selected.size == 3
    if found.bound is not None:
        assert found.bound >= 0.0


@pytest.mark.parametrize("name", OURS)
def test_one_client_with_a_budget_is_selected(name):
    problem = DispersionProblem([[0.0]], [1e7], size=1, weight=0.5, budgets=[Budget([2.0], 2.0)])
    assert solve(problem, name).selected.tolist() == [0]


@pytest.mark.parametrize("name", ["tabu", "memetic", "annealing"])
def test_budgets_whose_uses_span_many_decades_are_kept(name):
    """What is rounding beside the largest use is far beyond a small limit."""
    distances = [[0, 1, 1], [1, 0, 1], [1, 1, 0.0]]
    problem = DispersionProblem(distances, [0, 1, 2.0], size=1, budgets=[Budget([1e-8, 1e-11, 1e12], 1e-11)])
    options = {"memetic": {"generations": 3}}.get(name, {"moves": 300})
    assert solve(problem, name, **options).selected.tolist() == [1]
    rng, tried = np.random.default_rng(0), 0
    for _ in range(40):
        n, m = int(rng.integers(4, 9)), int(rng.integers(1, 4))
        use = 10.0 ** rng.integers(-14, 14, n)
        limit = float(np.sort(use)[:m].sum() + (rng.random() < 0.3) * np.sort(use)[m])
        h = np.triu(rng.random((n, n)), 1)
        drawn = DispersionProblem(h + h.T, rng.random(n), size=m, budgets=[Budget(use, limit)])
        found, best = solve(drawn, name, **options), solve(drawn, "brute-force")
        assert drawn.violation(found.x) == 0
        assert found.objective <= best.objective + drawn.rounding
        tried += (use > limit).any()
    assert tried >= 20


def test_a_price_that_is_no_number_to_compute_with_charges_nothing(monkeypatch):
    """The climb is over a problem of its own, whose costs are checked like any other's."""
    points = PointDispersionProblem(np.ones((160, 2)), size=3, budgets=[Budget(np.ones(160), 3.0)])
    tried = []
    monkeypatch.setattr(type(points.feasible), "prices", lambda self, g: tried.append(g) or np.array([1e-310]))
    found = solve(points, "tangent")
    assert tried
    assert found.objective == 0.0
    assert 0.0 <= found.bound <= 1e-300
