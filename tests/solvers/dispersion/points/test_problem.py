"""Points state the same problem as their matrix, keep their contract, and refuse bad input with a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.errors import InvalidProblem
from tests.solvers.dispersion.points.cases import random_points


def test_objective_and_bounds_agree_with_the_matrix():
    rng = np.random.default_rng(0)
    for _ in range(300):
        problem = random_points(rng)
        matrix = problem.expanded()
        x = np.zeros(problem.n, dtype=int)
        x[rng.choice(problem.n, problem.size, replace=False)] = 1
        assert problem.objective(x) == pytest.approx(matrix.objective(x), abs=problem.rounding + matrix.rounding)
        assert problem.diameter >= matrix.diameter
        assert problem.trivial_bound() >= problem.objective(x)
        assert problem.violation(x) == matrix.violation(x) == 0


def test_hellinger_is_the_distance_between_roots():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    h = PointDispersionProblem(p, None, size=2, metric="hellinger").expanded().distances
    assert h[0, 1] == pytest.approx(1.0)
    assert h[0, 2] == pytest.approx(np.sqrt(1 - np.sqrt(0.5)))


def test_distances_are_of_negative_type():
    rng = np.random.default_rng(1)
    for _ in range(50):
        problem = random_points(rng)
        z = rng.normal(size=problem.n)
        z -= z.mean()
        h = problem.expanded().distances
        assert z @ h @ z <= 1e-9 * max(problem.diameter, 1e-300) * (z @ z) * problem.n


def test_save_and_load_keep_every_bit(tmp_path):
    problem = random_points(np.random.default_rng(5), n=30)
    again = PointDispersionProblem.load(problem.save(tmp_path / "points.npz"))
    assert (again.points == problem.points).all()
    assert (again.costs == problem.costs).all()
    assert (again.size, again.weight, again.metric) == (problem.size, problem.weight, problem.metric)


def test_fedgs_is_fedgs_on_the_matrix():
    rng = np.random.default_rng(2)
    points, counts, available = rng.random((20, 3)), rng.integers(0, 5, 20), rng.random(20) < 0.6
    matrix = PointDispersionProblem(points, None, size=1).expanded().distances
    for scale in ("pairs", "paper"):
        ours = PointDispersionProblem.fedgs(points, counts, available, 4, 1.5, scale)
        theirs = DispersionProblem.fedgs(matrix, counts, available, 4, 1.5, scale)
        assert (ours.clients == theirs.clients).all()
        x = np.zeros(ours.n, dtype=int)
        x[:4] = 1
        assert ours.objective(x) == pytest.approx(theirs.objective(x), rel=1e-12)
        assert (ours.selected(x) == theirs.selected(x)).all()


BAD = [
    ({"points": [[0.0, np.nan], [1, 2]]}, "finite"),
    ({"points": [[0.0, np.inf], [1, 2]]}, "finite"),
    ({"points": np.zeros((3, 0))}, "at least one coordinate"),
    ({"points": np.zeros((0, 3))}, "at least one coordinate"),
    ({"points": [1.0, 2.0]}, "dimension"),
    ({"points": [[0.0], [1e200]]}, "rescale"),
    ({"points": [[0.0], [1e-200]]}, "rescale"),
    ({"size": 0}, "between 1 and the number of clients"),
    ({"size": 4}, "between 1 and the number of clients"),
    ({"size": 1.5}, "integer"),
    ({"size": None}, "size is missing: say how many of the 3 clients to choose"),
    ({"weight": -1.0}, "non-negative"),
    ({"weight": np.inf}, "finite"),
    ({"costs": [1.0]}, "one entry per client"),
    ({"costs": [1.0, np.nan, 0]}, "finite"),
    ({"metric": "cosine"}, "'euclidean' or 'hellinger'"),
    ({"metric": "hellinger"}, "sums to"),
    ({"metric": "hellinger", "points": [[-1.0, 2.0], [0.5, 0.5], [1, 0]]}, "smallest entry"),
    ({"clients": [2, 1, 0]}, "strictly increasing"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_input_is_refused_with_a_sentence(change, words):
    good = {"points": [[0.0, 1.0], [1.0, 1.0], [2.0, 5.0]], "costs": None, "size": 2}
    with pytest.raises(InvalidProblem, match=words):
        PointDispersionProblem(**(good | change))


def test_expanded_says_when_the_matrix_is_too_large():
    problem = PointDispersionProblem(np.zeros((20_001, 1)), None, size=2)
    with pytest.raises(InvalidProblem, match=r"GiB.*20000 clients"):
        problem.expanded()


@pytest.mark.parametrize("axes", [1, 3, 17])
def test_a_large_matrix_of_distances_has_the_bits_of_a_small_one(axes):
    """A compiled kernel fills it; other code fills the small ones."""
    points = np.random.default_rng(axes).normal(size=(1600, axes))
    geometry = PointDispersionProblem(points, np.zeros(1600), size=3).geometry
    some = np.random.default_rng(1).permutation(1600)[:1500]
    whole = geometry.distances(some)
    assert np.array_equal(whole[:40, :40], geometry.distances(some[:40]))
    assert np.array_equal(whole, whole.T)
    assert np.allclose(whole[7], np.linalg.norm(points[some] - points[some[7]], axis=1), rtol=1e-14)
    assert not whole.flags.writeable
