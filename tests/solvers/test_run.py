"""The run by itself, under a clock that the test moves: limits, what it keeps, why it says it ended."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidAnswer
from solvers.problem import Problem, certified
from solvers.run import Log, Run
from solvers.solution import TracePoint
from tests.thoroughly import tried


@dataclass(frozen=True, eq=False)
class Value(Problem):
    """Choose a number; it is its own objective, and 1 is the scale."""

    sense: ClassVar[Literal["max", "min"]] = "max"
    family: ClassVar[str] = "test"

    def objective(self, x):
        return float(np.sum(x))

    def violation(self, x):
        return 0.0


class Least(Value):
    """The same, to be minimised."""

    sense: ClassVar[Literal["max", "min"]] = "min"


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_time_is_counted_from_the_start_and_never_negative(clock):
    run = Run(Value(), "test", 2.0, 0)
    clock[0] += 0.5
    assert (run.seconds, run.remaining, run.expired) == (0.5, 1.5, False)
    clock[0] += 1.4375
    assert (run.remaining, run.expired) == (0.0625, False)
    clock[0] += 0.0625
    assert (run.remaining, run.expired) == (0.0, True)  # the very end is the end
    clock[0] += 3.0
    assert run.remaining == 0.0
    run = Run(Value(), "test", None, 0)
    assert (run.remaining, run.gap, run.recording, run.recorded) == (math.inf, None, False, None)


def test_building_is_counted_and_loading_stops_the_clock(clock):
    run = Run(Value(), "test", 10.0, 0)
    assert run.build_seconds == 0.0
    with run.building():
        clock[0] += 1.0
    with run.loading():
        clock[0] += 4.0
    with run.phase("search"):
        clock[0] += 2.0
        with run.loading():
            clock[0] += 5.0
    assert (run.build_seconds, run.seconds) == (1.0, 3.0)
    assert run.details["phases"] == [{"name": "search", "seconds": 2.0, "objective": None, "bound": None}]


def test_seconds_stand_still_while_something_is_loaded_and_never_fall(clock):
    """Another thread that polls meanwhile sees no second that is taken back; overlapping blocks count once."""
    start = clock[0]
    run = Run(Value(), "mine", 10.0, 0)
    clock[0] = start + 2.0
    first, second = run.loading(), run.loading()
    first.__enter__()
    clock[0] = start + 5.0
    assert (run.seconds, run.remaining, run.solution().seconds) == (2.0, 8.0, 2.0)
    second.__enter__()
    clock[0] = start + 6.0
    first.__exit__(None, None, None)
    clock[0] = start + 9.0
    assert run.seconds == 2.0
    second.__exit__(None, None, None)
    assert run.seconds == 2.0
    clock[0] = start + 10.0
    assert run.seconds == 3.0


def test_who_watches_is_told_when_loading_begins_and_ends(clock, monkeypatch):
    seen = []
    monkeypatch.setattr(Run, "loading_watcher", seen.append)
    run = Run(Value(), "test", 10.0, 0)
    with run.loading():
        assert seen == [True]
    with pytest.raises(ZeroDivisionError), run.loading():
        1 / 0  # noqa: B018
    assert seen == [True, False] * 2


def test_a_line_is_logged_for_every_improvement_whatever_is_known(clock):
    lines = []
    run = Run(Value(), "test", None, 0, log=Log(lines.append))
    run.offer(np.array([4.0]))
    run.tighten(5.0)
    assert [line.split() for line in lines] == [["0.00", "-", "4", "-", "-"], ["0.00", "-", "4", "5", "25", "%"]]
    lines.clear()
    run = Run(Value(), "test", None, 0, log=Log(lines.append))
    run.tighten(5.0)
    assert lines[0].split() == ["0.00", "-", "-", "5", "-"]


def test_a_gap_that_is_reached_ends_the_run(clock):
    run = Run(Value(), "test", None, 0, gap=0.1)
    run.tighten(11.0)
    assert not run.expired  # there is no decision yet
    run.offer(np.array([9.0]))
    assert not run.expired
    run.offer(np.array([10.0]))
    assert run.remaining == 0.0  # a gap of a tenth, and a tenth was asked for
    assert run.solution().stopped == "gap"
    run.stop("interrupted")
    assert run.solution().stopped == "interrupted"


def test_only_what_is_better_is_kept_and_recorded(clock):
    for problem, sign in ((Value(), 1.0), (Least(), -1.0)):
        seen = []
        run = Run(problem, "test", None, 0, seen.append)
        for value in (1.0, 1.0, 0.5, 2.0):
            run.offer(np.array([sign * value]))
        for bound in (5.0, 5.0, 6.0, math.inf, 4.0):
            run.tighten(sign * bound)
        assert [point.objective for point in seen] == [sign * v for v in (1.0, 2.0, 2.0, 2.0)]
        assert [point.bound for point in seen] == [None, None, sign * 5.0, sign * 4.0]
        assert run.solution().trace == tuple(seen)
        assert not run.x.flags.writeable


def test_a_method_that_computes_nonsense_is_named():
    run = Run(Value(), "careless", None, 0)
    with pytest.raises(InvalidAnswer, match="'careless' returned a decision whose objective is nan"):
        run.offer(np.array([math.nan]))
    with pytest.raises(InvalidAnswer, match="'careless' reported NaN"):
        run.tighten(math.nan)
    assert (run.x, run.bound) == (None, None)


def test_why_it_ended(clock):
    run = Run(Value(), "test", 1.0, 0)
    assert (run.solution().status, run.solution().stopped) == ("unknown", "iterations")
    clock[0] += 1.0
    assert run.solution().stopped == "time-limit"
    run.stop("error", "the backend failed")
    run.stop("error")
    assert (run.solution().stopped, run.solution().message) == ("error", "the backend failed")
    run.infeasible()
    assert (run.solution().status, run.solution().stopped) == ("infeasible", "proved")
    run.offer(np.array([1.0]))
    assert run.solution().status == "feasible"  # a decision that was evaluated says more than a claim


def test_an_interrupt_waits_for_the_end_of_loading(interruptible):
    """Half an import would cripple the process: Ctrl-C is held back, once more inside, and comes afterwards."""
    run, done, before = Run(Value(), "test", None, 0), [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  (where it is raised is what is tested)
        with run.loading():
            signal.raise_signal(signal.SIGINT)
            done.append("first")
            with run.loading():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("last")
        done.append("after")
    assert done == ["first", "inner", "last"]
    assert signal.getsignal(signal.SIGINT) is before
    with run.loading():
        done.append("again")
    assert done[-1] == "again"


def test_loading_elsewhere_than_in_the_main_thread_touches_no_handler():
    run, seen = Run(Value(), "test", None, 0), []

    def load() -> None:
        with run.loading():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_an_interrupt_in_an_import_of_the_first_solve_leaves_the_process_sound(interruptible):
    """In a process of its own: a module that a method imports is interrupted, and can be used afterwards."""
    script = """
