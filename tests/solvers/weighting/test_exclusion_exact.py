"""The exact methods and the relaxation against enumeration, and against each other."""

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from solvers import InvalidProblem, Run, solve
from solvers.weighting import ExclusionProblem
from solvers.weighting.problem import transport, transport_bound
from tests.thoroughly import few_of, tried


def instance(rng, n, equal=False, kind=0):
    importance = np.full(n, 1 / n) if equal else np.maximum(rng.dirichlet(np.full(n, 0.5)), 1e-7)
    gaps = (rng.gamma(1.0, 1.0, n), 1 + 0.2 * rng.random(n), np.exp(3 * rng.normal(size=n)), rng.integers(0, 3, n))[
        kind
    ]
    scale = float(np.max(gaps)) * rng.choice([4.0, 1.0, 0.3, 0.1])
    return ExclusionProblem(
        importance / importance.sum(), gaps, scale, rng.uniform(0.05, 1, n), rng.uniform(-0.1, 1, n)
    )


def best_of_all(problem):
    subsets = itertools.product((False, True), repeat=problem.n)
    return min(problem.objective(np.array(x)) for x in subsets if any(x))


def tolerance(problem, value):
    return 1e-6 * min(max(1.0, abs(value)), problem.scale)


def test_brute_force_is_enumeration():
    rng = np.random.default_rng(0)
    for i in range(100):
        problem = instance(rng, int(rng.integers(1, 8)), kind=i % 4)
        solution = solve(problem, "brute-force")
        assert solution.objective == pytest.approx(best_of_all(problem), rel=1e-13)
        assert solution.status == "optimal"


def test_brute_force_beyond_one_block():
    """18 clients are four blocks of 2¹⁶ sets; for equal importance sorting knows the answer."""
    problem = instance(np.random.default_rng(3), 18, equal=True)
    assert solve(problem, "brute-force").objective == pytest.approx(solve(problem, "sorting").objective, rel=1e-13)


@pytest.mark.parametrize("cases", few_of([400, 2000], 1))
def test_sorting_on_thousands_of_small_cases(cases):
    rng = np.random.default_rng(1)
    for i in range(cases):
        problem = instance(rng, int(rng.integers(1, 9)), equal=True, kind=i % 4)
        fast, slow = solve(problem, "sorting"), solve(problem, "brute-force")
        assert fast.objective == pytest.approx(slow.objective, rel=1e-13)
        assert fast.status == "optimal"
        assert fast.bound <= slow.objective


def test_sorting_refuses_unequal_importance():
    problem = ExclusionProblem([0.6, 0.4], [1.0, 2.0], None, [0.5, 0.5], [0.0, 0.0])
    with pytest.raises(InvalidProblem, match=r"ranges from 0\.4 to 0\.6"):
        solve(problem, "sorting")


def test_brute_force_refuses_many_clients():
    problem = ExclusionProblem(np.full(29, 1 / 29), np.ones(29), None, np.full(29, 0.5), np.zeros(29))
    with pytest.raises(InvalidProblem, match="29 clients; it accepts at most 28"):
        solve(problem, "brute-force")


def test_keeping_a_worse_client_can_be_right():
    """By hand: leaving out client 1 alone beats every prefix, though client 2 has the larger loss gap.

    α = (0.79, 0.2, 0.01), gaps (0, 1, 1.04), Γ' = 4: 0.0104/0.8 + 0.04·4 = 0.173; without 2 alone 0.2/0.99 + 0.0004 =
    0.20242; without both 0.21²·4 = 0.1764; all 0.2104.
    """
    problem = ExclusionProblem([0.79, 0.2, 0.01], [0.0, 1.0, 1.04], 4.0, [0.5] * 3, [0.0] * 3)
    for method in ("cp-sat", "brute-force", "auto"):
        solution = solve(problem, method)
        assert solution.selected.tolist() == [0, 2]
        assert solution.objective == pytest.approx(0.173, abs=1e-12)


