"""A limit that counts work: what it returns is the same on every run, whatever the clock does."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from solvers import InvalidOption, Method, Solution, methods, solve
from solvers.balance import BalanceProblem
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.kernels import loader
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from solvers.weighting import ExclusionProblem
from tests.thoroughly import few_of


def uniform(n: int, size: int, **fields: Any) -> DispersionProblem:
    upper = np.triu(np.random.default_rng(n).random((n, n)), 1)
    return DispersionProblem(upper + upper.T, np.linspace(0, 1, n), size=size, **fields)


def points(n: int) -> PointDispersionProblem:
    rng = np.random.default_rng(n)
    return PointDispersionProblem(rng.random((n, 6)), rng.random(n), size=n // 10)


def kinds() -> KindDispersionProblem:
    rng = np.random.default_rng(3)
    where = rng.random((40, 12))
    between = np.linalg.norm(where[:, None] - where, axis=2)
    return KindDispersionProblem(between, np.arange(400) % 40, rng.random(400), size=37, weight=0.5)


def coverage(n: int, size: int, **fields: Any) -> CoverageProblem:
    where = np.random.default_rng(n).random((n, 3))
    return CoverageProblem(-np.linalg.norm(where[:, None] - where, axis=2), size, **fields)


def deadline(n: int, *, is_whole: bool) -> DeadlineProblem:
    rng = np.random.default_rng(n)
    ready, upload = (rng.integers(1, 10**6, (2, n)) if is_whole else rng.random((2, n))).astype(float)
    return DeadlineProblem(ready, upload, 0.1 * float(upload.sum()), upload * rng.uniform(0.999, 1.001, n))


def schedule() -> ScheduleProblem:
    there = np.zeros((60, 60), dtype=bool)
    for k in range(60):
        there[k : k + 3, k] = True  # turns move along a chain
    return ScheduleProblem(there, size=1, counts=np.arange(60)[::-1])


BALANCE = BalanceProblem(np.random.default_rng(0).integers(1, 99, (60, 8)), size=12)
ENUMERATED = BalanceProblem(np.random.default_rng(0).integers(1, 99, (22, 3)), size=9)
EXCLUSION = ExclusionProblem(*np.random.default_rng(0).dirichlet(np.ones(22), 2), 0.5, *np.ones((2, 22)) / 2)

#: Problem, method, rows that may be read; each ends by them before its proof.
CUT = {
    "auto": (uniform(80, 16), "auto", 30_000),
    "auto, many": (uniform(300, 40), "auto", 60_000),
    "auto, few of many": (uniform(200, 8), "auto", 40_000),
    "auto, constraints": (uniform(60, 12, quotas=[{"members": range(20), "at_least": 6}]), "auto", 20_000),
    "branch-and-bound": (uniform(80, 16), "branch-and-bound", 40_000),
    "dnn": (uniform(80, 16), "dnn", 5_000),
    "rlt": (uniform(150, 8), "rlt", 10_000),
    "tabu": (uniform(150, 30), "tabu", 20_000),
    "memetic": (uniform(150, 30), "memetic", 20_000),
    "kinds": (kinds(), "branch-and-bound", 300),
    "sdp": (uniform(60, 12), "sdp", 20_000),
    "coverage": (coverage(90, 9), "auto", 15_000),
    "coverage, constraints": (coverage(60, 8, quotas=[{"members": range(20), "at_least": 4}]), "auto", 20_000),
    "coverage, root": (coverage(90, 9), "lagrangian", 4_000),
    "balance": (BALANCE, "auto", 30_000),
    "balance, all": (ENUMERATED, "brute-force", 100_000),
    "deadline": (deadline(200, is_whole=False), "auto", 10_000),
    "deadline, whole times": (deadline(200, is_whole=True), "auto", 10_000),
    "exclusion": (EXCLUSION, "brute-force", 50_000),
    "schedule": (schedule(), "exchanges", 500),
}


def told(solution: Solution) -> tuple[Any, ...]:
    certificate = None if solution.certificate is None else solution.certificate.digest
    x = None if solution.x is None else solution.x.tobytes()
    return (x, solution.objective, solution.bound, solution.nodes, solution.work, solution.stopped, certificate)


@pytest.fixture
def busy():
    """A second process that leaves this one as little of the machine as it can."""
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"])
    yield
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", CUT)
def test_work_ends_the_solve_about_where_it_says(name):
    problem, method, rows = CUT[name]
    solution = solve(problem, method, work_limit=rows)
    assert solution.stopped == "work-limit"
    assert 0.5 * rows <= solution.work
    much = solve(problem, method, work_limit=4 * rows)
    assert much.work > solution.work
    if solution.bound is not None:
        sign = 1 if problem.sense == "max" else -1
        assert sign * much.bound <= sign * solution.bound


#: Searches of which a process that takes the machine from this one is tried every time.
SHORT = ("auto", "tabu", "coverage", "deadline", "schedule")


@pytest.mark.parametrize("name", few_of(sorted(CUT, key=lambda name: name not in SHORT), len(SHORT)))
@pytest.mark.parametrize("repeats", few_of([2, 8], 1))
def test_every_run_under_load_is_the_same(name, repeats, busy):
    problem, method, rows = CUT[name]
    is_exact = method in ("auto", "branch-and-bound") and isinstance(problem, DispersionProblem)
    seen = {told(solve(problem, method, work_limit=rows, certificate=is_exact, seed=3)) for _ in range(repeats)}
    assert len(seen) == 1


@pytest.mark.parametrize("method", ["auto", "branch-and-bound", "tabu", "dnn"])
def test_an_interpreter_does_the_same_work(method, monkeypatch):
    problem = uniform(24, 5)
    warm = solve(problem, method, work_limit=2_000)
    monkeypatch.setattr(loader, "_loaded", {})
    monkeypatch.setattr(loader, "_is_cached", lambda: False)
    monkeypatch.setattr(loader, "_INTERPRETED", 10**12)
    assert told(solve(problem, method, work_limit=2_000)) == told(warm)
    assert "tree" not in {name for name, _ in loader._loaded}


def test_points_are_counted():
    problem = points(400)
    first, second = (solve(problem, work_limit=3_000) for _ in range(2))
    assert told(first) == told(second)
    assert first.work > 0


def test_a_proof_within_the_limit_is_the_proof_without_one():
    problem = uniform(40, 6)
    plain, limited = solve(problem), solve(problem, work_limit=1e9)
    assert limited.status == "optimal"
    assert (plain.x == limited.x).all()
    assert plain.bound == limited.bound


def test_the_second_method_has_the_other_half():
    problem = uniform(150, 30)
    solution = solve(problem, "tabu", bound_by="dnn", work_limit=20_000)
    assert solution.bound_by == "dnn"
    assert 10_000 <= solution.work <= 30_000


def test_the_time_limit_counts_as_well():
    solution = solve(uniform(300, 40), work_limit=1e12, time_limit=0.2)
    assert solution.stopped == "time-limit"


def test_the_record_says_what_was_used():
    solution = solve(uniform(40, 6), "tabu", work_limit=3_000)
    assert solution.details["work"] == solution.work >= 3_000
    assert solve(uniform(10, 2), "random").work is None


def test_methods_say_whether_they_count():
    able = {entry.name for entry in methods(DispersionProblem) if entry.work}
    assert able == {"auto", "branch-and-bound", "dnn", "memetic", "rlt", "sdp", "tabu"}
    assert all(isinstance(entry, Method) for entry in methods(DispersionProblem))


@pytest.mark.parametrize(
    ("problem", "method", "options", "message"),
    [
        (uniform(6, 2), "cp-sat", {"work_limit": 10}, "counts its work, and 'cp-sat' does not; methods .*'auto'"),
        (
            CoverageProblem(np.eye(4), size=2),
            "greedy",
            {"work_limit": 10},
            "methods .*'branch-and-bound'.*'lagrangian'",
        ),
        (
            DiverseScheduleProblem(np.ones((2, 4), dtype=bool), size=2, distances=1.0 - np.eye(4), weight=0.1),
            "auto",
            {"work_limit": 10},
            "'auto' does not",
        ),
        (uniform(6, 2), "tabu", {"work_limit": 10, "bound_by": "milp"}, "'milp' does not"),
        (uniform(6, 2), "auto", {"work_limit": 0}, "work_limit must be .*1.*; got 0"),
        (uniform(6, 2), "auto", {"work_limit": float("nan")}, "work_limit must be"),
        (uniform(6, 2), "auto", {"work_limit": "10"}, "work_limit must be"),
        (uniform(6, 2), "auto", {"work_limit": 10, "threads": 2}, "work is counted in one thread"),
    ],
)
def test_bad_limits_are_refused(problem, method, options, message):
    with pytest.raises(InvalidOption, match=message):
        solve(problem, method, **options)


def test_a_member_of_a_diverse_pool_is_found_by_work_not_by_time():
    problem = uniform(40, 8)
    first, second = (solve(problem, pool=3, diverse=4, work_limit=30_000) for _ in range(2))
    assert told(first) == told(second)
    assert first.pool.to_list() == second.pool.to_list()
    assert 20_000 <= first.work <= 120_000


@pytest.mark.parametrize("name", ["auto", "branch-and-bound", "dnn", "rlt", "sdp", "tabu", "memetic"])
def test_the_limit_is_overshot_by_a_look_at_most(name):
    """The page says by how much: looks are up to 1.6e7 entries apart."""
    points = np.random.default_rng(0).random((200, 3))
    far = np.linalg.norm(points[:, None] - points, axis=2)
    solution = solve(DispersionProblem(far, points[:, 0], size=30), name, work_limit=3000)
    assert solution.stopped == "work-limit"
    assert 3000 <= solution.work <= 3000 + 1.6e7 / 200