import signal, sys
from solvers.problem import Problem
from solvers.registry import method
from solvers import solve
sys.path.insert(0, sys.argv[1])

class Value(Problem):
    sense, family = "max", "test"
    def objective(self, x): return float(x)
    def violation(self, x): return 0.0

@method(Value, "slow", kind="exact")
def slow(problem, run):
    run.offer(0)
    with run.loading():
        import slow_module
    run.tighten(slow_module.late)

found = solve(Value(), "slow")
print(found.stopped, solve(Value(), "slow").stopped)
"""
    with tempfile.TemporaryDirectory() as folder:
        text = "import signal\nsignal.raise_signal(signal.SIGINT)\nlate = 0.0\n"
        (Path(folder) / "slow_module.py").write_text(text)
        found = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["interrupted", "proved"], found.stderr


@tried(
    25,
    100,
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.fractions(), st.integers()),
    st.floats(0, 1e300),
    st.sampled_from(["max", "min"]),
)
def test_certified_bounds_lie_on_the_safe_side_and_next_to_the_exact_value(value, error, sense):
    found, unknown = certified(value, error, sense), math.inf if sense == "max" else -math.inf
    exact = Fraction(value) + (Fraction(error) if sense == "max" else -Fraction(error))
    if math.isfinite(found):
        assert Fraction(found) >= exact if sense == "max" else Fraction(found) <= exact
        nearer = math.nextafter(found, -unknown)
        is_nearest = math.isinf(nearer) or (Fraction(nearer) < exact if sense == "max" else Fraction(nearer) > exact)
        assert exact == Fraction(found) or is_nearest
    else:
        assert found == unknown
        assert exact > sys.float_info.max if sense == "max" else exact < -sys.float_info.max


def test_whole_numbers_of_numpy_are_as_exact_as_pythons():
    for whole in (2**53 + 1, 2**53 + 3, -(2**53) - 1, -(2**53) - 3):
        for sense in ("max", "min"):
            assert certified(np.int64(whole), 0.0, sense) == certified(whole, 0.0, sense)
        assert certified(np.int64(whole), 0.0, "min") < whole < certified(np.int64(whole), 0.0, "max")


def test_a_bound_that_is_infinite_stays_so():
    for value in (math.inf, -math.inf):
        assert [certified(value, 1.0, sense) for sense in ("max", "min")] == [value, value]


def test_a_run_rounds_exact_bounds_to_the_side_on_which_they_hold():
    for kind, sign in ((Value, 1), (Least, -1)):
        run = Run(kind(), "test", None, 0)
        run.tighten(Fraction(1, 10))
        assert sign * (Fraction(run.bound) - Fraction(1, 10)) >= 0
        run = Run(kind(), "test", None, 0)
        run.tighten(1.0, 1e-20)
        assert run.bound == math.nextafter(1.0, sign * math.inf)


@pytest.mark.parametrize(("kind", "sign"), [(Value, 1.0), (Least, -1.0)])
def test_a_claimed_bound_that_a_decision_contradicts_is_withdrawn(kind, sign):
    run = Run(kind(), "test", None, 0)
    run.tighten(sign * 40.0)
    run.tighten(sign * 21.0, is_claimed=True)
    assert run.bound == sign * 21.0  # nothing contradicts it yet
    run.offer([sign * 20.0])
    assert run.bound == sign * 21.0
    run.offer([sign * 30.0])
    assert run.bound == sign * 40.0  # the one that was proved
    run.tighten(sign * 22.0, is_claimed=True)
    assert run.bound == sign * 40.0
    solution = run.solution()
    assert (solution.objective, solution.bound, solution.status) == (sign * 30.0, sign * 40.0, "feasible")
    assert [point.bound for point in solution.trace] == [sign * 40.0, None, None, sign * 40.0]
    assert all("contradicts" in note for note in solution.details["notes"])
    assert len(solution.details["notes"]) == 2
    run.tighten(sign * 30.0, is_claimed=True)
    assert run.solution().status == "optimal"


def test_a_bound_of_the_package_itself_that_is_contradicted_is_an_error():
    run = Run(Value(), "test", None, 0)
    run.tighten(21.0)
    run.offer([30.0])
    with pytest.raises(InvalidAnswer, match="no bound of a maximisation"):
        run.solution()


def test_ids_may_be_offered_as_they_may_be_returned():
    """What `return` takes, `offer` takes; ids that are none are a sentence."""
    from solvers.dispersion import DispersionProblem

    problem = DispersionProblem(np.ones((4, 4)) - np.eye(4), [1.0, 2.0, 3.0, 4.0], size=2, clients=[3, 5, 8, 9])
    run = Run(problem, "mine", None, 0)
    assert run.offer([9, 3]) == problem.objective([1, 0, 0, 1])
    assert run.x.tolist() == [1, 0, 0, 1]
    for ids, sentence in (([3, 4], "names client 4"), ([3], "names 1 clients"), ([3, 3], "names a client twice")):
        with pytest.raises(InvalidAnswer, match=sentence):
            run.offer(ids)


def test_the_ids_of_all_clients_are_ids():
    """As many ids as there are clients are no 0/1 vector; a 0/1 vector stays one."""
    from solvers.dispersion import DispersionProblem
    from solvers.weighting import ExclusionProblem

    for n in (1, 2, 3, 5):
        problem = DispersionProblem(np.ones((n, n)) - np.eye(n), np.arange(1.0, n + 1), size=n)
        for ids in (range(n), reversed(range(n)), [1] * n):
            assert Run(problem, "mine", None, 0).offer(list(ids)) == problem.objective([1] * n)
    named = DispersionProblem(np.ones((2, 2)) - np.eye(2), size=2, clients=[0, 7])
    assert Run(named, "mine", None, 0).offer([7, 0]) == named.objective([1, 1])
    one = DispersionProblem(np.ones((2, 2)) - np.eye(2), [5.0, 1.0], size=1)
    assert Run(one, "mine", None, 0).offer([0, 1]) == -1.0
    few = DispersionProblem(np.ones((4, 4)) - np.eye(4), size=2)
    for ids, sentence in (([3, 2, 1, 0], "names 4 clients; this problem selects 2"), ([4, 2, 1, 0], "names client 4")):
        with pytest.raises(InvalidAnswer, match=sentence):
            Run(few, "mine", None, 0).offer(ids)
    kept = ExclusionProblem([0.5, 0.3, 0.2], [0.1, 0.2, 0.3], 1.0, [0.5, 0.5, 0.5], [0.1, 0.1, 0.1])
    assert Run(kept, "mine", None, 0).offer([2, 0, 1]) == kept.objective([1, 1, 1])
    assert Run(kept, "mine", None, 0).offer([1, 0, 1]) == kept.objective([True, False, True])


def test_a_point_of_the_trace_has_its_gap():
    assert TracePoint(1.0, 2.0, 3.0).gap == 0.5
    assert TracePoint(1.0, None, 3.0).gap is None
