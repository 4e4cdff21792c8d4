"""The portfolio beside its parts, and how the two trees share the time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.tree.dnn_tree import DNNNode, Setting, process_node
from tests.solvers.dispersion.cases import uniform_problem

#: The built-in parts of the portfolio, and what each of them does here: a fixed work, whatever the machine.
PARTS: dict[str, dict[str, int]] = {
    "local-search": {"restarts": 20},
    "tabu": {"moves": 20_000},
    "annealing": {},
    "sdp": {},
    "dnn": {"iterations": 200},
}


def _whole(n: int, m: int) -> DispersionProblem:
    h = np.triu(np.random.default_rng(n).integers(0, 10, (n, n)), 1).astype(float)
    return DispersionProblem(h + h.T, np.zeros(n), size=m, weight=0.5)


def _points(p: np.ndarray, m: int) -> DispersionProblem:
    h = np.linalg.norm(p[:, None] - p, axis=2)
    return DispersionProblem((h + h.T) / 2, np.zeros(len(p)), size=m, weight=0.5)


def _sphere(n: int, m: int) -> DispersionProblem:
    p = np.random.default_rng(n).normal(size=(n, 3))
    return _points(p / np.linalg.norm(p, axis=1)[:, None], m)


def _round(n: int, m: int) -> DispersionProblem:
    rng = np.random.default_rng(n)
    labels = rng.dirichlet(np.full(10, 0.5), n)
    counts = rng.integers(0, 4, n)
    return DispersionProblem.fedgs(_points(labels, m).distances, counts, np.ones(n, dtype=bool), m, alpha=1.0)


CASES = {
    "whole": _whole(50, 10),
    "sphere": _sphere(40, 8),
    "cube": _points(np.random.default_rng(0).random((90, 20)), 9),
    "round": _round(100, 10),
}


@pytest.mark.parametrize("case", CASES)
def test_auto_is_no_worse_than_its_parts(case):
    """At the end of a proof. What each achieves in the same time is in ``benchmarks/bench_auto_beside_parts.py``."""
    problem = CASES[case]
    auto = solve(problem, "auto")
    assert auto.status == "optimal"
    unit, bounds = abs(auto.objective), []
    for part, options in PARTS.items():
        other = solve(problem, part, **options)
        assert auto.objective >= other.objective - 1e-9 * unit, part
        bounds.append(auto.bound if other.bound is None else other.bound)
    assert auto.bound <= min(bounds) + 1e-6 * unit
    assert max(bounds) > auto.bound  # some part has a bound, and it alone is no proof


@pytest.mark.parametrize("case", ["cube", "round"])
def test_no_dnn_nodes_where_open_problems_become_fewer(case):
    answer = solve(CASES[case], "auto", time_limit=60)
    assert answer.status == "optimal"
    assert "iterations" not in answer.details


def test_dnn_nodes_where_open_problems_become_more():
    """A sphere's gap is narrow, but its tree grows."""
    problem = _sphere(100, 20)
    answer = solve(problem, "auto", gap=7e-4)
    assert answer.stopped == "gap"
    assert answer.nodes_by_tree["first-order"] > 1_000
    assert answer.details["iterations"] > 0
    beginning, end = (phase["bound"] - answer.objective for phase in answer.details["phases"][-2:])
    assert end < 0.7 * beginning


def test_a_wide_gap_goes_to_dnn_nodes_at_once():
    wide = solve(uniform_problem(100, 10), "auto", gap=0.05)
    names = [phase["name"] for phase in wide.details["phases"]]
    assert names == ["uniform shift", "tabu search", "first-order tree", "doubly nonnegative tree"]
    assert wide.details["phases"][2]["bound"] > 1.05 * wide.objective  # its root, and not a node
    assert wide.details["iterations"] > 0


def test_a_root_in_slices_gets_as_far():
    problem = uniform_problem(12, 4, 3)
    scaled = ScaledProblem.of(problem)
    setting = Setting(scaled, np.zeros((0, 2), dtype=np.int64), policy=Policy(enumerable=1))
    truth = max(
        scaled.value(problem.objective(np.isin(np.arange(12), s))) for s in itertools.combinations(range(12), 4)
    )
    root = DNNNode(np.arange(12), np.zeros(0, dtype=np.int64), np.inf, is_root=True)
    node, bounds, iterations = root, [], 0
    for _ in range(6):
        looks = itertools.count()
        outcome = process_node(setting, node, truth - 1.0, lambda looks=looks: next(looks) >= 15)
        (node,) = outcome.children
        assert node.warm_state is not None
        iterations += outcome.iterations
        bounds.append(outcome.bound)
    assert node.warm_state[0].iterations == iterations > 60
    assert all(bound >= truth - 1e-12 for bound in bounds)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < bounds[0]
