"""Circles and lines are recognised wherever they lie, and nothing else is; the error is one."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion.shape import Shape, from_distances, from_points
from solvers.run import Run
from tests.solvers.dispersion.cases import random_problem
from tests.solvers.dispersion.circle.cases import KINDS, plane


def of_matrix(problem: DispersionProblem) -> Shape | None:
    return from_distances(problem, Run(problem, "test", None, 0))


def of_points(problem: PointDispersionProblem) -> Shape | None:
    return from_points(problem.geometry.coordinates.T, problem.diameter)


def farthest_off(shape: Shape, distances: np.ndarray) -> float:
    """The largest difference to the shape's distances, written out."""
    apart = np.abs(shape.at[:, None] - shape.at)
    ideal = shape.scale * (2 * np.sin(apart / 2) if shape.chords else apart)
    return float(np.abs(distances[np.ix_(shape.order, shape.order)] - ideal).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_recognised_in_any_plane_at_any_scale(kind, seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 60)), int(rng.integers(2, 7))
    scale = 10.0 ** rng.integers(-8, 9)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0][:2]
    points = PointDispersionProblem(scale * (plane(rng, n, kind) @ axes), None, size=2)
    matrix = points.expanded()
    for shape in (of_points(points), of_matrix(matrix)):
        assert shape is not None
        assert (np.diff(shape.at) >= 0).all()
        assert shape.at[-1] - shape.at[0] < 2 * np.pi
        assert sorted(shape.order.tolist()) == list(range(n))
        assert farthest_off(shape, matrix.distances) <= shape.error <= 1e-9 * matrix.diameter
        assert shape.chords or kind in ("line", "steps", "arc", "lattice", "two ends")


def test_a_line_needs_no_second_coordinate():
    shape = of_points(PointDispersionProblem(np.array([[3.0], [1.0], [2.0], [1.0]]), None, size=2))
    assert shape is not None
    assert not shape.chords
    assert shape.order.tolist() == [1, 3, 2, 0]
    assert shape.at * shape.scale == pytest.approx([-1, -1, 0, 1])


def test_one_place():
    for shape in (of_points(PointDispersionProblem(np.ones((5, 3)), None, size=2)), of_matrix(zero(5))):
        assert shape is not None
        assert (shape.chords, shape.scale) == (False, 0.0)


def zero(n: int) -> DispersionProblem:
    return DispersionProblem(np.zeros((n, n)), None, size=2)


@pytest.mark.parametrize("shift", [1e-6, 1e-4, 0.1])
def test_a_client_off_the_circle_is_noticed(shift):
    rng = np.random.default_rng(3)
    for _ in range(20):
        p = plane(rng, 30, "uniform")
        p[rng.integers(30)] += shift * rng.normal(size=2)
        points = PointDispersionProblem(p, None, size=5)
        off = of_points(points), of_matrix(points.expanded())
        # A shift along the circle is none.
        assert all(s is None or farthest_off(s, points.expanded().distances) <= s.error < 1.1e-7 * 2 for s in off)
        assert shift < 1e-5 or off == (None, None)


def test_what_distances_lack_is_in_the_error():
    rng = np.random.default_rng(4)
    for noise in (1e-12, 1e-9, 1e-8):
        points = PointDispersionProblem(plane(rng, 40, "uniform"), None, size=5)
        h = points.expanded().distances + noise * np.triu(rng.uniform(-1, 1, (40, 40)), 1)
        h = np.triu(h, 1)
        problem = DispersionProblem(h + h.T, None, size=5)
        shape = of_matrix(problem)
        assert shape is not None
        assert 0.3 * noise < farthest_off(shape, problem.distances) <= shape.error < 20 * noise + 1e-13


def test_single_precision_is_good_enough():
    h = PointDispersionProblem(plane(np.random.default_rng(5), 50, "uniform"), None, size=5).expanded().distances
    shape = of_matrix(DispersionProblem(h.astype(np.float32), None, size=5))
    assert shape is not None
    assert 1e-9 < shape.error < 1e-7


def test_nothing_else_is_recognised():
    rng = np.random.default_rng(6)
    for _ in range(50):
        p = rng.normal(size=(int(rng.integers(5, 30)), int(rng.integers(2, 5))))
        points = PointDispersionProblem(p, None, size=2)
        assert of_points(points) is None
        assert of_matrix(points.expanded()) is None
        at = rng.uniform(0, 2 * np.pi, 20)
        ellipse = PointDispersionProblem(np.column_stack([np.cos(at), 1.01 * np.sin(at)]), None, size=2)
        assert of_points(ellipse) is None
        assert of_matrix(ellipse.expanded()) is None
    for _ in range(300):  # of any kind and scale, triangle inequality or not: no warning, and no wrong shape
        problem = random_problem(rng)
        shape = of_matrix(problem)
        assert shape is None or farthest_off(shape, problem.distances) <= shape.error


def test_distances_of_any_size_cause_no_warning():
    rng = np.random.default_rng(7)
    for _ in range(50):
        h = np.triu(10.0 ** rng.uniform(-279, 279, (8, 8)), 1)
        assert of_matrix(DispersionProblem(h + h.T, None, size=2, weight=1e-10)) is None
