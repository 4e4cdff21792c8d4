"""A small problem, a method that solves it, and methods that do what no method should."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers import Problem, method
from solvers.checks import frozen_array


@dataclass(frozen=True, eq=False)
class Pick(Problem):
    """Choose ``size`` of the values, for the largest sum."""

    values: NDArray[np.float64]
    size: int

    sense: ClassVar = "max"
    family: ClassVar = "tests"

    def __post_init__(self):
        object.__setattr__(self, "values", frozen_array(self.values, "values"))

    def decision(self, x):
        return np.asarray(x, dtype=np.int64)

    def objective(self, x):
        return float(self.values @ self.decision(x))

    def violation(self, x):
        x = self.decision(x)
        return float(max(abs(int(x.sum()) - self.size), x.max() - 1, -x.min()))

    def first(self, shift=0):
        x = np.zeros(len(self.values), dtype=np.int64)
        x[: self.size] = 1
        return np.roll(x, shift)


@method(Pick, "best", kind="exact")
def best(problem, run):
    """Take the largest."""
    x = np.zeros(len(problem.values), dtype=np.int64)
    x[np.argsort(-problem.values)[: problem.size]] = 1
    run.tighten(run.offer(x))


@method(Pick, "first", kind="heuristic")
def first(problem, run, *, shift: int = 0, journal: str = ""):
    """Take those that stand first, and say so in a file."""
    if journal:
        with Path(journal).open("a") as lines:
            lines.write(f"{run.seed} {os.getpid()}\n")
        time.sleep(0.01)
    return problem.first(shift)


@method(Pick, "waits", kind="heuristic")
def waits(problem, run):
    """Use its time, and keep to it."""
    run.offer(problem.first())
    time.sleep(run.remaining)


@method(Pick, "exits", kind="heuristic")
def exits(problem, run):
    """End the process."""
    print("the last thing it said", file=sys.stderr, flush=True)
    os._exit(7)


@method(Pick, "forks", kind="heuristic")
def forks(problem, run):
    """Leave a copy of the process behind, which has the pipe open, and die."""
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(10)


@method(Pick, "doubles", kind="heuristic")
def doubles(problem, run):
    """Come back twice: in the process, and in a copy of it."""
    os.fork()
    return problem.first()


@method(Pick, "starves", kind="heuristic")
def starves(problem, run):
    """Find no memory."""
    raise ImportError("libtorch_cpu.so: failed to map segment from shared object")


@method(Pick, "loads", kind="heuristic")
def loads(problem, run):
    """Load for longer than a solve may take, and say so."""
    with run.loading(), run.loading():
        time.sleep(1.5)
    return problem.first()


@method(Pick, "balks", kind="heuristic")
def balks(problem, run):
    """Die of a time limit that is too short for it."""
    if run.time_limit < 0.1:
        os._exit(7)
    return problem.first()


@method(Pick, "segfaults", kind="heuristic")
def segfaults(problem, run):
    """Die of a signal."""
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(10)


@method(Pick, "hangs", kind="heuristic")
def hangs(problem, run):
    """Ignore the time limit, and whatever Python asks of it."""
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            continue


@method(Pick, "deaf", kind="heuristic")
def deaf(problem, run):
    """Sleep in C with the interpreter's lock held and every signal blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
    ctypes.PyDLL(None).sleep(1000)


@method(Pick, "raises", kind="heuristic")
def raises(problem, run):
    """Raise an error."""
    raise ZeroDivisionError("nothing to divide by")


@method(Pick, "leaves", kind="heuristic")
def leaves(problem, run):
    """Ask the interpreter to end."""
    sys.exit(3)


@method(Pick, "boasts", kind="heuristic")
def boasts(problem, run):
    """Report more than the decision is worth."""
    run.offer(problem.first())
    run.value += 1.0


@method(Pick, "smuggles", kind="heuristic")
def smuggles(problem, run):
    """Put an infeasible decision where a checked one belongs."""
    run.x, run.value = np.ones(len(problem.values), dtype=np.int64), float(problem.values.sum())


@method(Pick, "mumbles", kind="heuristic")
def mumbles(problem, run):
    """Put something where a decision belongs."""
    run.x, run.value = np.array([object()]), 1.0


@method(Pick, "oversteps", kind="heuristic")
def oversteps(problem, run):
    """Return an infeasible decision."""
    return np.ones(len(problem.values), dtype=np.int64)


@method(Pick, "contradicts", kind="exact")
def contradicts(problem, run):
    """Claim a bound that its own decision refutes."""
    run.tighten(run.offer(problem.first()) - 1.0)


@method(Pick, "overclaims", kind="exact")
def overclaims(problem, run):
    """Claim that a decision is optimal, which only another method can refute."""
    run.tighten(run.offer(problem.first()))


@method(Pick, "despairs", kind="exact")
def despairs(problem, run):
    """Claim that there is no decision."""
    run.infeasible()


_calls = itertools.count()


@method(Pick, "wobbles", kind="heuristic")
def wobbles(problem, run):
    """Answer differently at every call."""
    return problem.first(next(_calls))


@method(Pick, "absent", kind="exact", requires="a_package_that_nobody_has")
def absent(problem, run):
    """Need what is not there."""


def picks(count=2, n=6):
    """Problems whose first values are never the largest, and all different."""
    return {f"pick-{k}": Pick(np.arange(1.0, n + 1) * (k + 1), size=2) for k in range(count)}
