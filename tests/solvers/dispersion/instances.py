"""Seeded instances, and the objective written out once more in the slowest way."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from solvers.dispersion import DispersionProblem


def naive_objective(problem: DispersionProblem, chosen) -> float:
    pairs = sum(problem.distances[i, j] for i, j in itertools.permutations(chosen, 2))
    return problem.weight * pairs - sum(problem.costs[i] for i in chosen)


def naive_optimum(problem: DispersionProblem) -> float:
    return max(naive_objective(problem, s) for s in itertools.combinations(range(problem.n), problem.size))


def random_problem(rng: np.random.Generator, n: int, size: int, kind: str = "uniform") -> DispersionProblem:
    """Distances of one of five kinds, with costs of either sign."""
    if kind == "euclidean":
        points = rng.normal(size=(n, 3))
        distances = np.linalg.norm(points[:, None] - points, axis=2)
    elif kind == "integers":
        distances = np.triu(rng.integers(0, 10, size=(n, n)), 1).astype(float)
        distances += distances.T
    elif kind == "graph":
        labels = np.array([np.bincount(rng.choice(10, 2, replace=False), minlength=10) for _ in range(n)])
        shared = labels @ labels.T
        distances = np.array([1.0, 1 / 3, 0.0])[np.minimum(shared, 2)]
        np.fill_diagonal(distances, 0)
    elif kind == "ties":
        distances = np.ones((n, n)) - np.eye(n)
    else:
        distances = np.triu(rng.random((n, n)), 1)
        distances += distances.T
    costs = rng.normal(size=n) if kind != "ties" else np.zeros(n)
    return DispersionProblem(distances, costs, size=size, weight=float(rng.uniform(0.05, 2)))


KINDS = ("uniform", "euclidean", "integers", "graph", "ties")


@st.composite
def problems(draw, most: int = 9):
    n = draw(st.integers(1, most))
    size = draw(st.integers(1, n))
    kind = draw(st.sampled_from(KINDS))
    return random_problem(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), n, size, kind)


def subsets(problem: DispersionProblem) -> int:
    return math.comb(problem.n, problem.size)
