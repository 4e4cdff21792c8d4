"""Tabu search ends when it finds nothing better for long, and says so."""

import re

import pytest

from solvers import InvalidOption, solve
from tests.solvers.dispersion.cases import uniform_problem


def test_a_small_round_does_not_use_its_whole_limit():
    problem = uniform_problem(30, 6, 1)
    solution = solve(problem, "tabu", time_limit=600)
    assert solution.stopped == "iterations"
    assert "no better selection in" in solution.message
    assert solution.objective == pytest.approx(solve(problem, "branch-and-bound", time_limit=60).objective, rel=1e-12)


def test_stall_is_an_option():
    problem = uniform_problem(60, 12, 1)
    short = solve(problem, "tabu", time_limit=600, stall=1000)
    assert short.stopped == "iterations"
    idle = re.fullmatch(r"no better selection in (\d+) moves", short.message)
    assert 1000 <= int(idle[1]) < 60_000  # moves are made in portions; by default it is 120 000
    with pytest.raises(InvalidOption, match="'stall' must be an integer, at least 1; got 0"):
        solve(problem, "tabu", stall=0)


def test_a_number_of_moves_is_made_in_full():
    assert solve(uniform_problem(30, 6, 1), "tabu", moves=300_000).message == ""
