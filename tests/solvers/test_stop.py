"""A solve that another thread, or its ``watch``, ends."""

from __future__ import annotations

import asyncio
import importlib
import math
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, Problem, Solution, methods, solve, submit, with_bound
from solvers.balance import BalanceProblem
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.problem import FAMILIES
from solvers.run import Run
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from solvers.weighting import ExclusionProblem
from tests.thoroughly import few_of

for family in FAMILIES:
    importlib.import_module(f"solvers.{family}")


def symmetric(n: int) -> np.ndarray:
    upper = np.triu(np.random.default_rng(0).random((n, n)), 1)
    return upper + upper.T


def large(n: int) -> list[Problem]:
    """Problems that keep most of their methods busy for minutes."""
    rng = np.random.default_rng(n)
    where, costs, size = rng.random((n, 4)), rng.random(n), max(1, n // 10)
    between = np.linalg.norm(where[:20, None] - where[:20], axis=2)
    there = rng.random((10, n)) < 0.5
    return [
        DispersionProblem(symmetric(n), costs, size=size),
        PointDispersionProblem(where, costs, size=size),
        KindDispersionProblem(between, np.arange(n) % 20, costs, size=size),
        CoverageProblem(1 - np.linalg.norm(where[:, None] - where, axis=2), size=size),
        BalanceProblem(rng.integers(1, 99, (n, 10)), size=size),
        DeadlineProblem(rng.uniform(0, 9, n), rng.uniform(0.5, 4, n), 0.3 * n, rng.random(n)),
        ScheduleProblem(there, size=size),
        DiverseScheduleProblem(there, size=size, distances=symmetric(n), weight=0.1),
        ExclusionProblem(
            np.full(n, 1 / n), rng.exponential(size=n), 1.0,
            availability=rng.uniform(0.2, 1, n), correlation=rng.uniform(-0.5, 0.9, n),
        ),
    ]  # fmt: skip


EVERY = [
    pytest.param(number, entry.name, id=f"{type(problem).__name__}-{entry.name}")
    for number, problem in enumerate(large(20))
    for entry in methods(problem)
    if not entry.missing
]


class AfterSomeLooks(threading.Event):
    """An event that is set once it has been looked at some times, which no clock decides."""

    def __init__(self, looks: float) -> None:
        super().__init__()
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self.set()
        return super().is_set()


@cache
def made(n: int) -> list[Problem]:
    return large(n)


@pytest.mark.parametrize(("number", "name"), EVERY)
def test_every_method_ends_at_the_event(number, name):
    stop = threading.Event()
    stop.set()
    for n in (1000, 300, 100, 40, 20):
        problem = made(n)[number]
        try:
            solution = solve(problem, name, stop=stop)
            break
        except InvalidProblem:  # it does not take as many
            assert n > 20
    assert solution.stopped in ("cancelled", "proved")
    if solution.x is not None:
        assert problem.violation(solution.x) <= problem.tolerance
        assert solution.objective == problem.objective(solution.x)


@pytest.mark.parametrize("name", ["auto", "branch-and-bound", "tabu", "memetic", "dnn", "rlt", "sdp", "cp-sat", "milp"])
def test_a_search_that_would_take_minutes_ends_with_its_incumbent(name):
    problem, stop = large(300)[0], AfterSomeLooks(math.inf)

    def begun(point):
        if point.objective is not None:
            stop.looks = min(stop.looks, 40)

    solution = solve(problem, name, stop=stop, watch=begun)
    assert solution.stopped == "cancelled"
    assert solution.x is not None
    assert (solution.nodes or 0) < 100_000
    assert solution.objective == problem.objective(solution.x)


@pytest.mark.parametrize(
    ("name", "most"), few_of([("tabu", 2_000_000), ("memetic", 2_000_000), ("rlt", 12_000_000)], 2)
)
def test_little_is_done_between_two_looks(name, most, monkeypatch):
    """Counted in entries of the matrix, not in seconds; `rlt` appraises all pairs at once, as ten entries each."""
    since = [0.0]

    class Counted(AfterSomeLooks):
        def is_set(self) -> bool:
            if threading.current_thread() is threading.main_thread():
                return threading.Event.is_set(self)
            since.append(0.0)
            return super().is_set()

    def spend(run: Run, entries: float) -> None:
        if stop in getattr(run.halt, "events", []):  # not a method that an earlier test has left behind
            since[-1] += entries
        counted(run, entries)

    counted, stop = Run.spend, Counted(100)
    monkeypatch.setattr(Run, "spend", spend)
    assert solve(made(1000)[0], name, stop=stop).stopped == "cancelled"
    assert max(since) <= most < sum(since)


def test_the_process_waits_a_moment_for_a_method_that_was_left_behind():
    """Killed in its work, a solver in C++ aborts the process."""
    script = """
import threading, time
from solvers import method, solve
from solvers.dispersion import DispersionProblem

@method(DispersionProblem, "deaf", kind="heuristic")
def deaf(problem, run):
    run.offer([0])
    time.sleep(0.3)
    print("it ended by itself", flush=True)

stop = threading.Event()
stop.set()
print(solve(DispersionProblem([[0, 1], [1, 0]], size=1), "deaf", stop=stop).stopped)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n")[:2] == ["cancelled", "it ended by itself"]


def test_another_thread_ends_the_solve():
    stop = threading.Event()

    def begun(point):
        if point.objective is not None:
            threading.Thread(target=stop.set).start()

    solution = solve(large(300)[0], stop=stop, watch=begun)
    assert solution.stopped == "cancelled"
    assert solution.objective is not None
    assert solution.bound is not None


def test_an_end_keeps_the_pool():
    solution = solve(large(100)[0], pool=3, stop=AfterSomeLooks(60))
    assert solution.stopped == "cancelled"
    assert solution.pool[0].objective == solution.objective
    assert not solution.pool_complete


def test_what_runs_through_is_the_same_with_an_event():
    problem = DispersionProblem(symmetric(30), np.zeros(30), size=6)
    plain, watched = solve(problem), solve(problem, stop=threading.Event())
    assert watched.status == "optimal"
    assert (plain.selected == watched.selected).all()
    assert (plain.bound, plain.nodes) == (watched.bound, watched.nodes)


def test_an_event_ends_the_second_method_and_spares_the_certificate():
    problem = large(300)[0]
    solution = solve(problem, "greedy", bound_by="branch-and-bound", certificate=True, stop=AfterSomeLooks(60))
    assert solution.stopped == "cancelled"
    assert solution.method == "greedy"
    assert solution.certificate is None
    alone = with_bound(solve(problem, "greedy"), "branch-and-bound", stop=AfterSomeLooks(60))
    assert alone.stopped == "cancelled"


def test_errors_pass_through_the_thread():
    with pytest.raises(InvalidOption, match=r"start must be feasible"):
        solve(large(20)[0], start=np.ones(20, dtype=int), stop=threading.Event())


# -- watch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [None, threading.Event()], ids=["plain", "with an event"])
@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_watch_that_returns_true_ends_the_solve(stop, answer):
    seen = []

    def watch(point):
        seen.append(point)
        return answer if point.objective is not None else None

    solution = solve(large(300)[0], watch=watch, stop=stop)
    assert solution.stopped == "cancelled"
    assert solution.x is not None
    assert sum(point.objective is not None for point in seen) == 1


@pytest.mark.parametrize("answer", [1, "yes", False, None])
def test_whatever_else_a_watch_returns_says_nothing(answer):
    solution = solve(DispersionProblem(symmetric(20), np.zeros(20), size=5), watch=lambda point: answer)
    assert solution.status == "optimal"


def failing(point):
    if point.objective is not None:
        raise ValueError("no space left")


@pytest.mark.parametrize("method", ["auto", "tabu", "cp-sat", "milp"])
@pytest.mark.parametrize("stop", [None, threading.Event()], ids=["plain", "with an event"])
def test_the_exception_of_a_watch_brings_the_solution(method, stop):
    problem = large(100)[0]
    with pytest.raises(ValueError, match="no space left") as raised:
        solve(problem, method, watch=failing, stop=stop, time_limit=60)
    found = raised.value.solution
    assert found.stopped == "error"
    assert found.objective == problem.objective(found.x)


def test_the_exception_of_a_watch_is_kept():
    problem = large(100)[0]
    found = solve(problem, "greedy", bound_by="branch-and-bound", watch=failing, on_error="keep")
    assert (found.stopped, found.message) == ("error", "watch raised ValueError: no space left")
    assert found.objective == problem.objective(found.x)
    with pytest.raises(ValueError, match="no space left") as raised:
        with_bound(solve(problem, "greedy"), "branch-and-bound", watch=failing)
    assert raised.value.solution.method == "greedy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": True}, "stop must have a method is_set, as threading.Event\\(\\) has; got True"),
        ({"on_error": "ignore"}, "on_error must be 'raise' or 'keep'; got 'ignore'"),
    ],
)
def test_bad_ends_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        solve(large(20)[0], **options)


# -- in the background --------------------------------------------------------------------------------------------


def test_a_future_tells_what_it_has_and_is_cancelled():
    problem, found = large(300)[0], threading.Event()
    future = submit(problem, watch=lambda point: found.set() if point.objective is not None else None)
    assert found.wait(60)
    so_far = future.solution_so_far()
    assert so_far.objective == problem.objective(so_far.x)
    assert so_far.stopped == "running"
    assert future.running()
    assert not future.done()
    assert not future.cancelled()
    assert future.cancel()
    assert future.cancelled()
    solution = future.result(timeout=60)
    assert solution.stopped == "cancelled"
    assert solution.objective >= so_far.objective
    assert future.solution_so_far() is solution
    assert future.cancelled()


def test_a_future_that_is_done_is_not_cancelled(tmp_path):
    future = submit(large(20)[0])
    assert future.result(timeout=60).status == "optimal"
    assert not future.cancel()
    assert not future.cancelled()
    so_far = replace(future.result(), stopped="running")
    assert Solution.load(so_far.save(tmp_path / "so_far.npz")).stopped == "running"


def test_awaited_a_cancelled_future_is_cancelled_and_a_stopped_one_has_a_solution():
    async def awaited(end):
        found, stop = threading.Event(), threading.Event()
        future = submit(large(300)[0], stop=stop, watch=lambda point: found.set())
        assert found.wait(60)
        waiting = asyncio.wrap_future(future)
        (future.cancel if end == "cancel" else stop.set)()
        try:
            return (await waiting).stopped
        except asyncio.CancelledError:
            return "awaited: " + future.result().stopped

    assert asyncio.run(awaited("cancel")) == "awaited: cancelled"
    assert asyncio.run(awaited("stop")) == "cancelled"


def test_futures_side_by_side_find_what_solves_one_after_the_other_do():
    problems = [DispersionProblem(symmetric(n), np.linspace(0, 1, n), size=6) for n in (25, 30, 35, 40)]
    futures = [submit(problem, seed=2, certificate=True) for problem in problems]
    for problem, future in zip(problems, futures, strict=True):
        alone, beside = solve(problem, seed=2, certificate=True), future.result(timeout=300)
        assert beside.status == "optimal"
        assert (alone.selected == beside.selected).all()
        assert (alone.bound, alone.nodes) == (beside.bound, beside.nodes)
        assert alone.certificate.digest == beside.certificate.digest


def test_a_future_raises_at_once_what_is_seen_at_once_and_the_rest_from_its_result():
    problem = large(20)[0]
    with pytest.raises(InvalidOption, match="has no option 'movs'"):
        submit(problem, movs=3)
    with pytest.raises(InvalidProblem, match="solve takes a problem object"):
        submit(3)
    future = submit(problem, watch=failing)
    with pytest.raises(ValueError, match="no space left"):
        future.result(timeout=60)
    assert future.solution_so_far().x is not None
    assert future.solution_so_far().stopped == "error"
    stop = threading.Event()
    stop.set()
    assert submit(large(300)[0], stop=stop).result(timeout=60).stopped == "cancelled"
