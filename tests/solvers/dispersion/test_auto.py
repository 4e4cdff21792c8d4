"""The portfolio."""

from __future__ import annotations

import contextlib
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion.methods import exact
from solvers.dispersion.methods.auto import MATRIX_STAGES, OTHER_STAGES
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from tests.solvers.dispersion.instances import KINDS, naive_optimum, random_problem
from tests.thoroughly import few_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "size"), few_of([(1, 1), (6, 6), (10, 1), (11, 4), (14, 7), (18, 9)], 5))
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


@pytest.mark.thorough
def test_a_search_goes_on_where_the_bound_stays_far_away():
    Q = np.triu(np.random.default_rng(2).integers(-50, 51, (400, 400))).astype(float)
    problem = DispersionProblem.from_quadratic(Q, 40, sense="max")
    found = [
        solve(problem, work_limit=4e5, policy=replace(DEFAULT_POLICY, far_search_gap=gap)).objective
        for gap in (DEFAULT_POLICY.far_search_gap, np.inf)
    ]
    assert found[0] > found[1]  # 11839, which is what `memetic` finds, and 11777


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
        is_limited = limit is not None

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
    exact.search_on(types.SimpleNamespace(n=n), clock, clock, has_trees, DEFAULT_POLICY)
    assert clock.moves == moves


def test_the_page_has_the_table_of_stages():
    page = (Path(__file__).parents[3] / "docs" / "choose.md").read_text(encoding="utf-8")
    for stages in (MATRIX_STAGES, OTHER_STAGES):
        rows = ["| " + " | ".join(stage.row()) + " |" for stage in stages]
        assert "\n".join(["|---|---|---|---|", *rows, "", ""]) in page


def drawn(n: int, size: int, **constraints: object) -> DispersionProblem:
    h = np.triu(np.random.default_rng(n).random((n, n)), 1)
    return DispersionProblem(h + h.T, np.zeros(n), size=size, **constraints)


POINTS = np.random.default_rng(0).random((160, 2))
TYPES = np.arange(200) % 5
APART = np.triu(np.random.default_rng(0).random((5, 5)), 1)
DECIDING = {
    "enumeration": drawn(9, 3),
    "tree under side constraints": drawn(24, 6, include=[1]),
    "types of clients": DispersionProblem((APART + APART.T)[np.ix_(TYPES, TYPES)], np.arange(200.0), size=20),
    "line": DispersionProblem(np.abs(POINTS[:40, :1] - POINTS[:40, 0]), np.zeros(40), size=9),
    "level-1 RLT bound": DispersionProblem(drawn(160, 4).distances, 3 * POINTS[:, 0], size=4),
    "trees": drawn(30, 6),
    "matrix": PointDispersionProblem(POINTS[:40], np.zeros(40), size=9),
    "branch-and-bound": PointDispersionProblem(POINTS, np.zeros(160), size=20),
    "points in types": PointDispersionProblem(POINTS[np.arange(160) % 6], POINTS[:, 0], size=20),
}


@pytest.mark.parametrize("name", DECIDING)
def test_the_log_says_which_stage_solved_it_and_why_others_did_not_apply(name):
    lines: list[str] = []
    problem = DECIDING[name]
    assert solve(problem, log=lines.append).status == "optimal"
    stages = MATRIX_STAGES if isinstance(problem, DispersionProblem) else OTHER_STAGES
    wanted = {"points in types": "types of clients"}.get(name, name)
    said = [line.strip().removeprefix("auto: ") for line in lines if line.strip().startswith("auto: ")]
    place = [stage.name for stage in stages].index(wanted)
    for stage, line in zip(stages[:place], said, strict=False):
        assert line == stage.name or line.startswith(f"not {stage.name}, as ")
    assert said[place] == wanted
    tried = [line for line in said if not line.startswith("not ")]
    if name not in ("matrix", "level-1 RLT bound"):  # which others go on from
        assert tried[-1] == wanted


def test_a_policy_changes_which_stages_apply():
    lines: list[str] = []
    found = solve(drawn(9, 3), policy=Policy(enumerable=10), log=lines.append)
    assert found.objective == pytest.approx(solve(drawn(9, 3)).objective, rel=1e-12)
    assert any("not enumeration, as there are more than 10 selections" in line for line in lines)


def test_a_policy_reaches_the_search_between_points():
    problem = PointDispersionProblem(np.random.default_rng(5).random((300, 3)), size=12)
    assert solve(problem).status == "optimal"
    left = solve(problem, policy=Policy(largest_tree=3, rlt_ratio=1_000))
    assert "the tree takes 3" in left.message


def test_the_log_shows_what_a_subproblem_does():
    lines: list[str] = []
    problem = PointDispersionProblem(np.random.default_rng(5).random((300, 3)), size=12)
    found = solve(problem, log=lines.append)
    text = [line.strip() for line in lines]
    assert text.index("concave relaxation") < text.index("first-order tree")
    assert sum(found.details["outcomes"].values()) == found.nodes
    shown = [int(line.split()[1]) for line in lines[2:] if len(line.split()) > 4 and line.split()[1].isdigit()]
    assert 0 < shown[-1] <= found.nodes


def test_nodes_of_all_stages_are_counted():
    rng = np.random.default_rng(8)
    kinds = np.repeat(np.arange(40), 4)
    h = np.triu(rng.random((40, 40)), 1)
    h = (h + h.T)[np.ix_(kinds, kinds)]
    found = solve(DispersionProblem(h, rng.random(160), size=20), policy=Policy(kinds_nodes=2))
    assert found.details["kinds"] == 40
    assert sum(found.details["outcomes"].values()) == found.nodes
