"""The tree under side constraints: bounds in exact arithmetic, prices, propagation, the same bits by Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from solvers import solve
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion.kernels import load, loader
from solvers.dispersion.kernels.tree_data import FREE, ONE, ZERO, Goal
from solvers.dispersion.methods.constrained import solve_constrained
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.errors import InvalidOption
from solvers.run import Run
from tests.solvers.dispersion.constrained.cases import draw_case, feasible_cases
from tests.thoroughly import few_of

SEEDS = few_of([range(5000, 5008), range(5008, 5025), *(range(k, k + 25) for k in range(5025, 9000, 25))], 1)


def _exact(problem: DispersionProblem, selection: tuple[int, ...]) -> Fraction:
    h, w, c = problem.distances, Fraction(problem.weight), problem.costs
    pairs = sum((Fraction(h[i, j]) for i in selection for j in selection), Fraction(0))
    return w * pairs - sum((Fraction(c[i]) for i in selection), Fraction(0))


@pytest.mark.parametrize("seeds", SEEDS)
def test_bounds_at_any_multipliers_hold_exactly(seeds):
    for seed, (problem, kept) in enumerate(feasible_cases(seeds)):
        if not 2 <= problem.size <= problem.n - 2:
            continue
        rng = np.random.default_rng(seed)
        tree = FirstOrderTree(problem, Run(problem, "test", None, 0), 3.0)
        tree.start()
        root, best = tree.root, max(_exact(problem, each) for each in kept)
        n = root.ids.size
        kernel = load("constrained_tree", steps=1e9)
        form, order = root.kernel_data()
        node, scratch = tree._workspace(root.sides, n)
        point = np.concatenate([rng.random(n), rng.exponential(size=root.sides.limits.size)])
        node.state[:] = FREE
        goal = Goal(-100.0, 0.0, rng.choice([1e-9, 1e9]), 0)
        value, _ = kernel.evaluate(form, order, root.sides, point, goal, node, scratch, 1)
        assert Fraction(tree.certified(value + root.constant)) >= best
        # Nothing that some best selection needs was fixed otherwise.
        left = {i for i in range(problem.n) if i not in set(root.ids.tolist())} | set(
            root.ids[node.state != ZERO].tolist()
        )
        ones = set(root.ones.tolist()) | set(root.ids[node.state == ONE].tolist())
        close = [each for each in kept if float(best - _exact(problem, each)) <= 1e-9]
        assert any(ones <= set(each) <= left for each in close)


@pytest.mark.parametrize("seeds", SEEDS)
def test_prices_are_supergradients_of_their_bound(seeds):
    for problem, _ in feasible_cases(seeds):
        run = Run(problem, "test", None, 0)
        solve_constrained(problem, run)
        prices = run.details.get("prices")
        if not prices:
            continue
        bound = prices.bound
        assert set(prices) == {row.name for row in problem.constraints.rows}
        stated = problem.stated_constraints()
        for k, budget in enumerate(problem.budgets):
            for limit in (0.7 * budget.limit, 1.3 * budget.limit):
                moved = [Budget(b.use, limit, b.name) if j == k else b for j, b in enumerate(problem.budgets)]
                _at_most(
                    problem,
                    {**stated, "budgets": moved},
                    bound + prices[budget.name or f"budgets[{k}]"] * (limit - budget.limit),
                )
        for k, quota in enumerate(problem.quotas):
            price, most = prices[quota.name or f"quotas[{k}]"], quota.at_most
            changes = [(quota.at_least + 1, most)] if price <= 0 else []
            changes += [(quota.at_least, most + 1)] if most is not None and price >= 0 else []
            for least, limit in changes:
                if limit is not None and least > min(limit, len(quota.members)):
                    continue
                if least > len(quota.members):
                    continue
                moved = [Quota(q.members, least, limit, q.name) if j == k else q for j, q in enumerate(problem.quotas)]
                _at_most(problem, {**stated, "quotas": moved}, bound + price)


def _at_most(problem, stated, bound):
    try:
        changed = DispersionProblem(problem.distances, problem.costs, size=problem.size, **stated)
    except ValueError:
        return  # no selection is left
    found = solve(changed, "brute-force")
    assert found.x is None or found.objective <= bound + 1e-9


def test_a_budget_has_its_price_by_hand():
    # Two clients that bring 10 and use 2, others that use 1: with limit 3 one of the two, half of the other for half a
    # unit more, both with limit 4.
    h = np.zeros((5, 5))
    problem = DispersionProblem(
        h, [-10.0, -10.0, 0.0, 0.0, 0.0], size=2, budgets=[Budget([2, 2, 1, 1, 1], 3.0, "seconds")]
    )
    run = Run(problem, "test", None, 0)
    solve_constrained(problem, run)
    solution = run.solution()
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(10.0)
    assert solution.prices["seconds"] == pytest.approx(10.0, rel=0.2)  # that of a form near the optimum
    assert solution.slack["seconds"] == pytest.approx(0.0, abs=1e-6)
    assert "seconds" in solution.summary()


def test_python_takes_the_same_steps_as_compiled_code(monkeypatch):
    (problem, _), *_ = (case for case in feasible_cases(range(40), 9) if case[0].n == 9 and case[0].budgets)

    def answer():
        run = Run(problem, "test", None, 0)
        solve_constrained(problem, run, moves=0)
        return run.x.tolist(), run.bound, run.nodes, dict(run.details["prices"])

    compiled = answer()
    with monkeypatch.context() as patch:
        patch.setattr(loader, "_loaded", {})
        patch.setattr(loader, "_compiled", lambda name, precision: loader._interpreted(name))
        assert answer() == compiled


def test_what_has_no_selection_is_proved_by_the_tree():
    drawn = [problem for problem, kept in map(draw_case, range(100, 300)) if problem is not None and not kept]
    assert drawn
    for problem in drawn:
        run = Run(problem, "test", None, 0)
        solve_constrained(problem, run)
        assert run.solution().status == "infeasible"


def test_symmetries_are_refused_beside_constraints():
    problem = DispersionProblem(1 - np.eye(6), size=3, exclude=[0])
    with pytest.raises(InvalidOption, match="side constraints"):
        solve(problem, "branch-and-bound", symmetries=[[1, 0, 2, 3, 4, 5]])


@pytest.mark.parametrize("seed", [0, 1])
def test_many_points_have_a_bound_by_prices(seed):
    rng = np.random.default_rng(seed)
    points, use = rng.random((60, 2)), rng.lognormal(size=60)
    stated = {"size": 6, "budgets": [Budget(use, 0.7 * 6 * use.mean(), "seconds")], "quotas": [Quota(range(30), 2, 4)]}
    many = PointDispersionProblem(points, **stated)
    found = solve(many, "branch-and-bound", time_limit=10)
    optimum = solve(many, "auto")
    assert optimum.status == "optimal"
    assert many.violation(found.x) == 0
    assert found.objective <= optimum.objective + 1e-6 <= found.bound + 2e-6
    assert found.gap < 0.1
