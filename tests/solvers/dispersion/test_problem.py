"""The dispersion problem: validation, objective, FedGS's costs, storage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
from solvers import InvalidProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from tests.solvers.dispersion.instances import naive_objective, naive_optimum, problems
from tests.thoroughly import tried

LINE = np.abs(np.subtract.outer([0.0, 1.0, 3.0, 7.0], [0.0, 1.0, 3.0, 7.0]))


def _changed(i: int, j: int, value: float) -> np.ndarray:
    matrix = LINE.copy()
    matrix[i, j] = value
    return matrix


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"distances": LINE[:3], "size": 2}, "square matrix"),
        ({"distances": np.empty((0, 0)), "size": 1}, "at least one client"),
        ({"distances": _changed(1, 2, math.nan), "size": 2}, r"finite; entry \(1, 2\) is nan"),
        ({"distances": _changed(1, 2, math.inf), "size": 2}, r"finite; entry \(1, 2\) is inf"),
        ({"distances": _changed(1, 2, 5.0), "size": 2}, r"symmetric; entry \(1, 2\) is 5 but entry \(2, 1\) is 2"),
        (
            {"distances": -LINE, "size": 2},
            "non-negative; the smallest is -7.*from_quadratic and .qubo files take",
        ),
        ({"distances": _changed(2, 2, 1.0), "size": 2}, "zero on the diagonal; client 2 has 1.*from_quadratic"),
        ({"distances": LINE, "costs": [1.0, 2.0], "size": 2}, "one entry per client, 4; got 2"),
        ({"distances": LINE, "costs": [1, 2, 3, math.nan], "size": 2}, "costs must be finite; entry 3 is nan"),
        ({"distances": LINE, "size": 0}, "between 1 and the number of clients, 4; got 0"),
        ({"distances": LINE, "size": 5}, "between 1 and the number of clients, 4; got 5"),
        ({"distances": LINE, "size": 2.5}, "size must be an integer; got 2.5"),
        ({"distances": LINE}, "size is missing: say how many"),
        ({"distances": LINE, "size": True}, "size must be an integer; got True"),
        ({"distances": LINE, "size": 2, "weight": -1.0}, "weight must be finite and non-negative"),
        ({"distances": LINE, "size": 2, "weight": math.nan}, "weight must be finite and non-negative"),
        ({"distances": LINE * 1e300, "size": 2, "weight": 1e300}, "overflows"),
        ({"distances": LINE, "size": 2, "clients": [3, 1, 2, 0]}, "strictly increasing"),
        ({"distances": LINE, "size": 2, "clients": [0.5, 1, 2, 3]}, r"clients must be whole numbers; got \[0\.5, "),
        ({"distances": "far", "size": 2}, "distances must be numbers"),
    ],
)
def test_bad_input_is_a_sentence(arguments, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        DispersionProblem(**arguments)


def test_asymmetry_of_rounding_size_is_averaged():
    problem = DispersionProblem(_changed(1, 2, 2.0 + 1e-12), size=2)
    assert problem.distances[1, 2] == problem.distances[2, 1] == pytest.approx(2.0)


@tried(25, 100, problems())
def test_objective_is_the_sum_over_ordered_pairs_less_costs(problem):
    for chosen in itertools.islice(itertools.combinations(range(problem.n), problem.size), 10):
        x = np.zeros(problem.n)
        x[list(chosen)] = 1
        assert problem.objective(x) == pytest.approx(naive_objective(problem, chosen), rel=1e-12, abs=1e-12)
        assert problem.violation(x) == 0


def test_violation_measures_the_worst_constraint():
    problem = DispersionProblem(LINE, size=2)
    assert problem.violation([1, 1, 1, 0]) == 1
    assert problem.violation([0, 0, 0, 0]) == 2
    assert problem.violation([3, -1, 0, 0]) == 2
    with pytest.raises(ValueError, match="fractional"):
        problem.objective([0.5, 0.5, 1, 0])
    with pytest.raises(ValueError, match="one entry per client, 4"):
        problem.objective([1, 1])


@tried(25, 100, problems())
def test_trivial_bound_is_a_bound(problem):
    assert problem.trivial_bound() >= naive_optimum(problem)


@tried(25, 100, problems(), st.floats(-1e6, 1e6).filter(lambda shift: shift == 0 or abs(shift) > 1e-270))
def test_a_common_cost_shifts_every_selection_alike(problem, shift):
    shifted = DispersionProblem(problem.distances, problem.costs + shift, size=problem.size, weight=problem.weight)
    x = np.zeros(problem.n)
    x[: problem.size] = 1
    assert shifted.objective(x) == pytest.approx(problem.objective(x) - shift * problem.size, rel=1e-9, abs=1e-6)


def test_selected_speaks_in_client_ids():
    problem = DispersionProblem(LINE, size=2, clients=[2, 3, 5, 8])
    assert problem.selected([1, 0, 0, 1]).tolist() == [2, 8]


def test_fedgs_states_equation_14():
    """Hand-written Eq. 14 over every selection of the available clients, all scales."""
    rng = np.random.default_rng(3)
    n, size, alpha = 7, 3, 1.7
    h = np.triu(rng.random((n, n)), 1)
    h += h.T
    v = rng.integers(0, 9, n)
    available = np.array([1, 0, 1, 1, 1, 0, 1], dtype=bool)
    z = 2 * (v - v.mean() - size / n) + 1
    for scale, pairs in (("pairs", size * (size - 1)), ("paper", n * (n - 1)), ("turns", (n - 1) * (size - 1))):
        problem = DispersionProblem.fedgs(h, v, available, size, alpha, scale)
        ids = np.flatnonzero(available)
        assert problem.clients.tolist() == ids.tolist()
        for place in itertools.combinations(range(ids.size), size):
            x = np.zeros(ids.size)
            x[list(place)] = 1
            s = np.zeros(n)
            s[ids[list(place)]] = 1
            assert problem.objective(x) == pytest.approx(alpha * s @ h @ s / pairs - z @ s / (n - 1), rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_swap_gains_at_most_alpha_turns(size):
    """Under the scale of turns, from no distance at all to the largest; under that of pairs α (N - 1) / m turns."""
    n, alpha = 12, 2.0
    far = np.zeros((n, n))
    far[0, 1:] = far[1:, 0] = 1.0
    counts = np.zeros(n)
    with_it, without = (np.isin(np.arange(n), np.arange(first, first + size)).astype(float) for first in (0, 1))
    for scale, turns in (("turns", alpha), ("pairs", alpha * (n - 1) / size)):
        problem = DispersionProblem.fedgs(far, counts, counts == 0, size, alpha, scale)
        gain = problem.objective(with_it) - problem.objective(without)
        counted = DispersionProblem.fedgs(far, counts + np.eye(n)[0], counts == 0, size, alpha, scale)
        turn = (
            problem.objective(with_it)
            - counted.objective(with_it)
            - (problem.objective(without) - counted.objective(without))
        )
        assert gain == pytest.approx(turns * turn)


def test_fedgs_scales_differ_by_110_at_the_papers_size():
    h = np.ones((100, 100)) - np.eye(100)
    pairs = DispersionProblem.fedgs(h, np.zeros(100), np.ones(100), 10, 1.0)
    paper = DispersionProblem.fedgs(h, np.zeros(100), np.ones(100), 10, 1.0, "paper")
    assert pairs.weight / paper.weight == pytest.approx(110)


def test_fedgs_selects_all_when_few_are_available():
    problem = DispersionProblem.fedgs(LINE, [0, 1, 2, 3], [0, 1, 1, 0], 3, 1.0)
    assert (problem.size, problem.n) == (2, 2)
    alone = DispersionProblem.fedgs(LINE, [0, 1, 2, 3], [0, 1, 0, 0], 3, 1.0)
    assert (alone.size, alone.weight) == (1, 0.0)
    assert DispersionProblem.fedgs([[0.0]], [4], [1], 1, 1.0).size == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"available": np.zeros(4)}, "no client is available"),
        ({"available": [0, 2]}, r"mask of 4 booleans; got shape \(2,\)"),
        ({"available": [0, 2, 3, 1]}, r"mask of 4 booleans; got \[0, 2, 3, 1\]"),
        ({"counts": [0, 0, 0]}, "3 by 3, one row per entry of counts"),
        ({"counts": [0, 0, 0, -1]}, "counts must be non-negative; the smallest is -1"),
        ({"size": 0}, "size must be at least 1; got 0"),
        ({"alpha": -0.5}, "alpha must be finite and non-negative; got -0.5"),
        ({"alpha": math.nan}, "alpha must be finite and non-negative"),
        ({"scale": "pair"}, "scale must be 'pairs', 'paper' or 'turns'; got 'pair'"),
        ({"scale": ["pairs"]}, r"scale must be 'pairs', 'paper' or 'turns'; got \['pairs'\]"),
        ({"distances": _changed(0, 1, math.nan)}, "distances must be finite"),
        ({"distances": [[0, 1], [1]]}, "distances must be an array; its rows differ in length"),
        ({"distances": np.ma.masked_equal(LINE, 7.0)}, "distances must have no missing values; some are masked"),
        ({"available": np.ma.masked_equal(np.arange(4) % 2, 0)}, "available must have no missing values"),
        ({"counts": [[0, 1], [1]]}, "counts must be an array; its rows differ in length"),
        ({"available": [[0, 1], [1]]}, "available must be an array; its rows differ in length"),
    ],
)
def test_fedgs_refuses_in_a_sentence(change, sentence):
    arguments = {"distances": LINE, "counts": np.zeros(4), "available": np.ones(4), "size": 2, "alpha": 1.0}
    with pytest.raises(InvalidProblem, match=sentence):
        DispersionProblem.fedgs(**(arguments | change))


def test_rows_that_differ_in_length_are_refused_by_every_statement():
    ragged, rest = [[0, 1], [1]], (np.zeros(2), np.ones(2), 1, 1.0)
    for state in (
        lambda: DispersionProblem.max_diversity(ragged, 1),
        lambda: PointDispersionProblem.fedgs(ragged, *rest),
        lambda: KindDispersionProblem.fedgs(ragged, [0, 1], *rest),
        lambda: KindDispersionProblem.fedgs(1 - np.eye(2), ragged, *rest),
    ):
        with pytest.raises(InvalidProblem, match="must be an array; its rows differ in length"):
            state()
    with pytest.raises(InvalidProblem, match="distances must be real numbers; got text"):
        KindDispersionProblem.fedgs([["a", "b"], ["b", "a"]], [0, 1], *rest)


@given(problem=problems())
def test_save_and_load_keep_every_bit(problem, tmp_path_factory):
    path = problem.save(tmp_path_factory.mktemp("problem") / "p.npz")
    again = solvers.load(path)
    assert isinstance(again, DispersionProblem)
    for name in ("distances", "costs", "clients"):
        assert np.array_equal(getattr(again, name), getattr(problem, name))
    assert (again.size, again.weight) == (problem.size, problem.weight)


def test_the_problem_cannot_change_after_validation():
    data = LINE.copy()
    problem = DispersionProblem(data, size=2)
    data[0, 3] = math.nan
    assert np.isfinite(problem.distances).all()
    with pytest.raises(ValueError, match="read-only"):
        problem.distances[0, 1] = 3


@pytest.mark.parametrize(
    "of", [DispersionProblem, PointDispersionProblem, lambda h: KindDispersionProblem(h, [0, 1, 2, 3])]
)
def test_a_missing_size_is_asked_for(of):
    with pytest.raises(InvalidProblem, match="size is missing: say how many of the 4 clients to choose, as in size=4"):
        of(LINE)


def test_size_is_a_keyword():
    with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments"):
        DispersionProblem(*[LINE, np.zeros(4), 2])


def test_maximum_diversity_counts_a_pair_once():
    problem = DispersionProblem.max_diversity(LINE, 3)
    x = [1, 0, 1, 1]
    assert problem.objective(x) == sum(LINE[i][j] for i, j in ((0, 2), (0, 3), (2, 3)))
    assert not problem.costs.any()


def test_maximum_diversity_keeps_labels():
    table = pd.DataFrame(LINE, index=list("abcd"), columns=list("abcd"))
    assert DispersionProblem.max_diversity(table, 3).names == tuple("abcd")


@pytest.mark.parametrize("metric", ["euclidean", "hellinger", "manhattan", "cosine"])
def test_points_under_any_metric_are_the_matrix_of_their_distances(metric):
    """Distances in plain Python; the optimum is brute force's, with a bound."""
    rng = np.random.default_rng(3)
    points = rng.dirichlet(np.ones(4), size=9)
    costs = rng.random(9)

    def distance(p, q):
        if metric == "manhattan":
            return sum(abs(a - b) for a, b in zip(p, q, strict=True))
        if metric == "cosine":
            return 1 - sum(a * b for a, b in zip(p, q, strict=True)) / math.hypot(*p) / math.hypot(*q)
        power = 0.5 if metric == "hellinger" else 1.0
        root = math.sqrt(2) if metric == "hellinger" else 1.0
        return math.hypot(*(a**power - b**power for a, b in zip(p, q, strict=True))) / root

    problem = DispersionProblem.from_points(points, costs, size=4, weight=2.0, metric=metric, exclude=[0])
    np.testing.assert_allclose(problem.distances, [[distance(p, q) for q in points] for p in points], atol=1e-12)
    assert problem.concave_on_slice
    assert 0 not in problem.clients[solvers.solve(problem, "brute-force").selected]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_points_under_any_metric_keep_labels(metric):
    points = pd.DataFrame([[1.0, 2.0], [2.0, 1.0], [3.0, 5.0]], index=list("abc"))
    costs = pd.Series([3.0, 2.0, 1.0], index=list("cba"))
    problem = DispersionProblem.from_points(points, costs, size=2, metric=metric)
    assert problem.names == tuple("abc")
    assert problem.costs.tolist() == [1.0, 2.0, 3.0]


