"""The coverage problem: enumeration, submodularity, greedy's guarantee, swaps, bounds, sentences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidProblem, load, methods, solve
from solvers.certificates import CertificateError, check
from solvers.certificates.check_certificate import check_files
from solvers.constraints import Budget
from solvers.coverage import CoverageProblem, kernels
from solvers.coverage.lagrangian import Lists, Tree
from solvers.coverage.swaps import Service, ascend
from solvers.run import Run
from solvers.subsets import from_clients
from tests.thoroughly import few_of, tried


def covered(similarity, chosen):
    return [max(float(row[j]) for j in chosen) for row in similarity]


def value_of(similarity, chosen):
    return math.fsum(covered(similarity, chosen))


def best_of(problem):
    """The best value over all selections, in plain Python."""
    rows, costs = problem.similarity.tolist(), problem.costs.tolist()
    every = itertools.combinations(range(problem.n), problem.size)
    return max(math.fsum([*covered(rows, chosen), *(-costs[j] for j in chosen)]) for chosen in every)


def random_problem(rng, largest=8):
    """Rectangular or square, of any sign, with ties or single precision, or distances between points."""
    n, rows = int(rng.integers(1, largest)), int(rng.integers(1, largest))
    kind = rng.integers(4)
    if kind == 0:
        similarity = rng.normal(size=(rows, n))
    elif kind == 1:
        similarity = rng.integers(-1, 3, (rows, n)).astype(float)
    elif kind == 2:
        similarity = rng.random((rows, n)).astype(np.float32)
    else:
        where = rng.random((n, 2))
        similarity = 1 - np.linalg.norm(where[:, None] - where, axis=2)
    costs = [None, rng.normal(size=n), rng.integers(-2, 3, n).astype(float)][rng.integers(3)]
    return CoverageProblem(similarity, int(rng.integers(1, n + 1)), costs)


@pytest.mark.parametrize(("seed", "cases"), few_of([(0, 40), (0, 120), (1, 1500)], 1))
def test_thousands_of_small_cases_against_enumeration(seed, cases):
    rng = np.random.default_rng(seed)
    proved = 0
    for case in range(cases):
        problem = random_problem(rng)
        best = best_of(problem)
        unit = min(max(1.0, abs(best)), problem.scale)
        for entry in methods(problem):
            if entry.name in ("cp-sat", "milp"):
                continue
            solution = solve(problem, entry.name)
            assert solution.objective <= best, (case, entry.name)
            assert solution.bound is None or solution.bound >= best, (case, entry.name)
            if entry.kind == "exact":
                assert solution.status == "optimal", (case, entry.name)
                assert solution.objective >= best - 1e-6 * unit, (case, entry.name)
                proved += 1
    assert proved == 3 * cases


def test_backends_against_enumeration():
    rng = np.random.default_rng(2)
    for _ in range(15):
        problem = random_problem(rng)
        best = best_of(problem)
        for name in ("cp-sat", "milp"):
            solution = solve(problem, name)
            assert solution.objective == pytest.approx(best, abs=1e-9)
            assert solution.bound >= best


def test_larger_ones_against_another_solver():
    """Trees that branch: 40 random points of six dimensions."""
    branched = 0
    for seed in range(4):
        where = np.random.default_rng(seed).random((40, 6))
        problem = CoverageProblem(3 - np.linalg.norm(where[:, None] - where, axis=2), 6)
        ours, theirs = solve(problem), solve(problem, "milp")
        assert ours.status == "optimal"
        assert ours.objective >= theirs.objective - 1e-6
        assert ours.objective <= theirs.bound
        branched += ours.nodes > 1
    assert branched


@tried(15, 60, st.integers(0, 10**6))
def test_the_objective_is_monotone_and_submodular(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    rows, n = problem.similarity.tolist(), problem.n
    small = sorted(rng.choice(n, rng.integers(1, n + 1), replace=False).tolist())
    large = sorted({*small, *rng.choice(n, rng.integers(0, n + 1), replace=False).tolist()})
    gain = [value_of(rows, [*base, j]) - value_of(rows, base) for base in (small, large) for j in range(n)]
    assert min(gain) >= -1e-12
    assert all(first >= second - 1e-12 for first, second in zip(gain[:n], gain[n:], strict=True))


@tried(10, 40, st.integers(0, 10**6))
def test_greedy_is_the_plain_greedy_and_reaches_its_guarantee(seed):
    rng = np.random.default_rng(seed)
    problem = CoverageProblem(rng.random((7, 7)), int(rng.integers(1, 8)))
    rows = problem.similarity.tolist()
    chosen: list[int] = []
    for _ in range(problem.size):
        chosen.append(max(set(range(7)) - set(chosen), key=lambda j: value_of(rows, [*chosen, j])))
    found = solve(problem, "greedy")
    assert found.objective == pytest.approx(value_of(rows, chosen), rel=1e-12)
    assert found.objective >= (1 - 1 / math.e) * best_of(problem)


def test_stochastic_greedy_depends_on_the_seed_and_is_greedy_with_a_full_sample():
    problem = CoverageProblem(np.random.default_rng(3).random((30, 30)), 5)
    values = {solve(problem, "stochastic-greedy", seed=seed, epsilon=0.7).objective for seed in range(10)}
    assert len(values) > 1
    assert solve(problem, "stochastic-greedy", epsilon=1e-9).objective == solve(problem, "greedy").objective
    assert max(values) <= solve(problem, "lagrangian").bound


def test_no_swap_improves_what_local_search_returns():
    rng = np.random.default_rng(4)
    for _ in range(30):
        problem = random_problem(rng, 10)
        start = np.sort(rng.choice(problem.n, problem.size, replace=False))
        run = Run(problem, "ascent", None, 0)
        run.offer(from_clients(start, problem.n))
        ascend(problem, run, start)
        chosen, rows = np.flatnonzero(run.x).tolist(), problem.similarity.tolist()
        for out, into in itertools.product(chosen, set(range(problem.n)) - set(chosen)):
            assert value_of(rows, [into, *(set(chosen) - {out})]) <= run.objective + 1e-9


def test_lists_have_the_largest_similarities_of_each_row_and_keep_what_is_left():
    similarity = np.random.default_rng(5).random((12, 9))
    whole, short = Lists.of(similarity), Lists.of(similarity, entries=50)
    np.testing.assert_array_equal(whole.values, -np.sort(-similarity, axis=1))
    np.testing.assert_array_equal(short.values, whole.values[:, :4])
    np.testing.assert_array_equal(np.take_along_axis(similarity, short.candidates, 1), short.values)
    u, worth = np.full(12, 0.6), np.empty(9)
    kernels.appraise(*whole, u, worth)
    np.testing.assert_allclose(worth, np.maximum(similarity - 0.6, 0).sum(axis=0))
    problem = CoverageProblem(similarity, 3)
    run = Run(problem, "lists", None, 0)
    run.offer(from_clients([1, 4, 7], 9))
    kept = Tree(problem, run)._restricted(np.array([1, 4, 7]))
    assert set(kept.candidates.ravel().tolist()) == {1, 4, 7}
    np.testing.assert_array_equal(kept.values, -np.sort(-similarity[:, [1, 4, 7]], axis=1))


def test_lists_that_end_early_leave_the_bound_valid(monkeypatch):
    rng = np.random.default_rng(7)
    for entries in (1, 20, 40):
        monkeypatch.setattr(Lists.of.__func__, "__defaults__", (entries,))
        for _ in range(20):
            problem = random_problem(rng)
            solution = solve(problem, "branch-and-bound")
            assert solution.objective <= best_of(problem) <= solution.bound


def test_lists_that_end_early_leave_the_first_bound_valid(monkeypatch):
    """From any incumbent: where its rows are served worse than a list ends, that counts as the end of the list."""
    rng = np.random.default_rng(9)
    monkeypatch.setattr(Lists.of.__func__, "__defaults__", (20,))
    for _ in range(40):
        problem = CoverageProblem(rng.random((6, 8)), int(rng.integers(1, 4)))
        run = Run(problem, "tree", None, 0)
        run.offer(from_clients(rng.choice(problem.n, problem.size, replace=False), problem.n))
        Tree(problem, run).search()
        assert run.objective <= best_of(problem) <= run.bound


def test_both_evaluations_of_exchanges_are_those_of_enumeration():
    rng = np.random.default_rng(8)
    for _ in range(40):
        similarity = rng.integers(0, 4, (7, 8)) + rng.random((7, 8)) * rng.integers(0, 2)
        m = int(rng.integers(2, 8))
        chosen = rng.choice(8, m, replace=False)
        before, costs = similarity[:, chosen].max(axis=1).sum(), rng.normal(size=8)
        service, is_selected = Service.of(7), from_clients(chosen, 8).astype(bool)
        kernels.serve(similarity, chosen, -1, *service)
        gain, loss = np.empty(8), np.empty((m, 8))
        kernels.compare(similarity, 0, service.owner, service.first, service.second, gain, loss)
        changes = {}
        for r, j in itertools.product(range(m), np.flatnonzero(~is_selected)):
            swapped = chosen.copy()
            swapped[r] = j
            changes[r, j] = similarity[:, swapped].max(axis=1).sum() - before
            assert gain[j] - loss[r, j] == pytest.approx(changes[r, j], abs=1e-12)
            changes[r, j] += costs[chosen[r]] - costs[j]
        held = (is_selected, costs, costs[chosen], service.owner, service.first, service.second)
        best, r, j = kernels.exchange(*Lists.of(similarity), *held, gain, loss, np.empty(m))
        assert best == pytest.approx(max([0.0, *changes.values()]), abs=1e-12)
        if j >= 0:
            assert changes[r, j] == pytest.approx(best, abs=1e-12)
            chosen[r] = j
            kernels.serve(similarity, chosen, r, *service)
            again = Service.of(7)
            kernels.serve(similarity, chosen, -1, *again)
            np.testing.assert_array_equal(service.first, again.first)
            np.testing.assert_array_equal(service.second, again.second)


@pytest.mark.parametrize("size", [2, 3, 4, 9])
def test_candidates_that_are_alike_are_chosen_where_no_others_are_left(size):
    similarity = np.repeat(np.random.default_rng(9).random((9, 3)), 3, axis=1)
    problem = CoverageProblem(similarity, size)
    solution = solve(problem, "branch-and-bound")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best_of(problem), abs=1e-6)


def test_representatives_and_files(tmp_path):
    single = np.array([[5, 4, 0], [4, 5, 5]], dtype=np.float32)
    problem = load(CoverageProblem(single, 2).save(tmp_path / "problem.npz"))
    assert isinstance(problem, CoverageProblem)
    assert problem.similarity.dtype == np.float32
    assert problem.representatives([1, 0, 1]).tolist() == [0, 2]
    with pytest.raises(InvalidProblem, match="x selects no candidate"):
        problem.representatives([0, 0, 0])
    assert problem.objective([1, 0, 1]) == 10
    assert problem.objective([0, 0, 0]) == -math.inf
    assert problem.violation([0, 0, 0]) == 2
    assert problem.violation([2, 0, 0]) == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (([1.0, 2.0], 1), r"similarity must have 2 dimension\(s\)"),
        ((np.zeros((0, 3)), 1), "a row and a column for at least one client"),
        (([[math.nan]], 1), r"similarity must be finite; entry \(0, 0\) is nan"),
        (([[1.0]], 2), "size must not exceed the number of clients, 1; got 2"),
        (([[1.0]], 0), "size must be an integer of at least 1; got 0"),
        (([[1.0]], True), "size must be an integer of at least 1; got True"),
        (([[1e300]], 1), "overflow; rescale them"),
        (([[1e-300]], 1), "too small to be computed with"),
    ],
)
def test_bad_data_are_sentences(fields, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        CoverageProblem(*fields)


def test_methods_for_small_problems_say_so():
    large = CoverageProblem(np.random.default_rng(6).random((501, 501)), 30)
    for name in ("milp", "cp-sat"):
        with pytest.raises(InvalidProblem, match="a variable for each entry"):
            solve(large, name)
    with pytest.raises(InvalidProblem, match=r"brute-force would look at .* selections"):
        solve(large, "brute-force")


def test_costs_of_zero_change_nothing():
    where = np.random.default_rng(0).random((60, 3))
    similarity = 3 - np.linalg.norm(where[:, None] - where, axis=2)
    without, with_zeros = (solve(CoverageProblem(similarity, 6, costs)) for costs in (None, np.zeros(60)))
    assert (without.objective, without.bound, without.nodes) == (
        with_zeros.objective,
        with_zeros.bound,
        with_zeros.nodes,
    )
    assert not without.problem.has_costs


def test_costs_are_proved_with_side_constraints_and_by_both_checkers(tmp_path):
    branched = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        where = rng.random((40, 3))
        similarity, costs = 3 - np.linalg.norm(where[:, None] - where, axis=2), 2 * rng.random(40)
        stated = {"budgets": [Budget(rng.random(40), 2.5, "seconds")]} if seed % 2 else {}
        problem = CoverageProblem(similarity, 6, costs, **stated)
        found, other = solve(problem, certificate=True), solve(problem, "milp")
        assert found.status == "optimal"
        assert found.objective == pytest.approx(problem.objective(found.x), rel=1e-15)
        assert found.objective >= other.objective - 1e-6
        assert found.objective <= other.bound
        assert found.objective != pytest.approx(solve(CoverageProblem(similarity, 6, **stated)).objective)
        branched += found.nodes > 1
        if not stated:
            proved = check(problem, found.certificate)
            assert found.objective <= proved <= found.objective + 2 * problem.tolerance_at(found.objective)
            assert check_files(problem.save(tmp_path / "p.npz"), found.certificate.save(tmp_path / "c.npz")) == proved
            dearer = CoverageProblem(similarity, 6, costs - 1)
            with pytest.raises(CertificateError, match="problem"):
                check(dearer, found.certificate)
    assert branched


def test_counts_of_a_thousand_clients_are_costs():
    """FedGS's wish for even counts beside coverage: a thousand clients of a square, a hundred to select."""
    rng = np.random.default_rng(0)
    where, counts = rng.random((1000, 2)), rng.integers(0, 20, 1000)
    similarity = 2 - np.linalg.norm(where[:, None] - where, axis=2)
    problem = CoverageProblem(similarity, 100, (counts - counts.mean()) / 10)
    found = solve(problem, time_limit=30.0, gap=0.001)
    assert found.gap <= 0.001
    assert counts[found.selected].mean() < counts.mean()


