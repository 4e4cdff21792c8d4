"""Method ``branch-and-bound`` between points: fix nearly everybody by reduced costs, hand the rest to the tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.methods.branch_and_bound import branch_and_bound as branch_and_bound_with_matrix
from solvers.dispersion.points.ascent import improve, in_time
from solvers.dispersion.points.methods.local_search import swaps
from solvers.dispersion.points.methods.tangent import relaxed
from solvers.dispersion.points.part import Part, Rest
from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.relaxation import FREE, ONE, ZERO, Relaxation
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.trivial import solve_trivial
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["branch_and_bound"]

#: A smaller problem of points is worth its own relaxation when it leaves out this share of the clients.
_SHRINK = 0.8


@method(PointDispersionProblem, "branch-and-bound", kind="exact")
def branch_and_bound(problem: PointDispersionProblem, run: Run, *, largest: int = 2_000) -> None:
    r"""Prove optimality: swaps, Frank-Wolfe, tangent bound, reduced costs; then a tree over the few that are left.

    The objective is concave on the slice without a shift, so the bound at the relaxation's optimum is off by parts
    in a million where there are many clients, and reduced costs fix all but some tens or hundreds of them. Those are a
    `DispersionProblem`, solved by its own ``branch-and-bound``; the fixed ones enter its costs. Follows Spiers, Bui
    and Loxton (EJOR 311(2), 2023), who put the same tangents into a mixed-integer solver.

    Parameters
    ----------
    problem : PointDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    largest : int
        Clients that the tree takes over, at most; with more left there is only a bound.

    Raises
    ------
    InvalidOption
        When ``largest`` is negative.
    """
    if largest < 0:
        raise InvalidOption(f"largest must not be negative; got {largest}")
    run.nodes = 0
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    with in_time(problem, run):
        relaxation = relaxed(problem, run)
        if not (run.proved or run.expired):
            finish(relaxation, run, largest)


def finish(relaxation: Relaxation, run: Run, largest: int) -> None:
    """Fix by reduced costs, and solve what is left."""
    problem = relaxation.problem
    places, value = left(relaxation, run)
    if places.size > largest:
        while improve(relaxation, run, swaps, 2_000) and not run.proved:
            places, value = left(relaxation, run)
    rest = Rest(relaxation, places)
    run.details["branched"] = places.size
    if rest.size in (0, places.size):
        decision = rest.whole(np.full(places.size, int(rest.size > 0)))
        run.tighten(max(run.offer(decision), value) + problem.rounding)
        return
    if places.size > max(largest, _SHRINK * problem.n):
        run.stop("iterations", f"{places.size} clients are left open by reduced costs; the tree takes {largest}")
        return
    small: DispersionProblem | PointDispersionProblem = rest.dense() if places.size <= largest else rest.points()
    part = Part(small, run, rest, value)
    part.offer(rest.start(run.x.astype(np.float64), relaxation.g))  # type: ignore[union-attr]  # there is one
    try:
        if isinstance(small, DispersionProblem):
            branch_and_bound_with_matrix(small, part)
        else:
            branch_and_bound(small, part, largest=largest)
    finally:
        part.hand_over()
        run.nodes = part.nodes
        if part.message:
            run.stop("iterations", part.message)


def left(relaxation: Relaxation, run: Run) -> tuple[NDArray[np.intp], float]:
    """Who is not fixed where the relaxation's point has them, and the value that fixed the others."""
    assert run.objective is not None
    state, y = relaxation.fixed(run.objective), relaxation.y
    agree = ((state == ONE) & (y >= 1.0)) | ((state == ZERO) & (y <= 0.0))
    return np.flatnonzero(~agree | (state == FREE)), run.objective