@pytest.mark.parametrize("block", few_of(range(32), 1))
def test_cp_sat_proves_the_optimum(block):
    """A thousand small instances, and its bound is never above the optimum."""
    rng = np.random.default_rng(block)
    for i in range(32):
        problem = instance(rng, int(rng.integers(1, 11)), kind=i % 4)
        solution, best = solve(problem, "cp-sat"), solve(problem, "brute-force").objective
        assert solution.status == "optimal"
        assert solution.bound <= best
        assert solution.objective == pytest.approx(best, abs=tolerance(problem, best))


def test_cp_sat_on_twenty_clients():
    rng = np.random.default_rng(4)
    for i in range(20):
        problem = instance(rng, 20, kind=i % 4)
        solution, best = solve(problem, "cp-sat"), solve(problem, "brute-force").objective
        assert solution.status == "optimal"
        assert best - tolerance(problem, best) <= solution.bound <= best


def test_cp_sat_really_searches():
    """Neither Algorithm 1 nor the best prefix by loss gap is always best: some optima only the knapsacks find."""
    rng = np.random.default_rng(5)
    beaten = 0
    for i in range(60):
        problem = instance(rng, 14, kind=i % 2)
        order = np.argsort(problem.loss_gaps)
        prefix = min(problem.objective(np.isin(np.arange(14), order[: k + 1])) for k in range(14))
        seeds = min(prefix, solve(problem, "ca-fed").objective)
        beaten += solve(problem, "cp-sat").objective < seeds - 1e-9
    assert beaten >= 5


@pytest.mark.parametrize("cases", few_of([50, 150], 1))
def test_a_slice_never_loses_a_set_on_its_edge(cases):
    """Integers are rounded towards letting sets in: from a poor incumbent, a slice that begins at a set counts it."""
    search_of = sys.modules["solvers.weighting.exclusion"]._Search
    rng = np.random.default_rng(11)
    for i in range(cases):
        problem = instance(rng, 8, kind=i % 2)
        subsets = [np.array(x, dtype=bool) for x in itertools.product((0, 1), repeat=8) if any(x)]
        run = Run(problem, "cp-sat", None, 0)
        run.offer(max(subsets, key=problem.objective))
        target = min(subsets[:: int(rng.integers(1, 40))], key=problem.objective)
        low = math.fsum(problem.importance[target]) * (1 - 1e-15)
        edge = 2 / 3 if low < 2 / 3 else 1 + 1e-9
        assert search_of(problem, run).knapsack_bound(low, min(edge, low + 1e-3)) <= problem.objective(target)


def test_time_limit_returns_the_incumbent():
    """With no time to search, the seeds and a bound come back (the first slice alone may already prove more)."""
    problem = instance(np.random.default_rng(6), 400)
    for method in ("cp-sat", "auto"):
        solution = solve(problem, method, time_limit=1e-6)
        assert solution.x is not None
        assert solution.bound <= solution.objective <= solve(problem, "ca-fed").objective
    late = solve(instance(np.random.default_rng(6), 24), "brute-force", time_limit=1e-6)
    assert late.x is not None
    assert late.bound <= late.objective
    assert late.stopped in ("time-limit", "proved")


def test_auto_takes_sorting_or_cp_sat():
    equal = instance(np.random.default_rng(7), 3000, equal=True)
    assert solve(equal).objective == solve(equal, "sorting").objective
    other = instance(np.random.default_rng(8), 30)
    assert solve(other).objective == solve(other, "cp-sat").objective
    assert solve(other).status == "optimal"


def fractional(problem, importance):
    """The value of the best fractional set of each kept importance, client by client."""
    order = np.argsort(problem.loss_gaps, kind="stable")
    left, loss = np.array(importance, dtype=float), np.zeros(len(importance))
    for k in order:
        part = np.minimum(left, problem.importance[k])
        loss, left = loss + part * problem.loss_gaps[k], left - part
    return loss / importance + (1 - importance) ** 2 * problem.gamma