@pytest.mark.parametrize(
    ("costs", "said"),
    [([1.0], "one entry per candidate, 3"), ([1, 2, math.nan], "costs"), ([1e300, 0, 0], "overflow")],
)
def test_costs_that_are_none_are_refused(costs, said):
    with pytest.raises(InvalidProblem, match=said):
        CoverageProblem(np.eye(3), 2, costs)


def test_equal_candidates_are_not_one_where_costs_differ():
    """A second one covers nothing more, and may still cost least: for the tree, and for what checkers prove of it."""
    problem = CoverageProblem(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]), 2, np.array([0.0, 0.0, 5.0]))
    solution = solve(problem, "branch-and-bound", certificate=True)
    assert (solution.status, solution.objective, solution.selected.tolist()) == ("optimal", 2.0, [0, 1])
    rng, tried = np.random.default_rng(1), 0
    for _ in range(200):
        n = int(rng.integers(3, 8))
        similarity, costs = rng.integers(0, 3, (int(rng.integers(1, 4)), n)), rng.integers(-2, 3, n)
        problem = CoverageProblem(similarity.astype(float), int(rng.integers(1, n)), costs.astype(float))
        found, best = solve(problem, certificate=True), solve(problem, "brute-force").objective
        assert found.objective == best <= found.bound
        assert check(problem, found.certificate) >= best
        tried += 1
    assert tried == 200
