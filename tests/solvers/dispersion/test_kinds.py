"""Kinds state the same problem as their matrix, and the tree over counts finds its optimum."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import methods, solve
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion import kinds as of_kinds
from solvers.dispersion.kinds import equal_rows, kinds_of
from solvers.dispersion.methods import kinds
from solvers.dispersion.tree.counts import Counts, cheapest_of_each
from solvers.errors import InvalidProblem
from solvers.run import Run
from tests.thoroughly import few_of


def random_kinds(rng: np.random.Generator, n: int | None = None) -> KindDispersionProblem:
    """A small problem: random, Euclidean or few distances, within kinds or not; any scale."""
    n = int(rng.integers(2, 13)) if n is None else n
    k = int(rng.integers(1, min(n, 6) + 1))
    kinds = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    if rng.integers(2):
        points = rng.random((k, 2))
        d = np.linalg.norm(points[:, None] - points, axis=2)
    else:
        d = rng.random((k, k)) if rng.integers(2) else rng.integers(0, 4, (k, k)).astype(float)
        d = (d + d.T) / 2
    if rng.integers(2):
        np.fill_diagonal(d, 0)
    costs = (np.zeros(n), rng.normal(size=n), rng.integers(-2, 3, n) * 0.3, 10 * rng.normal(size=n))[rng.integers(4)]
    scale = 10.0 ** rng.integers(-9, 10)
    weight = float(rng.choice([0.5, 1.0, 0.01, 0.0]))
    return KindDispersionProblem(d * scale, kinds, costs * scale, size=int(rng.integers(1, n + 1)), weight=weight)


def two_labels() -> np.ndarray:
    """Hellinger distances between the 45 kinds of clients with two of ten labels."""
    pairs = [(i, j) for i in range(10) for j in range(i)]
    roots = np.zeros((45, 10))
    for row, pair in zip(roots, pairs, strict=True):
        row[list(pair)] = 0.5
    return np.linalg.norm(roots[:, None] - roots, axis=2)


@pytest.mark.parametrize("method", ["auto", "branch-and-bound", "brute-force", "tangent"])
@pytest.mark.parametrize("cases", few_of([100, 400], 1))
def test_against_enumeration_of_the_matrix(method, cases):
    rng = np.random.default_rng(0)
    for _ in range(cases):
        problem = random_kinds(rng)
        best = solve(problem.expanded(), "brute-force").objective
        solution = solve(problem, method)
        assert solution.bound >= best - 2 * problem.rounding
        assert solution.objective <= best + 2 * problem.rounding
        if method != "tangent":
            assert solution.status == "optimal"
            assert solution.objective >= best - 2e-6 * min(max(1, abs(best)), problem.scale)


def test_objective_agrees_with_the_matrix():
    rng = np.random.default_rng(1)
    for _ in range(200):
        problem = random_kinds(rng)
        x = rng.permutation(np.arange(problem.n) < problem.size).astype(int)
        expected = problem.expanded()
        assert problem.objective(x) == pytest.approx(expected.objective(x), abs=problem.rounding + expected.rounding)
        assert problem.trivial_bound() >= problem.objective(x)
        form = Counts(problem)
        n = form.counts(x)
        cheapest = form.decision(n)
        value = n @ form.q @ n + sum(form.steps[a : a + b].sum() for a, b in zip(form.start[:-1], n, strict=True) if b)
        assert problem.objective(cheapest) == pytest.approx(value, abs=form.margin)
        assert problem.objective(cheapest) >= problem.objective(x) - 2 * problem.rounding


@pytest.mark.parametrize("k", [7, 900])
def test_cheapest_of_each_kind(k):
    rng = np.random.default_rng(2)
    kinds, costs = np.concatenate([np.arange(k), rng.integers(0, k, 5_000)]), rng.integers(0, 6, k + 5_000) * 1.0
    start, order = cheapest_of_each(kinds, costs, k, 4)
    for a in range(k):
        members = np.flatnonzero(kinds == a)
        expected = members[np.argsort(costs[members], kind="stable")][:4]
        assert order[start[a] : start[a + 1]].tolist() == expected.tolist()


@pytest.mark.parametrize("size", [10, 200])
def test_two_label_clients_are_proved(size):
    rng = np.random.default_rng(3)
    kinds = np.concatenate([np.arange(45), rng.integers(0, 45, 20_000)])
    problem = KindDispersionProblem(two_labels(), kinds, rng.integers(0, 5, kinds.size) * 1e-3, size=size, weight=0.01)
    solution = solve(problem, time_limit=600)
    assert solution.status == "optimal"


def test_distances_within_kinds_are_proved_by_probing():
    """As on a 3DG: equal clients lie a little apart, and the quadratic is not concave by just that."""
    d = np.round(two_labels() ** 2, 12)  # 1 - (labels shared) / 2, up to a factor: rank 9 on the slice
    np.fill_diagonal(d, 2.8e-4)
    kinds = np.repeat(np.arange(45), 300)
    problem = KindDispersionProblem(d, kinds, None, size=100, weight=1.0)
    root, proved = solve(problem, "tangent"), solve(problem, time_limit=600)
    assert root.gap > 1e-5
    assert proved.status == "optimal"


def test_many_points_that_are_few_kinds():
    rng = np.random.default_rng(4)
    where = rng.random((30, 3))
    kinds = np.concatenate([np.arange(30), rng.integers(0, 30, 4_000)])
    costs = rng.random(kinds.size)
    points = PointDispersionProblem(where[kinds], costs, size=40, weight=0.02)
    d = np.linalg.norm(where[:, None] - where, axis=2)
    ours, theirs = solve(points), solve(KindDispersionProblem(d, kinds, costs, size=40, weight=0.02))
    assert ours.details["kinds"] == 30
    assert ours.status == theirs.status == "optimal"
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)


@pytest.mark.parametrize("method", [entry.name for entry in methods(KindDispersionProblem)])
def test_every_method_decides_feasibly_repeatably_and_never_below_its_start(method):
    rng = np.random.default_rng(5)
    for n in (6, 9, 12) if method == "brute-force" else (6, 60, 400):
        problem = random_kinds(rng, n)
        first, second = (solve(problem, method, seed=3) for _ in range(2))
        assert problem.violation(first.x) == 0
        assert (first.x == second.x).all()
        assert first.bound == second.bound
        best = solve(problem, "auto")
        assert solve(problem, method, start=best.x).objective >= best.objective


def test_fedgs_leaves_out_kinds_of_whom_nobody_is_there():
    rng = np.random.default_rng(6)
    d, kinds, counts = two_labels(), rng.integers(0, 45, 60), rng.integers(0, 4, 60)
    available = rng.random(60) < 0.3
    matrix = d[np.ix_(kinds, kinds)]
    np.fill_diagonal(matrix, 0)
    ours = KindDispersionProblem.fedgs(d, kinds, counts, available, 5, 2.0)
    theirs = DispersionProblem.fedgs(matrix, counts, available, 5, 2.0)
    assert (ours.clients == theirs.clients).all()
    assert solve(ours).objective == pytest.approx(solve(theirs).objective, rel=3e-6)


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        ([0, -1, 1], r"distances of shape \(2, 2\) have no row and column for kind -1"),
        ([0, 2, 1], r"distances of shape \(2, 2\) have no row and column for kind 2"),
        ([0.0, 1.0, 1.0], r"kinds must be one integer per client; got float64 of shape \(3,\)"),
    ],
)
def test_fedgs_says_which_kind_is_none(kinds, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        KindDispersionProblem.fedgs(1 - np.eye(2), kinds, np.zeros(3), np.ones(3), 2, 1.0)


def test_fedgs_refuses_distances_between_other_kinds():
    with pytest.raises(InvalidProblem, match=r"a square matrix, a row per kind; got shape \(2, 3\)"):
        KindDispersionProblem.fedgs([[0, 1, 2], [1, 0, 2]], [0, 1], np.zeros(2), np.ones(2), 1, 1.0)


def test_compiling_in_the_small_problem_stops_the_clock_of_the_whole(monkeypatch):
    problem = KindDispersionProblem(1 - np.eye(3), kinds=np.arange(30) % 3, costs=np.arange(30.0), size=5)
    run, found = Run(problem, "tabu", 3600.0, 0), []

    def compiled(small, inner, *, moves):
        before = run._start
        with inner.loading():
            pass
        found.append(run._start > before)

    monkeypatch.setattr(kinds, "tabu_with_matrix", compiled)
    kinds.tabu(problem, run, moves=10)
    assert found == [True]


def test_save_and_load_keep_every_bit(tmp_path):
    problem = random_kinds(np.random.default_rng(7), 30)
    again = KindDispersionProblem.load(problem.save(tmp_path / "kinds.npz"))
    for name in ("distances", "kinds", "costs", "clients"):
        assert (getattr(again, name) == getattr(problem, name)).all()
    assert (again.size, again.weight) == (problem.size, problem.weight)


def test_time_limit_leaves_a_decision(watchdog):
    rng = np.random.default_rng(8)
    d = rng.random((60, 60))
    d = (d + d.T) / 2
    problem = KindDispersionProblem(d, rng.permutation(np.arange(6_000) % 60), None, size=40, weight=1.0)
    solution = solve(problem, time_limit=0.4)
    assert solution.x is not None
    assert solution.bound >= solution.objective


BAD = [
    ({"distances": [[0.0, np.nan], [1.0, 0.0]]}, "finite"),
    ({"distances": [[0.0, 1.0], [2.0, 0.0]]}, "symmetric"),
    ({"distances": [[0.0, -1.0], [-1.0, 0.0]]}, "non-negative"),
    ({"distances": [[0.0, 1.0]]}, "square"),
    ({"kinds": [0, 1, 2]}, "between 0 and 1"),
    ({"kinds": [0, -1, 1]}, "between 0 and 1"),
    ({"kinds": [0.0, 1.0, 1.0]}, "integer"),
    ({"kinds": [0, 0, 0]}, "kind 1 has no client"),
    ({"kinds": np.zeros(0, dtype=int)}, "no client"),
    ({"costs": [1.0]}, "one entry per client"),
    ({"size": 0}, "between 1"),
    ({"size": 4}, "between 1"),
    ({"weight": -0.5}, "non-negative"),
    ({"clients": [3, 2, 1]}, "strictly increasing"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_input_is_refused_with_a_sentence(change, words):
    good = {"distances": [[0.0, 1.0], [1.0, 0.5]], "kinds": [0, 1, 1], "costs": None, "size": 2}
    with pytest.raises(InvalidProblem, match=words):
        KindDispersionProblem(**(good | change))


def test_expanded_says_when_the_matrix_is_too_large():
    problem = KindDispersionProblem([[0.0]], np.zeros(20_001, dtype=int), None, size=2)
    with pytest.raises(InvalidProblem, match=r"GiB.*20000 clients"):
        problem.expanded()


def test_kinds_are_found_in_a_matrix_and_nowhere_else():
    rng = np.random.default_rng(9)
    for _ in range(200):
        problem = random_kinds(rng)
        h = problem.expanded().distances
        found = kinds_of(h)
        if found is None:
            assert all(not _twins(h, i, j) for i in range(len(h)) for j in range(i))
            continue
        d, kinds = found
        again = d[np.ix_(kinds, kinds)]
        np.fill_diagonal(again, 0)
        assert (again == h).all()
        assert kinds.max() + 1 < len(h)
    assert kinds_of(rng.random((30, 30)) + np.arange(30)) is None


def test_few_clients_are_compared_where_all_rows_have_the_same_numbers(monkeypatch):
    """As codes of nine bits have: one row is another one in another order."""
    compared = []
    alike = of_kinds._alike
    monkeypatch.setattr(of_kinds, "_alike", lambda *given: compared.append(given[-1]) or alike(*given))
    bits = (np.arange(512)[:, None] >> np.arange(9)) & 1
    h = (bits[:, None] != bits).sum(axis=2).astype(np.float32)
    assert kinds_of(h) is None
    assert len(compared) <= 10
    h[0], h[:, 0] = h[1], h[:, 1]
    h[0, 0], h[0, 1], h[1, 0] = 0.0, 1.0, 1.0
    found = kinds_of(h)
    assert found is not None
    assert found[1][0] == found[1][1]
    assert len(found[0]) == 511


def _twins(h: np.ndarray, i: int, j: int) -> bool:
    others = np.setdiff1d(np.arange(len(h)), [i, j])
    return bool((h[i, others] == h[j, others]).all())


def test_equal_rows():
    rng = np.random.default_rng(10)
    rows = rng.integers(0, 2, (500, 3)) * rng.choice([1.0, -0.0], (500, 1))
    first, kinds = equal_rows(rows)
    assert (rows[first][kinds] == rows).all()
    assert (np.diff(first) > 0).all()
    assert len(np.unique(rows + 0.0, axis=0)) == len(first)


def test_a_matrix_of_few_kinds_is_solved_by_counting():
    rng = np.random.default_rng(11)
    kinds = np.concatenate([np.arange(45), rng.integers(0, 45, 255)])
    matrix = KindDispersionProblem(two_labels(), kinds, rng.random(300) * 0.01, size=20, weight=0.002).expanded()
    solution = solve(matrix, "auto", time_limit=600)
    assert solution.details["kinds"] == 45
    assert solution.status == "optimal"
