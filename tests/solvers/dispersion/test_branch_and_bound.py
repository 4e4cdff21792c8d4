"""The exact methods of our own, against enumeration and against themselves."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem, Memory, read_mdplib
from solvers.dispersion.tree.portfolio import TreePortfolio
from solvers.run import Run
from tests.solvers.dispersion.cases import (
    euclidean_problem,
    mdplib,
    needs_mdplib,
    random_problem,
    tolerance,
    uniform_problem,
)
from tests.thoroughly import few_of


@pytest.mark.parametrize("block", few_of(range(20), 1))
def test_agrees_with_enumeration(block):
    """2 400 problems of all kinds and scales from 1e-12 to 1e12: same value, and no bound below it."""
    rng = np.random.default_rng(block)
    for _ in range(120):
        problem = random_problem(rng)
        truth = solve(problem, "brute-force")
        found = solve(problem, "branch-and-bound", moves=int(rng.integers(2)) * 40, seed=int(rng.integers(100)))
        assert found.objective >= truth.objective - tolerance(problem, truth.objective)
        assert found.bound >= truth.objective - 4 * problem.rounding
        assert found.bound - found.objective <= tolerance(problem, truth.objective) + 40 * problem.n * problem.rounding


@pytest.mark.parametrize("cuts", [0.0, 3.0])
def test_without_a_good_start(cuts):
    """The tree itself finds the optimum when the heuristic is left out, with and without X ≥ 0."""
    rng = np.random.default_rng(7)
    for seed in range(12):
        n, m = int(rng.integers(13, 17)), int(rng.integers(3, 8))
        problem = uniform_problem(n, m, seed)
        truth = solve(problem, "brute-force")
        found = solve(problem, "branch-and-bound", moves=0, cuts=cuts)
        assert found.status == "optimal"
        assert found.objective == pytest.approx(truth.objective, rel=1e-6)


@pytest.mark.parametrize("make", [uniform_problem, euclidean_problem])
def test_scale_and_order_do_not_matter(make):
    """Scaling all data scales the answer; renumbering the clients renumbers it."""
    problem = make(30, 7, 3)
    reference = solve(problem, "branch-and-bound", time_limit=600)
    assert reference.status == "optimal"
    for factor in (1e-9, 1e9):
        scaled = DispersionProblem(
            problem.distances * factor, problem.costs * factor, size=problem.size, weight=problem.weight
        )
        assert solve(scaled, "branch-and-bound", time_limit=600).objective / factor == pytest.approx(
            reference.objective
        )
    order = np.random.default_rng(0).permutation(problem.n)
    renumbered = DispersionProblem(
        problem.distances[np.ix_(order, order)], problem.costs[order], size=problem.size, weight=problem.weight
    )
    again = solve(renumbered, "branch-and-bound", time_limit=600)
    assert again.objective == pytest.approx(reference.objective)
    assert set(order[again.selected]) == set(reference.selected)


def test_agrees_with_cp_sat():
    problem = uniform_problem(22, 6, 11)
    ours = solve(problem, "branch-and-bound", time_limit=600)
    theirs = solve(problem, "cp-sat", time_limit=600)
    assert ours.status == theirs.status == "optimal"
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)


def test_same_seed_same_search():
    problem = uniform_problem(60, 10, 5)
    first, second = (solve(problem, "branch-and-bound", seed=3) for _ in range(2))
    assert first.nodes == second.nodes
    np.testing.assert_array_equal(first.x, second.x)
    assert first.bound == second.bound


def test_identical_clients():
    """Ten copies of four points, costs apart: symmetry must not cost anything, and the cheapest copies are taken."""
    points = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), 10, axis=0)
    costs = np.tile(np.arange(10.0), 4) * 1e-3
    problem = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), costs, size=8, weight=0.5)
    found = solve(problem, "branch-and-bound", time_limit=600)
    assert found.status == "optimal"
    for kind in range(4):
        chosen = found.x[10 * kind : 10 * kind + 10]
        assert list(chosen) == sorted(chosen, reverse=True)


@pytest.mark.parametrize(
    ("distances", "costs", "size"),
    [
        (np.zeros((6, 6)), np.zeros(6), 3),  # nothing to choose by
        (np.ones((6, 6)) - np.eye(6), np.zeros(6), 3),
        (np.ones((6, 6)) - np.eye(6), np.full(6, -1e9), 2),
        (np.zeros((6, 6)), np.arange(6.0), 3),
        ((np.ones((6, 6)) - np.eye(6)) * 1e-279, np.zeros(6), 3),  # nearly the least that is accepted
        ((np.ones((6, 6)) - np.eye(6)) * 1e200, np.arange(6.0), 4),
        (np.ones((6, 6)) - np.eye(6), np.arange(6.0), 1),
        (np.ones((6, 6)) - np.eye(6), np.arange(6.0), 5),
        (np.ones((6, 6)) - np.eye(6), np.arange(6.0), 6),
        (np.zeros((1, 1)), np.ones(1), 1),
    ],
)
@pytest.mark.parametrize("method", ["branch-and-bound", "auto"])
def test_degenerate(distances, costs, size, method):
    problem = DispersionProblem(distances, costs, size=size, weight=0.5)
    truth = solve(problem, "brute-force")
    found = solve(problem, method)
    assert found.objective == pytest.approx(truth.objective, rel=1e-9, abs=1e-300)
    assert found.bound >= found.objective
    assert found.bound - found.objective <= 1e-6 * max(problem.scale, 1e-6 * abs(found.objective))


def test_time_limit_returns_the_incumbent(watchdog):
    """Far too little time for a proof: a selection, a bound above it, and the reason."""
    problem = uniform_problem(300, 60, 1)
    found = solve(problem, "branch-and-bound", time_limit=0.5)
    assert found.stopped == "time-limit"
    assert found.x is not None
    assert found.bound > found.objective


def test_no_time_at_all():
    """Out of time before anything compiled runs: greedy's selection and the trivial bound."""
    found = solve(uniform_problem(100, 10), "branch-and-bound", time_limit=1e-6)
    assert found.x is not None
    assert found.bound is not None


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), None])
def test_ctrl_c_within_a_kernels_call(monkeypatch, cause):
    """Numba says SystemError, with the interruption as its cause."""

    def ends(portfolio, most):
        inner = SystemError("a function returned a result with an exception set")
        inner.__cause__ = cause
        raise SystemError("a kernel returned a result with an exception set") from inner

    monkeypatch.setattr(TreePortfolio, "solve", ends)
    if cause is None:
        with pytest.raises(SystemError):
            solve(uniform_problem(30, 5), "branch-and-bound")
    else:
        found = solve(uniform_problem(30, 5), "branch-and-bound")
        assert found.stopped == "interrupted"
        assert found.x.sum() == 5


