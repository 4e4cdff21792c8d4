"""Seeded instances for the tests of the dispersion methods."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from solvers.dispersion import DispersionProblem

#: Folder with MDPLIB files and best_known.csv; tests that need it are skipped without it.
MDPLIB = os.environ.get("MDPLIB")


def random_problem(rng: np.random.Generator, largest: int = 12) -> DispersionProblem:
    """A small problem of one of several kinds: random, few values, Euclidean, duplicates, heavy-tailed; any scale."""
    n = int(rng.integers(2, largest + 1))
    m = int(rng.integers(1, n + 1))
    kind = rng.integers(5)
    if kind == 0:
        h = rng.random((n, n))
    elif kind == 1:
        h = rng.integers(0, 4, (n, n)).astype(float)
    elif kind == 2:
        points = rng.random((n, int(rng.integers(1, 4))))
        h = np.linalg.norm(points[:, None] - points, axis=2)
    elif kind == 3:
        points = rng.integers(0, 3, (n, 2)).astype(float)
        h = np.linalg.norm(points[:, None] - points, axis=2)
    else:
        h = rng.exponential(size=(n, n)) ** 3
    h = (h + h.T) / 2
    np.fill_diagonal(h, 0)
    costs = (np.zeros(n), rng.normal(size=n), rng.integers(0, 3, n) * 0.3, 10 * rng.normal(size=n))[rng.integers(4)]
    scale = 10.0 ** rng.integers(-12, 13)
    return DispersionProblem(h * scale, costs * scale, size=m, weight=float(rng.choice([0.5, 1.0, 0.01])))


def problem_with_a_choice(rng: np.random.Generator, largest: int = 12, *, left_out: int = 1) -> DispersionProblem:
    """A `random_problem` that takes a search: two clients or more, so many or more left out, and not all alike."""
    while True:
        problem = random_problem(rng, largest)
        if 2 <= problem.size <= problem.n - left_out and problem.scale > 0:
            return problem


def selections(n: int, m: int) -> np.ndarray:
    """Every selection of m among n clients, one per row, as integers 0 and 1."""
    chosen = np.array(list(itertools.combinations(range(n), m)))
    s = np.zeros((len(chosen), n), dtype=np.int64)
    np.put_along_axis(s, chosen, 1, axis=1)
    return s


def uniform_problem(n: int, m: int, seed: int = 0, weight: float = 0.5) -> DispersionProblem:
    """Uniform random distances and costs: no structure to exploit."""
    rng = np.random.default_rng(seed)
    h = np.triu(rng.random((n, n)), 1)
    return DispersionProblem(h + h.T, rng.random(n), size=m, weight=weight)


def euclidean_problem(n: int, m: int, seed: int = 0) -> DispersionProblem:
    """Distances between uniform points in four dimensions."""
    points = np.random.default_rng(seed).random((n, 4))
    return DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), None, size=m, weight=0.5)


def mdplib() -> list[tuple[str, int, float]]:
    """Name, m and best known value of the files in the MDPLIB folder."""
    if MDPLIB is None:
        return []
    lines = (Path(MDPLIB) / "best_known.csv").read_text().splitlines()[1:]
    return [(line.split(",")[0], int(line.split(",")[2]), float(line.split(",")[3])) for line in lines]


needs_mdplib = pytest.mark.skipif(MDPLIB is None, reason="set MDPLIB to a folder of MDPLIB instances to run this")


def tolerance(problem: DispersionProblem, objective: float) -> float:
    """What 'optimal' allows: a relative gap of 1e-6, no looser than the problem's scale, and rounding."""
    return 1.01e-6 * min(max(1.0, abs(objective)), problem.scale) + 4 * problem.rounding
