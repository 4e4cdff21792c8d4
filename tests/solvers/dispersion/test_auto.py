"""The portfolio."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import solve
from tests.solvers.dispersion.instances import KINDS, naive_optimum, random_problem


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "size"), [(1, 1), (6, 6), (10, 1), (11, 4), (18, 9)])
def test_auto_proves_small_instances(kind, n, size):
    problem = random_problem(np.random.default_rng(n * size), n, size, kind)
    solution = solve(problem)
    assert (solution.method, solution.status) == ("auto", "optimal")
    assert solution.objective == pytest.approx(naive_optimum(problem), rel=1e-9, abs=1e-9)


def test_auto_keeps_to_its_time_and_is_no_worse_than_local_search():
    problem = random_problem(np.random.default_rng(1), 150, 20)
    solution = solve(problem, time_limit=1.0)
    assert solution.objective >= solve(problem, "local-search").objective
    assert solution.bound >= solution.objective
