"""Certificates of coverage, balance and schedules: true, tight, for any multipliers, and what a liar would write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers import solve
from solvers.balance import BalanceProblem
from solvers.certificate_writers import with_certificate
from solvers.certificates import Certificate, CertificateError, check, check_pool, problem_digest
from solvers.certificates.exact.balance import restated
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem
from solvers.schedule import ScheduleProblem
from tests.solvers.certificates.test_soundness import as_read, integers, refused, second
from tests.solvers.coverage.test_coverage import random_problem
from tests.solvers.schedule.test_schedule import random_problem as random_schedule
from tests.thoroughly import few_of


def both(problem, certificate):
    """The bound that both checkers say is proved."""
    proved = check(problem, certificate)
    assert second(problem, certificate) == proved
    return proved


def balance_problem(rng):
    """As many samples each, or not, or few that make many selections alike; sometimes under side constraints."""
    n, classes = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    counts = [
        rng.multinomial(12, rng.dirichlet(np.full(classes, 0.3), n)),
        rng.integers(0, 300, (n, classes)) + np.eye(n, classes, dtype=int),
        rng.integers(0, 3, (n, classes)) + 1,
    ][int(rng.integers(3))]
    size = int(rng.integers(1, n + 1))
    stated = {"include": [int(rng.integers(n))]} if rng.random() < 0.3 else {}
    return BalanceProblem(counts, size, **stated)


@pytest.mark.parametrize("seed", few_of(range(30), 1))
@pytest.mark.parametrize("make", [random_problem, balance_problem])
def test_what_is_written_proves_the_optimum(make, seed):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        problem = make(rng)
        best = solve(problem, "brute-force").objective
        solution = solve(problem, certificate=True)
        sign = 1.0 if problem.sense == "max" else -1.0
        excess = sign * (both(problem, solution.certificate) - best)
        assert -1e-15 <= excess <= 1.000001e-6 * min(max(1.0, abs(best)), problem.scale)


def test_a_tree_that_branches_and_one_that_the_clock_ends():
    """Thirty points of six dimensions; an unfinished tree proves what it bounds, and the root alone a little less."""
    where = np.random.default_rng(5).random((30, 6))
    problem = CoverageProblem(3 - np.linalg.norm(where[:, None] - where, axis=2), 6)
    whole = solve(problem, certificate=True)
    assert whole.certificate.arrays["origin"].size > 1
    assert both(problem, whole.certificate) <= whole.objective + 1e-6 * whole.objective
    root = solve(problem, "lagrangian", certificate=True)
    assert root.certificate.arrays["origin"].tolist() == [-1]
    assert whole.objective <= both(problem, root.certificate) <= root.bound + 1e-6 * whole.objective


def searched(problem, goal, grid, vectors, origin=(-1,), client=(-1,), looks=None):
    """A certificate of coverage that claims the largest number."""
    arrays = {
        "goal": integers(goal),
        "origin": integers(*origin),
        "client": integers(*client),
        "looks": integers(*([len(vectors)] if looks is None else looks)),
        "multiplier": np.asarray(vectors, dtype=np.int64).ravel(),
    }
    return Certificate("coverage", problem_digest(problem), 1e300, grid, arrays)


@pytest.mark.parametrize("seed", few_of(range(40), 2))
def test_any_multipliers_of_any_tree_prove_a_bound(seed):
    """Random vectors at random nodes of all branches on the first candidates: whatever goal is accepted is true."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 7)
    best, rows = solve(problem, "brute-force").objective, len(problem.similarity)
    grid, origin, client = -int(rng.integers(2, 9)), [-1], [0]
    while len(origin) < 12:
        parent = int(rng.integers(len(origin)))
        if (side := 2 * parent + int(rng.integers(2))) not in origin:
            origin.append(side)
            client.append(int(rng.integers(-1, problem.n)))
    looks = rng.integers(0, 3, len(origin))
    near = np.rint(np.ldexp(problem.similarity.astype(float).mean(axis=1), -grid))
    vectors = near + rng.integers(-40, 41, (looks.sum(), rows))
    accepted = 0
    for goal in np.linspace(best - 2, best + 4, 25):
        at = int(np.floor(np.ldexp(goal, -grid)))
        found = searched(problem, at, grid, vectors, origin, client, looks)
        if (proved := second(problem, found)) is not None:
            assert both(problem, found) == proved >= best
            accepted += 1
        else:
            refused(problem, found, "node")
    found = searched(problem, 1 << 40, grid, vectors, origin, client, looks)
    assert accepted or not looks[0] or both(problem, found) >= best


