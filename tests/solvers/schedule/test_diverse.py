"""Schedules with distances: enumeration, any prices, no distances, distances alone, sentences, files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers import InvalidProblem, load, methods, solve
from solvers.dispersion import DispersionProblem
from solvers.run import Run
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem, diverse
from tests.thoroughly import few_of


def random_problem(rng, clients=6, rounds=5, weights=(0.0, 0.01, 0.1, 1.0)):
    n, t = int(rng.integers(1, clients)), int(rng.integers(1, rounds))
    whole = rng.random() < 0.5
    upper = np.triu(rng.integers(0, 5, (n, n)) if whole else rng.random((n, n)), 1).astype(float)
    return DiverseScheduleProblem(
        rng.random((t, n)) < rng.random(),
        int(rng.integers(1, n + 1)),
        rng.integers(0, 4, n) if rng.random() < 0.5 else None,
        distances=upper + upper.T,
        weight=float(rng.choice(weights)),
    )


def values(problem):
    """The objective of every schedule, by plain enumeration of the rounds and from its definition."""
    rounds = [
        list(itertools.combinations(np.flatnonzero(there).tolist(), size))
        for there, size in zip(problem.available, problem.sizes.tolist(), strict=True)
    ]
    for chosen in itertools.product(*rounds):
        counts = problem.counts.astype(float)
        far = 0.0
        for each in chosen:
            counts[list(each)] += 1
            far += sum(problem.distances[i, j] for i, j in itertools.permutations(each, 2))
        yield counts.var() - problem.weight * far


@pytest.mark.parametrize(("seed", "cases"), few_of([(0, 60), (1, 1000)], 1))
def test_small_cases_against_enumeration(seed, cases, asserted, monkeypatch):
    rng = np.random.default_rng(seed)
    proved = asserted(3 * cases)
    for case in range(cases):
        problem = random_problem(rng)
        best = min(values(problem))
        # Every third time rounds are solved as dispersion problems, and nothing is enumerated.
        monkeypatch.setattr(diverse, "_FEW", 1 if case % 3 == 0 else 20_000)
        for entry in methods(problem):
            solution = solve(problem, entry.name)
            assert solution.objective >= best - 1e-12
            assert solution.bound is None or solution.bound <= best + 1e-12
            if entry.name == "brute-force" or (entry.name == "auto" and case % 3):
                assert (solution.objective, solution.status) == (pytest.approx(best, abs=1e-12), "optimal"), case
                proved()
            proved()


def test_any_prices_bound(asserted):
    """Prices of every size, of either sign, tied, or zero: the bound holds, with and without enumerated rounds."""
    rng, held = np.random.default_rng(3), asserted(150)
    for _ in range(50):
        problem = random_problem(rng)
        best = min(values(problem))
        rounds = diverse.Rounds(problem, Run(problem, "test", None, 0))
        for scale in (0.0, 0.1, 10.0):
            price = scale * (rng.integers(-2, 3, problem.n) if rng.random() < 0.5 else rng.standard_normal(problem.n))
            bound, table, _ = rounds.bound(price)
            assert bound <= best
            assert problem.violation(table) == 0
            held()


def test_without_distances_it_is_the_fairest_schedule():
    rng = np.random.default_rng(4)
    there = rng.random((12, 9)) < 0.5
    fair = solve(ScheduleProblem(there, 3))
    for weight, distances in ((0.0, 1.0 - np.eye(9)), (1.0, np.zeros((9, 9)))):
        found = solve(DiverseScheduleProblem(there, 3, distances=distances, weight=weight))
        assert (found.status, found.objective) == ("optimal", pytest.approx(fair.objective))
    # Of equal distances every selection has as many: a constant.
    found = solve(DiverseScheduleProblem(there, 3, distances=1.0 - np.eye(9), weight=0.5))
    pairs = sum(size * (size - 1) for size in ScheduleProblem(there, 3).sizes.tolist())
    assert (found.status, found.objective) == ("optimal", pytest.approx(fair.objective - 0.5 * pairs))


def test_one_round_is_the_dispersion_problem():
    """With n Var = Σ v² - (Σ v)²/n a turn costs (2v + 1)/n, and nothing else depends on the selection."""
    rng = np.random.default_rng(5)
    upper = np.triu(rng.random((12, 12)), 1)
    distances, counts = upper + upper.T, rng.integers(0, 5, 12)
    problem = DiverseScheduleProblem(np.ones((1, 12)), 4, counts, distances=distances, weight=0.05)
    one = solve(DispersionProblem(distances, (2 * counts + 1) / 12, size=4, weight=0.05))
    assert np.flatnonzero(solve(problem).x[0]).tolist() == one.selected.tolist()


def test_knowing_the_future_pays_and_rounds_in_turn_never_harm():
    rng = np.random.default_rng(6)
    points = rng.random((12, 2))
    distances = np.abs(points[:, None] - points).sum(axis=2)
    problem = DiverseScheduleProblem(rng.random((10, 12)) < rng.random(12), 3, distances=distances, weight=0.05)
    one, turned, proved = (solve(problem, name) for name in ("round-by-round", "local-search", "auto"))
    assert proved.status == "optimal"
    assert proved.objective < turned.objective <= one.objective


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distances": None}, "distances are missing; without them the problem is a ScheduleProblem"),
        ({"distances": np.zeros((3, 3))}, "distances must be a matrix of the 2 clients"),
        ({"distances": [[0, 1], [2, 0]]}, "distances must be non-negative, symmetric, and zero on the diagonal"),
        ({"distances": [[0, -1], [-1, 0]]}, "distances must be non-negative"),
        ({"distances": [[0, np.nan], [np.nan, 0]]}, "distances must be finite"),
        ({"weight": -1}, "weight must be"),
        ({"weight": np.inf}, "weight must be"),
    ],
)
def test_bad_input_is_a_sentence(changes, message):
    given = {"distances": [[0, 1], [1, 0]]} | changes
    with pytest.raises(InvalidProblem, match=message):
        DiverseScheduleProblem([[1, 1]], 1, **given)


def test_weighted_distances_that_overflow_are_a_sentence():
    far = [[0, 1e300], [1e300, 0]]
    with pytest.raises(InvalidProblem, match=r"weight 1e\+300 times distances up to 1e\+300 overflows"):
        DiverseScheduleProblem([[1, 1]], 2, distances=far, weight=1e300)
    assert DiverseScheduleProblem([[1, 1]], 2, distances=far, weight=0.0).scale == 1.0


def test_it_is_saved_and_loaded(tmp_path):
    problem = random_problem(np.random.default_rng(7))
    again = load(problem.save(tmp_path / "p.npz"))
    assert isinstance(again, DiverseScheduleProblem)
    x = solve(problem).x
    assert again.objective(x) == problem.objective(x)
    assert (again.distances == problem.distances).all()