def test_the_relaxation_is_the_best_fractional_set():
    """Over a fine grid of the kept importance, and never weaker than the transport of importance is."""
    rng, inside, tighter = np.random.default_rng(9), 0, 0
    for i in range(200):
        problem = instance(rng, int(rng.integers(1, 30)), kind=i % 4)
        relaxed = solve(problem, "convex")
        mass = np.cumsum(problem.importance[np.argsort(problem.loss_gaps, kind="stable")])
        grid = np.concatenate([np.linspace(problem.importance.min(), 1, 4001), mass])
        least = fractional(problem, grid).min()
        assert relaxed.bound <= least + 1e-12 * problem.scale
        assert relaxed.bound >= least - 1e-6 * problem.scale
        p = transport(problem.loss_gaps, problem.importance, problem.gamma)
        weak = transport_bound(
            problem.loss_gaps, problem.importance, problem.gamma, 0.5 * float(np.abs(problem.importance - p).sum())
        )
        assert relaxed.bound >= weak - 1e-12 * problem.scale
        tighter += relaxed.bound > weak + 1e-3 * problem.scale
        inside += least < fractional(problem, mass).min() - 1e-9 * problem.scale
        assert relaxed.raw.sum() == pytest.approx(1)
    assert inside > 10
    assert tighter > 50


def test_loss_gaps_whose_rounding_underflows_are_refused():
    """With gaps of 5e-324 the margin of a bound was 0, and a bound lay above the best set's value."""
    for gaps, heterogeneity in (([5e-324, 5e-324], 0.0), ([0.0, 0.0], 1e-300), ([1e-295, -1e-291], 0.0)):
        with pytest.raises(InvalidProblem, match="too small to be computed with"):
            ExclusionProblem([0.5, 0.5], gaps, heterogeneity, [0.5] * 2, [0.0] * 2)
    assert ExclusionProblem([0.5, 0.5], [0.0, 5e-324], 1.0, [0.5] * 2, [0.0] * 2).scale == 1.0


@tried(40, 300, st.data())
def test_every_bound_is_below_every_set(data):
    n = data.draw(st.integers(1, 7))
    counts = data.draw(st.lists(st.integers(1, 50), min_size=n, max_size=n))
    gaps = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n))
    heterogeneity = data.draw(st.floats(0, 1e4))
    assume(not 0 < max(map(abs, gaps)) + heterogeneity < 1e-280)
    problem = ExclusionProblem(np.array(counts) / sum(counts), gaps, heterogeneity, [0.5] * n, [0.0] * n)
    best = best_of_all(problem)
    for method in ("convex", "cp-sat", "brute-force"):
        solution = solve(problem, method)
        assert solution.bound <= best
        assert solution.objective >= best


@pytest.mark.parametrize("cases", few_of([50, 150], 1))
def test_bounds_hold_in_exact_arithmetic(cases):
    """Data over 24 orders of magnitude, importance down to 1e-13: against the optimum in rational numbers."""
    rng = np.random.default_rng(10)
    for i in range(cases):
        n = int(rng.integers(1, 6))
        importance = np.maximum(rng.dirichlet(np.full(n, (1.0, 0.05, 5.0)[i % 3])), 1e-13)
        gaps = rng.gamma(1.0, 1.0, n) * 10.0 ** rng.integers(-12, 12)
        gamma = float(gaps.max() * 10.0 ** rng.integers(-4, 4))
        problem = ExclusionProblem(importance / importance.sum(), gaps, gamma, np.full(n, 0.5), np.zeros(n))
        alpha, e = ([Fraction(float(v)) for v in array] for array in (problem.importance, problem.loss_gaps))
        exact = min(
            sum(a * g for a, g, x in zip(alpha, e, kept, strict=True) if x) / sum(itertools.compress(alpha, kept))
            + sum(a for a, x in zip(alpha, kept, strict=True) if not x) ** 2 * Fraction(gamma)
            for kept in itertools.product((False, True), repeat=n)
            if any(kept)
        )
        for method in ("brute-force", "cp-sat", "convex"):
            solution = solve(problem, method)
            assert Fraction(solution.bound) <= exact
            if method != "convex":
                assert solution.status == "optimal"
                assert abs(Fraction(solution.objective) - exact) <= Fraction(tolerance(problem, float(exact)))
