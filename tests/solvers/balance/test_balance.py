"""The balance problem: the paper's figure, enumeration, its statement as dispersion, sampling, sentences."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from solvers import InvalidProblem, load, methods, solve
from solvers.balance import BalanceProblem, collisions, draw_fed_cbs
from solvers.balance.methods import as_dispersion
from solvers.run import Run
from tests.thoroughly import few_of

FIGURE = [[5] * 6, [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]


def qcid(counts, chosen):
    """Σ_b (Σ q α_b)² / (Σ q)² − 1/B, as the paper writes it, in fractions."""
    rows = [counts[i] for i in chosen]
    sums = [sum(column) for column in zip(*rows, strict=True)]
    return Fraction(sum(t * t for t in sums), sum(sums) ** 2) - Fraction(1, len(sums))


def best_of(problem):
    counts = problem.label_counts.tolist()
    return min(qcid(counts, chosen) for chosen in itertools.combinations(range(problem.n), problem.size))


def random_problem(rng, equal):
    n, classes = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    counts = rng.multinomial(7, rng.dirichlet(np.full(classes, 0.5)), n) if equal else rng.integers(0, 6, (n, classes))
    counts[counts.sum(axis=1) == 0, 0] = 1
    return BalanceProblem(counts, int(rng.integers(1, n + 1)))


def test_figure_of_the_paper():
    problem = BalanceProblem(FIGURE, 3)
    assert solve(problem, "greedy").selected.tolist() == [0, 1, 2]
    for name in ("auto", "brute-force", "cp-sat"):
        best = solve(problem, name)
        assert best.selected.tolist() == [0, 2, 3]
        assert (best.objective, best.bound, best.status) == (0, 0, "optimal")
    assert solve(problem, "greedy").objective == float(qcid(FIGURE, (0, 1, 2)))


@pytest.mark.parametrize(("seed", "cases"), few_of([(0, 24), (1, 1200)], 1))
def test_thousands_of_small_cases_against_enumeration(seed, cases):
    rng = np.random.default_rng(seed)
    proved = 0
    for case in range(cases):
        problem = random_problem(rng, equal=case % 2 == 0)
        best = best_of(problem)
        for entry in methods(problem):
            if entry.name == "cp-sat" and case % 4 > 1:
                continue
            solution = solve(problem, entry.name)
            assert solution.objective >= float(best)
            assert solution.bound is None or solution.bound <= float(best), (case, entry.name)
            if entry.kind == "exact":
                assert solution.status == "optimal", (case, entry.name)
                assert solution.objective <= float(best) + 1e-6
                proved += 1
    assert proved == 3 * cases + cases // 2


def test_the_objective_is_exact():
    rng = np.random.default_rng(2)
    for _ in range(100):
        problem = random_problem(rng, equal=False)
        x = rng.integers(0, 2, problem.n)
        if x.any():
            assert problem.objective(x) == float(qcid(problem.label_counts.tolist(), np.flatnonzero(x).tolist()))
    large = BalanceProblem([[10**9, 10**9 - 1], [10**9, 10**9]], 2)
    assert large.objective([1, 1]) == float(qcid(large.label_counts.tolist(), (0, 1)))
    assert large.objective([0, 0]) == 0.5


@pytest.mark.parametrize("price", [0.0, 0.3])
def test_stated_as_a_dispersion_problem(price):
    rng = np.random.default_rng(3)
    for _ in range(40):
        problem = random_problem(rng, equal=False)
        engine, constant = as_dispersion(problem, price)
        for chosen in itertools.combinations(range(problem.n), problem.size):
            x = np.isin(np.arange(problem.n), chosen).astype(int)
            sums, total = problem.deviations[list(chosen)].sum(axis=0), problem.samples[list(chosen)].sum()
            assert constant - engine.objective(x) == pytest.approx(float(sums @ sums - price * total**2), abs=1e-8)


def test_the_bound_of_equal_sizes_is_that_of_whole_counts():
    """Seven samples in three classes cannot be even: 2, 2, 3 is best, and reached."""
    problem = BalanceProblem([[2, 2, 3], [7, 0, 0], [0, 7, 0]], 1)
    best = qcid([[2, 2, 3]], (0,))
    assert Fraction(problem.bound()) <= best < Fraction(math.nextafter(problem.bound(), math.inf))
    assert solve(problem, "auto").status == "optimal"
    assert BalanceProblem([[2, 2, 3], [7, 1, 0]], 1).bound() == 0.0


def test_no_swap_improves_local_search():
    rng = np.random.default_rng(4)
    for _ in range(20):
        problem = BalanceProblem(rng.integers(1, 9, (12, 3)), 4)
        found = solve(problem, "local-search", kicks=0)
        chosen = set(found.selected.tolist())
        for out, into in itertools.product(chosen, set(range(12)) - chosen):
            swapped = qcid(problem.label_counts.tolist(), sorted({into, *chosen} - {out}))
            assert float(swapped) >= found.objective * (1 - 1e-9) or found.status == "optimal"


def test_sampling_prefers_balance_and_explores():
    """Two places of the figure: first by 1/QCID, then by that of the union; λ draws those seldom chosen."""
    counts = [[9, 1], [1, 9], [6, 4]]
    problem = BalanceProblem(counts, 1)
    inverse = np.array([1 / float(qcid(counts, (k,))) for k in range(3)])
    rng = np.random.default_rng(5)
    drawn = np.bincount([draw_fed_cbs(problem, rng)[0] for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(drawn, inverse / inverse.sum(), atol=0.03)
    explored = [draw_fed_cbs(problem, rng, bonus=[1e-2, 1e4, 1e-2])[0] for _ in range(200)]
    assert np.bincount(explored, minlength=3).argmax() == 1
    both = BalanceProblem(counts, 2)
    pairs = [frozenset(draw_fed_cbs(both, rng, exponent=4.0).tolist()) for _ in range(500)]
    assert pairs.count(frozenset({1, 2})) > 2 * pairs.count(frozenset({0, 2})) > 0


@pytest.mark.parametrize(
    ("constraints", "options", "sentence"),
    [
        ({"exclude": [0]}, {}, "keep no side constraints"),
        ({}, {"exponent": float("nan")}, "exponent must be finite and positive; got nan"),
        ({}, {"exponent": -1.0}, "exponent must be finite and positive"),
        ({}, {"bonus": [-1.0, 0.0, 0.0]}, "bonus must be non-negative"),
    ],
)
def test_what_sampling_does_not_take_is_a_sentence(constraints, options, sentence):
    problem = BalanceProblem([[9, 1], [1, 9], [6, 4]], 1, **constraints)
    with pytest.raises(InvalidProblem, match=sentence):
        draw_fed_cbs(problem, np.random.default_rng(0), **options)


def test_one_draw_is_repeatable_and_more_are_no_worse():
    problem = BalanceProblem(np.random.default_rng(6).integers(1, 20, (30, 5)), 6)
    one, many = (solve(problem, "fed-cbs", seed=3, draws=draws).objective for draws in (1, 20))
    assert many <= one == solve(problem, "fed-cbs", seed=3).objective


def test_saved_and_loaded(tmp_path):
    problem = load(BalanceProblem(FIGURE, 3).save(tmp_path / "problem.npz"))
    assert isinstance(problem, BalanceProblem)
    assert problem.label_counts.tolist() == FIGURE
    assert problem.violation([1, 1, 0, 0]) == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (([1, 2], 1), r"label_counts must have 2 dimension\(s\)"),
        ((np.zeros((2, 0)), 1), "a row per client and a column per class"),
        (([[1, -1]], 1), "label_counts must be whole numbers from 0"),
        (([[0.5, 1]], 1), "label_counts must be whole numbers from 0"),
        (([[1e10, 1]], 1), "label_counts must be whole numbers from 0"),
        (([[1, 1], [0, 0]], 1), "every client must have a sample; client 1 has none"),
        (([[1, 1]], 2), "size must not exceed the number of clients, 1; got 2"),
    ],
)
def test_bad_data_are_sentences(fields, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        BalanceProblem(*fields)


def test_methods_for_some_problems_say_so():
    with pytest.raises(InvalidProblem, match="cp-sat would add up squares"):
        solve(BalanceProblem([[10**9, 1], [1, 10**9]], 1), "cp-sat")
    with pytest.raises(InvalidProblem, match=r"brute-force would look at .* selections"):
        solve(BalanceProblem(np.ones((60, 2)), 20), "brute-force")


@pytest.mark.parametrize("seed", [0, 2])
def test_tens_of_rounded_counts_balance_unions_of_equal_sizes(seed):
    """Twelve of 200 clients: greedy ends at 2e-4; ten others of rounded counts are within what counts as balanced."""
    rng = np.random.default_rng(seed)
    problem = BalanceProblem(rng.multinomial(400, rng.dirichlet(np.full(6, 0.5), 200)), 12)
    run = Run(problem, "near", 60.0, seed)
    run.tighten(problem.bound())
    run.offer(solve(problem, "greedy").x)
    kept = np.flatnonzero(run.x)[10:]
    plan = collisions._near(problem, kept)
    assert not np.isin(plan.free, kept).any()
    tens = collisions._tens(plan.vectors, plan.need, plan.logarithm, run)
    assert (plan.vectors[tens].sum(axis=1) == plan.need).all()
    collisions.balance_exactly(problem, run)
    assert run.proved
    assert run.objective <= 1e-6
    assert collisions._near(BalanceProblem(rng.integers(1, 99, (30, 3)), 12), kept) is None  # sizes differ


def test_bounds_lie_below_the_exact_optimum():
    """A bound that is the rounded objective may lie above it, by less than the float can say."""
    rng = np.random.default_rng(11)
    cases = [random_problem(rng, equal=case % 2 == 0) for case in range(10)]
    cases += [BalanceProblem([[k, k, k + 1], [3 * k + 1, 0, 0]], 1) for k in range(1, 31)]  # whose bound is reached
    compared = 0
    for problem in cases:
        every = itertools.combinations(range(problem.n), problem.size)
        best = min(qcid(problem.label_counts.tolist(), each) for each in every)
        assert Fraction(problem.bound()) <= best
        for name in ("auto", "cp-sat", "brute-force"):
            assert Fraction(solve(problem, name).bound) <= best, name
            compared += 1
    assert compared == 120
