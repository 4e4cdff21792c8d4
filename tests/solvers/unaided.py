"""Runs of exact methods and relaxations whose incumbent search is switched off, so that it cannot hide a false bound.

A tree reports ``max(bound of the open nodes, incumbent)``. Where swaps have found the optimum before it begins, that is
valid whatever the nodes' bounds are.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.problem import Problem, certified
from solvers.registry import find
from solvers.run import Run

#: Functions that look for good decisions, by module; an offer below one of them on the stack is forgotten.
INCUMBENT_SEARCH = {
    "solvers.coverage.methods": {"_begin"},
    "solvers.coverage.swaps": {"ascend", "perturb"},
    "solvers.coverage.lagrangian": {"_improve", "_improve_in_constraints"},
    "solvers.balance.methods": {"local_search"},
    "solvers.balance.collisions": {"balance_exactly"},
    "solvers.deadline.methods": {"greedy", "_exchange"},
    "solvers.dispersion.methods.tabu": {"advance"},
    "solvers.dispersion.neighbourhood": {"ensure_incumbent"},
    "solvers.dispersion.methods.constrained": {"_begin"},
}


class UnaidedRun(Run):
    """Run that begins with a poor decision, and keeps of all others those that the proof itself meets.

    Attributes
    ----------
    forgotten : int
        Offers of the incumbent search.
    claims : list of (float, float or None)
        Every bound reported, with the objective at that time.
    """

    def __init__(self, problem: Problem, method: str, poor: ArrayLike | None = None, seconds: float = 20.0) -> None:
        super().__init__(problem, method, seconds, 0)
        self.forgotten = 0
        self.claims: list[tuple[float, float | None]] = []
        if poor is not None:
            super().offer(poor)

    def offer(self, x: ArrayLike) -> float:
        """Evaluate a decision, and keep it unless the incumbent search offers it."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name in INCUMBENT_SEARCH.get(frame.f_globals.get("__name__", ""), ()):
                self.forgotten += 1
                return self.problem.objective(x)
            frame = frame.f_back
        return super().offer(x)

    def tighten(self, bound: float | Fraction, error: float | Fraction = 0.0, *, is_claimed: bool = False) -> None:
        """Keep a bound, and note what was known with it."""
        self.claims.append((certified(bound, error, self.problem.sense), self.objective))
        super().tighten(bound, error, is_claimed=is_claimed)


def check_unaided(problem: Problem, method: str, decisions: list[NDArray[Any]], **options: Any) -> UnaidedRun:
    """Run a method from the worst of all feasible decisions, and check every bound that it reports.

    A bound may fall short of the optimum where the proof has met the optimum itself, and nowhere else.
    """
    sign = 1.0 if problem.sense == "max" else -1.0
    values = np.array([sign * problem.objective(x) for x in decisions])
    best = float(values.max())
    run = UnaidedRun(problem, method, decisions[int(values.argmin())])
    find(problem, method).function(problem, run, **options)
    for bound, objective in run.claims:
        known = objective is not None and sign * objective >= best
        assert known or sign * bound >= best, f"{method} reports {bound!r}, and {sign * best!r} is feasible"
    assert run.claims
    return run
