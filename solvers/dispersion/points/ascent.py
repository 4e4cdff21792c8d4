"""Better decisions between points: the clients nearest to the threshold as a small problem with a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from solvers.dispersion.points.construction import greedy_decision
from solvers.dispersion.points.part import QUICK, Part, Rest
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.relaxation import Relaxation
from solvers.dispersion.points.sums import OutOfTime
from solvers.dispersion.problem import DispersionProblem
from solvers.run import Run

__all__ = ["Improvement", "improve", "in_time", "search", "started"]

#: Makes decisions of a small problem better, through its run.
Improvement = Callable[[DispersionProblem, Part], None]

#: Clients of a small problem: those on the wrong side of the threshold, and those nearest to it.
_SMALL = 600


@contextmanager
def in_time(problem: PointDispersionProblem, run: Run) -> Iterator[None]:
    """End the ``with`` block when the clock runs out; the cheapest clients are the decision if there is no other."""
    try:
        yield
    except OutOfTime:
        if run.x is None:
            x = np.zeros(problem.n, dtype=np.int64)
            x[np.argsort(problem.costs, kind="stable")[: problem.size]] = 1
            run.offer(x)


def started(problem: PointDispersionProblem, run: Run) -> Relaxation:
    """The gradient at the run's decision or, where there is none, at the greedy one."""
    x = greedy_decision(problem, run) if run.x is None else problem.decision(run.x)
    if problem.size <= QUICK or run.time_limit is not None:
        run.offer(x)
    return Relaxation(problem, run, x)


def improve(relaxation: Relaxation, run: Run, how: Improvement, number: int = _SMALL) -> bool:
    """Round the relaxation's point to a decision, and let ``how`` improve it; whether the run's decision got better."""
    rest = Rest(relaxation, relaxation.working(number))
    small = rest.dense()
    part = Part(small, run, rest)
    known = run.objective
    part.offer(rest.start(relaxation.y, relaxation.g))
    how(small, part)
    part.hand_over()
    return known is None or run.objective > known  # type: ignore[operator]  # one was offered


def search(problem: PointDispersionProblem, run: Run, how: Improvement, rounds: int, number: int = _SMALL) -> None:
    """Improve the run's decision by small problems until nothing changes."""
    relaxation = started(problem, run)
    for _ in range(rounds):
        if run.expired or not improve(relaxation, run, how, number):
            break
        assert run.x is not None
        relaxation.move(run.x.astype(np.float64))
    if run.x is None:
        run.offer(relaxation.y.astype(np.int64))