def test_coverage_by_hand():
    """Rows 1 and 2 are served by either of two candidates, row 3 by the third: 4 + 4 + 0, and the worths 1, 1, 5."""
    problem = CoverageProblem([[5, 4, 0], [4, 5, 0], [0, 0, 5]], size=2)
    good = searched(problem, 14, 0, [[4, 4, 0]])
    assert both(problem, good) == 14.0
    # At a goal of 13 the best two are open; by candidate 3 at 8 + 1 + 5 alone they are found, and evaluated.
    refused(problem, replace(good, arrays={**good.arrays, "goal": integers(13)}), "node 0 is open")
    for match, changed in {
        "two nodes": {"origin": integers(0)},
        "too fine": {"multiplier": integers(4, 4, 1 << 61)},
        "one multiplier for each row": {"looks": integers(2)},
        "does not have": {"client": integers(3)},
        "must have 1 entries": {"looks": integers(1, 0)},
        "no node lies at -1": {
            "origin": integers(),
            "client": integers(),
            "looks": integers(),
            "multiplier": integers(),
        },
    }.items():
        refused(problem, replace(good, arrays={**good.arrays, **changed}), match)
    refused(problem, replace(good, bound=float(np.nextafter(14.0, 0))), "proves only")
    sides = {"origin": integers(-1, 0), "client": integers(0, -1), "looks": integers(0, 1)}
    refused(problem, replace(good, arrays={**good.arrays, **sides}), "no node lies at 1")


def test_similarities_are_rounded_up_also_where_they_vanish():
    """On a coarse grid each row counts a whole unit, however small it is; one of none at all counts nothing."""
    problem = CoverageProblem([[5e-280, 0.0], [0.0, 0.0]], size=1)
    assert both(problem, searched(problem, 0, 800, np.zeros((0, 2)), client=[0], looks=[0])) == 2.0**800
    assert both(problem, searched(problem, 3, -2, [[0, 0]])) == 0.75


def test_candidates_that_are_alike_stand_for_each_other_where_enough_are_left():
    """Two of three alike: with one of them left out the others are decided; of two different ones two are selected."""
    alike = CoverageProblem([[3.0, 3.0, 3.0, 1.0], [0.0, 0.0, 0.0, 2.0]], size=2)
    nothing = searched(alike, 0, 0, np.zeros((0, 2)), looks=[0])
    assert both(alike, nothing) == 5.0
    many = replace(nothing, problem=problem_digest(three := CoverageProblem(alike.similarity, size=3)))
    refused(three, many, "node 0 is open")


@pytest.mark.parametrize("seed", few_of(range(30), 1))
def test_any_ratio_proves_a_bound_of_the_balance(seed):
    """κ far below and far above the optimum, in coarse and fine units: never more than the least imbalance."""
    rng, tried = np.random.default_rng(seed), 0
    for _ in range(4):
        problem = balance_problem(rng)
        best, fine = solve(problem, "brute-force").objective, int(rng.integers(0, 30))
        level = int(best * problem.classes**2 * 2.0**fine * float(rng.choice([0.0, 0.5, 1.0, 3.0]))) + int(
            rng.integers(0, 4)
        )
        stated, _, _ = restated(problem, level, fine)
        if not (stated.distances.any() or stated.costs.any()):
            continue  # one class, and κ = 0: no relaxation of nothing but zeros
        tried += 1
        engine = DispersionProblem(stated.distances, stated.costs, size=problem.size, **problem.stated_constraints())
        tree = solve(engine, certificate=True).certificate
        arrays = {**tree.arrays, "level": integers(level), "fine": integers(fine)}
        found = Certificate("balance", problem_digest(problem), -1e300, tree.grid, arrays)
        assert both(problem, found) <= best
        refused(problem, replace(found, bound=best + 1e-9), "proves only")
        refused(problem, replace(found, arrays={**arrays, "level": integers(1, 1), "fine": integers(0, 0)}), "level")
    assert tried >= 2


