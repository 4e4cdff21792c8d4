"""Geometries answer as the matrix of their distances does."""

from __future__ import annotations

from copy import copy
from itertools import pairwise

import numpy as np
import pytest

from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.geometry import StoredPointGeometry
from tests.solvers.dispersion.points.cases import random_points
from tests.solvers.dispersion.test_kinds import random_kinds


def problems(rng):
    """One problem in every geometry; the matrix in both precisions."""
    h = rng.random((9, 9))
    h = np.triu(h, 1) + np.triu(h, 1).T
    size = int(rng.integers(1, 10))
    yield DispersionProblem(h, rng.normal(size=9), size=size, weight=0.7)
    yield DispersionProblem(h.astype(np.float32), rng.normal(size=9), size=size, weight=0.7)
    yield (points := random_points(rng))
    stored = copy(points)
    stored.__dict__["geometry"] = StoredPointGeometry(points.geometry.coordinates)
    yield stored
    yield random_kinds(rng)


@pytest.mark.parametrize("seed", range(25))
def test_every_answer_is_that_of_the_matrix(seed):
    rng = np.random.default_rng(seed)
    for problem in problems(rng):
        geometry, n = problem.geometry, problem.n
        h = problem.expanded().distances.astype(np.float64)
        off = 1e-13 * n * max(geometry.diameter, h.max())
        some = np.sort(rng.choice(n, size=int(rng.integers(1, n + 1)), replace=False))
        assert geometry.n == n == len(h)
        assert geometry.diameter >= h.max()
        np.testing.assert_allclose(geometry.distances(some), h[np.ix_(some, some)], rtol=0, atol=off)
        np.testing.assert_allclose(geometry.row(some[0]), h[some[0]], rtol=0, atol=off)
        assert geometry.pair_sum(some) == pytest.approx(h[np.ix_(some, some)].sum(), abs=n * off)
        sums, error = geometry.sums()
        assert (np.abs(sums - h.sum(axis=1)) <= error + n * off).all()
        for count in range(n):
            most = np.sort(h, axis=1)[:, n - count :].sum(axis=1)
            assert (geometry.farthest(count) >= most - off).all()


def test_alike_pairs_are_alike():
    for seed in range(40):
        for problem in problems(np.random.default_rng(seed)):
            h = problem.expanded().distances
            different = h[~np.eye(problem.n, dtype=bool)]
            if problem.geometry.pairs_are_alike:
                assert all(a == b for a, b in pairwise(different))


@pytest.mark.parametrize("kind", [PointDispersionProblem, KindDispersionProblem])
def test_brute_force_refuses_a_matrix_that_does_not_fit(kind):
    from solvers import InvalidProblem, solve

    where = np.zeros((20_001, 1)) if kind is PointDispersionProblem else [[0.0]]
    rest = {} if kind is PointDispersionProblem else {"kinds": np.zeros(20_001, dtype=int)}
    with pytest.raises(InvalidProblem, match="20000 clients; got 20001"):
        solve(kind(where, size=1, **rest), "brute-force")