def test_points_under_other_metrics_are_refused():
    with pytest.raises(InvalidProblem, match="needs rows other than 0; row 1 of points is 0"):
        DispersionProblem.from_points([[1.0, 0.0], [0.0, 0.0]], size=1, metric="cosine")
    with pytest.raises(InvalidProblem, match=r"metric must be .* got 'cosin'; did you mean 'cosine'"):
        DispersionProblem.from_points([[1.0, 0.0], [0.0, 0.0]], size=1, metric="cosin")
    with pytest.raises(InvalidProblem, match=r"metric must be .* got \['cosine'\]"):
        DispersionProblem.from_points([[1.0, 0.0], [0.0, 0.0]], size=1, metric=["cosine"])
    with pytest.raises(InvalidProblem, match=r"matrix of 20001 points takes 2\.98 GiB"):
        DispersionProblem.from_points(np.zeros((20_001, 1)), size=1, metric="manhattan")
    with pytest.raises(InvalidProblem, match=r"at least one coordinate each; got shape \(0, 2\)"):
        DispersionProblem.from_points(np.zeros((0, 2)), size=1, metric="manhattan")
    for length in (1e200, 1e-200):
        with pytest.raises(InvalidProblem, match=r"row 1 of points has entries up to .*, whose square is no number"):
            DispersionProblem.from_points([[1.0, 1.0], [length, 0.0]], size=1, metric="cosine")