@pytest.mark.parametrize("method", ["branch-and-bound", "tabu"])
def test_ctrl_c_returns_the_incumbent(method, interrupt_after):
    problem = uniform_problem(200, 50, 2)
    solve(uniform_problem(30, 5), method, time_limit=1.0)  # the kernels are loaded
    interrupt_after(Run, "offer")
    found = solve(problem, method, time_limit=600)
    assert found.stopped == "interrupted"
    assert found.x is not None


def test_memory_changes_nothing_but_the_effort():
    """Rounds that share a memory are solved to the same values, even after a foreign problem was put in."""
    rng = np.random.default_rng(0)
    base = uniform_problem(36, 8, 9)
    memory = Memory()
    solve(uniform_problem(36, 8, 99), "auto", memory=memory)
    for round in range(4):
        available = np.flatnonzero(rng.random(36) < (1.0 if round % 2 else 0.6))
        problem = DispersionProblem(
            base.distances[np.ix_(available, available)],
            rng.random(available.size),
            size=6,
            weight=0.5,
            clients=available,
        )
        alone = solve(problem, "auto", time_limit=600)
        together = solve(problem, "auto", time_limit=600, memory=memory)
        assert together.status == alone.status == "optimal"
        assert together.objective == pytest.approx(alone.objective, rel=1e-6)


def test_options_are_checked():
    for options in ({"cuts": -1}, {"moves": -5}, {"largest": -1}):
        with pytest.raises(InvalidOption, match=next(iter(options))):
            solve(uniform_problem(10, 3), "branch-and-bound", **options)


@needs_mdplib
@pytest.mark.parametrize(("name", "size", "best"), [case for case in mdplib() if case[0].startswith("GKD")])
def test_gkd(name, size, best):
    """Every Euclidean instance of the folder is proved at its best known value."""
    from tests.solvers.dispersion.cases import MDPLIB

    problem = read_mdplib(f"{MDPLIB}/{name}.txt", size=size)
    found = solve(problem, "branch-and-bound", time_limit=60)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(best, abs=2e-2)
