"""The portfolio."""

from __future__ import annotations

import contextlib
import types

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion.methods import exact
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


@pytest.mark.parametrize(
    ("n", "limit", "bound", "has_trees", "moves"),
    [
        (1_000, 8.0, 110.0, True, 4_000),
        (1_000, 8.0, 110.0, False, 8_000),
        (999, 8.0, 110.0, False, 0),
        (1_000, None, 110.0, True, 0),
        (1_000, 8.0, 100.5, True, 0),
    ],
)
def test_search_comes_first_where_no_proof_is_in_reach(n, limit, bound, has_trees, moves):
    """Half of the time, of many clients with a far bound, or all; without a limit trees share theirs with a search."""

    class Clock:
        time_limit, recording, objective, remaining = limit, False, 100.0, limit

        def __init__(self):
            self.bound, self.moves = bound, 0

        def phase(self, name):
            return contextlib.nullcontext()

        def advance(self, moves):
            self.moves, self.remaining = self.moves + moves, self.remaining - 1.0
            return moves

        def cross(self):
            assert not self.moves

    clock = Clock()
    exact._search_on(types.SimpleNamespace(n=n), clock, clock, has_trees)
    assert clock.moves == moves
