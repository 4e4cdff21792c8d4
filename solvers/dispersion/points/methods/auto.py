"""Method ``auto`` between points."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.circle.search import fits
from solvers.dispersion.circle.shape import from_points
from solvers.dispersion.kinds.restated import solve_by_kinds
from solvers.dispersion.methods.auto import auto as auto_with_matrix
from solvers.dispersion.points.ascent import in_time, started
from solvers.dispersion.points.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.points.methods.circle import on_circle
from solvers.dispersion.points.part import Part, Rest
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.repeated import repeated
from solvers.dispersion.trivial import solve_trivial
from solvers.registry import method
from solvers.run import Run

__all__ = ["auto"]

#: Up to this many clients a matrix costs nothing, and its methods need no compilation for a first answer.
_FEW = 150


@method(PointDispersionProblem, "auto", kind="exact")
def auto(problem: PointDispersionProblem, run: Run) -> None:
    """Repeated points as kinds, few as a matrix, by their ``auto``; many by ``branch-and-bound``.

    Many on a circle or a line go to ``circle`` before.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    """
    same = repeated(problem)
    if same is not None:
        solve_by_kinds(same, run, problem.rounding + same.rounding)
        return
    if problem.n > _FEW:
        shape = from_points(problem.coordinates.T, problem.diameter) if fits(problem) else None
        if shape is not None and not run.expired:
            run.tighten(problem.trivial_bound())
            if solve_trivial(problem, run):
                return
            on_circle(problem, shape, run)
        if not (run.proved or (run.expired and run.x is not None)):
            branch_and_bound(problem, run)
        return
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    with in_time(problem, run):
        relaxation = started(problem, run)
        rest = Rest(relaxation, np.arange(problem.n))
        small = rest.dense()
        part = Part(small, run, rest, run.objective)
        try:
            auto_with_matrix(small, part)
        finally:
            part.hand_over()
            run.nodes = part.nodes