def test_balance_of_whole_counts_needs_no_search():
    """Seven samples of three classes: 3, 2 and 2 of them at best. With other sizes 0 is all that is known."""
    equal, unequal = (BalanceProblem([row], 1) for row in ([3, 2, 2], [3, 2, 1]))
    solution = solve(equal, certificate=True)
    assert solution.certificate.arrays["level"].size == 0
    assert both(equal, solution.certificate) == pytest.approx(17 / 49 - 1 / 3, rel=1e-12)
    assert both(unequal, replace(solution.certificate, problem=problem_digest(unequal), bound=0.0)) == 0.0
    refused(unequal, replace(solution.certificate, problem=problem_digest(unequal)), "proves only 0.0")


def test_balance_of_whole_counts_is_read_where_no_search_would_be():
    """A search is read up to 2 048 clients; what whole counts prove alone is read by both checkers for more."""
    problem = BalanceProblem([[1, 1]] * 2049, 2)
    found = solve(problem, certificate=True).certificate
    assert found.arrays["level"].size == 0
    assert both(problem, found) == 0.0
    lie = replace(found, arrays={**found.arrays, "level": integers(0), "fine": integers(0)})
    refused(problem, lie, "read up to 2048 clients")


def test_a_certificate_of_balance_that_lists_a_pool_is_refused():
    problem = BalanceProblem([[3, 2, 2], [2, 3, 2], [2, 2, 3]], 1)
    found = solve(problem, certificate=True).certificate
    assert found.arrays["level"].size == 0
    lie = replace(found, arrays={**found.arrays, "pool": integers(0)})
    refused(problem, lie, "list no selections")
    with pytest.raises(CertificateError, match="list no selections"):
        check_pool(problem, lie)


def test_both_state_the_same_dispersion_problem():
    """Distances and costs to the last bit, from counts whose squares no double holds."""
    rng = np.random.default_rng(0)
    problem = BalanceProblem(rng.integers(1, 10**9, (5, 4)), 2)
    stated, constant, error = restated(problem, 12345, 7)
    x = np.array([1, 0, 0, 1, 0])
    deviation, samples = x @ problem.deviations.astype(object), int(x @ problem.samples)
    exact = constant - sum(d * d for d in deviation.tolist()) + 12345 * samples**2 / 2**7
    value = x @ stated.distances @ x - stated.costs @ x
    assert abs(value - float(exact)) <= float(error) * 4
    assert as_read(problem).label_counts == problem.label_counts.tolist()


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_levels_prove_every_schedules_variance_whatever_method_it_is_from(seed):
    """Exactly, but for the rounding of the variance to a double."""
    rng = np.random.default_rng(seed)
    for case in range(15):
        problem = random_schedule(rng, 9, 9)
        method = ("exchanges", "min-cost-flow", "round-by-round")[case % 3]
        solution = with_certificate(solve(problem, method).with_bound(problem.bound()))
        best = solve(problem).objective
        assert abs(both(problem, solution.certificate) - best) <= 1e-15 * best
        late = with_certificate(solve(problem, "round-by-round").with_bound(problem.bound()), 1e-9)
        assert both(problem, late.certificate) <= best


@pytest.mark.parametrize("seed", few_of(range(40), 2))
def test_any_levels_prove_a_bound_of_the_variance(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        problem = random_schedule(rng)
        best = solve(problem).objective
        for reach in (2, 9, 1 << 33):
            arrays = {"level": rng.integers(-1, reach, problem.n, endpoint=True)}
            assert both(problem, Certificate("schedule", problem_digest(problem), -1e300, 0, arrays)) <= best


def test_a_schedule_by_hand():
    """Two rounds of client 0 alone, one of either: 2 and 1 turns, priced from the levels 1 and 1 or 0."""
    problem = ScheduleProblem([[1, 0], [1, 0], [1, 1]], size=1)
    good = Certificate("schedule", problem_digest(problem), 0.25, 0, {"level": integers(1, 1)})
    assert both(problem, good) == 0.25  # 3 + 3 + 3 - 2 - 2 = 5 = 2 * 2 + 1 * 1
    weak = replace(good, arrays={"level": integers(1, -1)})  # 3 + 3 - 1 - 2 = 3
    refused(problem, weak, "proves only -0.75")
    refused(problem, replace(good, bound=0.2500001), "proves only 0.25")
    refused(problem, replace(good, arrays={"level": integers(1)}), "must have 2 entries")
    refused(problem, replace(good, arrays={"level": integers(1, 1 << 34)}), "must lie between")
    refused(problem, replace(good, arrays={"level": integers(1, -2)}), "must lie between")
