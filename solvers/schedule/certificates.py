"""Certificates of schedule problems: the levels of the clients behind an optimal schedule."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.certificate_writers import certificate_writer
from solvers.certificates import Certificate, problem_digest
from solvers.run import Run
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.residual import even_out
from solvers.solution import Solution

#: The part of the time for the schedule; the rest is for its levels.
_SHARE = 0.6


def levels(problem: ScheduleProblem, table: NDArray[np.bool_], run: Run) -> NDArray[np.int64]:
    r"""Find levels whose prices a schedule pays and no other falls below, where it is optimal.

    A client of v turns has the level v - 1 or v, so that its square is priced exactly. A round is where none that it
    selects has a higher level than one that it could select instead. So levels are raised from v - 1 along the paths
    of exchanges; where one of them had to exceed v, the path would improve the schedule.

    Parameters
    ----------
    problem : ScheduleProblem
        The problem.
    table : (T, N) ndarray of bool
        A schedule. Where it is not optimal the levels prove less.
    run : Run
        Clock.

    Returns
    -------
    (N,) ndarray of int
    """
    turns = problem.turns(table)
    level, others, is_raised = turns - 1, problem.available & ~table, True
    while is_raised and not run.expired:
        is_raised = False
        for selected, other in zip(table, others, strict=True):
            highest = int(level[selected].max(initial=-1))
            raised = other & (level < np.minimum(highest, turns))
            if raised.any():
                level[raised] = turns[raised]
                is_raised = True
    return level


@certificate_writer(ScheduleProblem)
def write_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """Even out the schedule that is known, and state its levels."""
    problem = solution.problem
    assert isinstance(problem, ScheduleProblem)
    if solution.x is None:
        return None
    run = Run(problem, "certificate", None if math.isinf(time_limit) else time_limit, 0)
    run.offer(solution.x)
    table = problem.decision(solution.x).copy()
    if solution.status != "optimal":
        run.time_limit = _SHARE * time_limit
        even_out(problem.available, problem.counts, run, table)
        run.time_limit = None if math.isinf(time_limit) else time_limit
    found = levels(problem, table, run)
    return Certificate("schedule", problem_digest(problem), float(solution.bound or 0.0), 0, {"level": found})
