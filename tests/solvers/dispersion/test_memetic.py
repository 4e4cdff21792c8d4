"""The memetic search: its population, its crossover, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from examples.records.grey import grey_pattern
from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.methods.memetic import Memetic, Population
from solvers.dispersion.neighbourhood import random_decision
from solvers.run import Run
from tests.solvers.dispersion.cases import euclidean_problem, random_problem, uniform_problem


def population(problem, capacity=6, seed=0):
    return Population(problem, capacity, np.random.default_rng(seed))


def test_finds_every_small_optimum():
    rng = np.random.default_rng(2)
    for _ in range(150):
        problem = random_problem(rng)
        truth = solve(problem, "brute-force")
        found = solve(problem, "memetic", generations=20)
        assert problem.violation(found.x) == 0
        assert abs(found.objective - truth.objective) <= 4 * problem.rounding + 1e-9 * problem.scale


@pytest.mark.parametrize("single", [False, True])
def test_as_good_as_a_proved_optimum(single):
    for seed in range(2):
        problem = uniform_problem(45, 10, seed)
        if single:
            problem = DispersionProblem(
                problem.distances.astype(np.float32), problem.costs, size=10, weight=problem.weight
            )
        found = solve(problem, "memetic", generations=60)
        assert found.objective == pytest.approx(solve(problem, "branch-and-bound", time_limit=60).objective, rel=1e-6)


def test_as_good_a_grey_pattern_as_longer_tabu_search():
    pattern = grey_pattern(8, 8, 21)
    found = solve(pattern, "memetic", generations=200)
    assert found.objective >= solve(pattern, "tabu", moves=40_000).objective


def test_seed_repeats():
    first, second = (solve(grey_pattern(6, 8, 13), "memetic", seed=4, generations=60) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    assert [p.objective for p in first.trace] == [p.objective for p in second.trace]
    assert first.details == second.details


def test_never_worse_than_the_start():
    problem = uniform_problem(50, 10)
    start = solve(problem, "tabu", moves=5_000).x
    assert solve(problem, "memetic", start=start, generations=1).objective >= problem.objective(start)


def test_generations_are_counted_and_populations_begun_anew():
    found = solve(euclidean_problem(40, 8), "memetic", generations=400)
    assert found.stopped == "iterations"
    assert found.details["generations"] == 400
    assert found.details["populations"] > 1


def test_it_ends_before_its_limit_when_populations_are_in_vain():
    problem = uniform_problem(20, 5, 1)
    found = solve(problem, "memetic", time_limit=600)
    assert found.stopped == "iterations"
    assert "no better selection in 50 populations" in found.message
    assert found.objective == pytest.approx(solve(problem, "brute-force").objective, rel=1e-12)


@pytest.mark.thorough
def test_time_limit_on_a_large_problem(watchdog):
    rng = np.random.default_rng(0)
    h = np.triu(rng.random((3000, 3000), dtype=np.float32), 1)
    problem = DispersionProblem(h + h.T, np.zeros(3000), size=300, weight=0.5)
    found = solve(problem, "memetic", time_limit=1.0)
    assert found.stopped == "time-limit"


def test_an_interruption_keeps_the_incumbent():
    seen = []

    def interrupt(point):
        seen.append(point.objective)
        if len(seen) == 3:
            raise KeyboardInterrupt

    found = solve(grey_pattern(8, 8, 21), "memetic", time_limit=60, watch=interrupt)
    assert found.stopped == "interrupted"
    assert found.objective == seen[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population": 1}, "'population' must be an integer, at least 2; got 1"),
        ({"moves": 0}, "'moves' must be an integer, at least 1; got 0"),
        ({"generations": -1}, "'generations' must be an integer, at least 0; got -1"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidOption, match=message):
        solve(uniform_problem(10, 3), "memetic", **options)


# -- the population -----------------------------------------------------------------------------------------------


def test_the_worst_member_leaves_and_nobody_is_in_twice():
    problem = uniform_problem(12, 4)
    rng = np.random.default_rng(0)
    members = population(problem, 5)
    every = {}
    for _ in range(200):
        x = random_decision(problem, rng)
        value = problem.objective(x)
        before, full = min(members.values, default=-np.inf), len(members) == 5
        fresh = x.tobytes() not in {member.tobytes() for member in members.members}
        assert members.enter(x, value) == (fresh and (not full or value > before))
        every[x.tobytes()] = value
    assert sorted(members.values) == sorted(every.values())[-5:]


def test_a_child_keeps_what_its_parents_share():
    problem = uniform_problem(60, 20)
    rng = np.random.default_rng(3)
    for seed in range(50):
        members = population(problem, 2, seed=seed)
        x, y = (random_decision(problem, rng) for _ in range(2))
        for z in (x, y):
            members.enter(z, problem.objective(z))
        child = members.child()
        assert problem.violation(child) == 0
        assert (child[(x == 1) & (y == 1)] == 1).all()
        assert (child[(x == 0) & (y == 0)] == 0).all()
        assert 0 < (child & ~x & 1).sum() < (y & ~x & 1).sum()  # something of both


def test_parents_that_hardly_differ_have_a_child_that_does():
    problem = uniform_problem(40, 10)
    members = population(problem, 2)
    x = np.repeat([1, 0], [10, 30])
    y = np.repeat([1, 0, 1, 0], [9, 1, 1, 29])
    for z in (x, y):
        members.enter(z, problem.objective(z))
    children = [members.child() for _ in range(30)]
    assert all(problem.violation(child) == 0 for child in children)
    assert not any(np.array_equal(child, z) for child in children for z in (x, y))


def test_a_race_can_continue_it():
    """`advance` makes what it is asked for."""
    problem = uniform_problem(40, 8)
    run = Run(problem, "memetic", None, 0)
    run.offer(random_decision(problem, run.rng))
    search = Memetic(problem, run)
    assert search.advance(100) > 0
    first = run.objective
    made = sum(search.advance(100) for _ in range(200))
    assert 0 < made <= 20_000
    assert run.objective >= first
    assert run.objective == pytest.approx(solve(problem, "tabu", moves=5_000).objective, rel=1e-12)
