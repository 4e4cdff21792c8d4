"""Seeded points for the tests."""

from __future__ import annotations

import numpy as np

from solvers.dispersion import PointDispersionProblem


def random_points(rng: np.random.Generator, largest: int = 11, n: int | None = None) -> PointDispersionProblem:
    """A problem of one of several kinds: uniform, lattice with repeated points, on a line, distributions; any scale."""
    n = int(rng.integers(2, largest + 1)) if n is None else n
    m = int(rng.integers(1, n + 1))
    d = int(rng.integers(1, 6))
    kind = rng.integers(5)
    metric, scale = "euclidean", 10.0 ** rng.integers(-9, 10)
    if kind == 0:
        points = rng.random((n, d))
    elif kind == 1:
        points = rng.integers(0, 3, (n, d)).astype(float)
    elif kind == 2:
        points = np.repeat(rng.normal(size=(-(-n // 3), d)), 3, axis=0)[:n]
    elif kind == 3:
        points, scale, metric = rng.dirichlet(np.full(d + 1, 0.4), n), 1.0, "hellinger"
    else:
        points = 1e4 + rng.normal(size=(n, d))  # far from the origin
    costs = (np.zeros(n), rng.normal(size=n), rng.integers(-2, 3, n) * 0.3, 10 * rng.normal(size=n))[rng.integers(4)]
    weight = float(rng.choice([0.5, 1.0, 0.01, 0.0], p=[0.4, 0.3, 0.2, 0.1]))
    return PointDispersionProblem(points * scale, costs * scale, size=m, weight=weight, metric=metric)
