"""Method ``auto``: an incumbent in milliseconds, a bound next, then a proof in the time left."""

from __future__ import annotations

from solvers.dispersion.kinds import FEW, alike, repeated
from solvers.dispersion.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.methods.brute_force import brute_force
from solvers.dispersion.methods.circle import solve_if_circular
from solvers.dispersion.methods.kinds import solve_by_kinds
from solvers.dispersion.prelude import begin, dispersion_method, is_trivial
from solvers.dispersion.problem import (
    DispersionProblem,
    KindDispersionProblem,
    PointDispersionProblem,
    SelectionProblem,
)
from solvers.dispersion.restated import RestatedRun
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.search.threads import one_thread
from solvers.registry import find, method
from solvers.run import Run

__all__ = ["auto", "auto_without_matrix"]

#: Up to this many selections are looked at one by one, which takes milliseconds.
_ENUMERABLE = 5_000

#: Share of the time for the tree over counts, which proves what it can prove at once.
_KINDS = 0.1

#: Up to so many clients, as points or of a few kinds, a matrix costs nothing, and its methods need no compilation for a
#: first answer.
_AS_MATRIX = {PointDispersionProblem: 150, KindDispersionProblem: 60}


@method(DispersionProblem, "auto", kind="exact")
@one_thread
def auto(
    problem: DispersionProblem,
    run: Run,
    *,
    memory: Memory | None = None,
    threads: int = 1,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    """Enumerate what is small; otherwise swap ascent, tabu search, a certified bound, and branch and bound.

    Where clients come in few kinds, which differ in nothing but costs, a tree over counts comes first; where they are
    points on a circle or a line, which their distances show at once, longest paths do.

    Everything needed comes with the package: no solver is called.

    Parameters
    ----------
    memory : Memory, optional
        Carries the multipliers and the best selections of earlier rounds over the same distances to this one.
    threads : int
        Threads for nodes with a doubly nonnegative bound; the answer is the same for any number.
    policy : Policy
        Tuning constants of the trees, for experiments.
    """
    if problem.feasible.count <= _ENUMERABLE:
        brute_force(problem, run)
        return
    if problem.n >= FEW:
        begin(problem, run)  # before anything that takes a while
    same = alike(problem)
    if same is not None:
        solve_by_kinds(same, run, share=_KINDS)
    if not (run.proved or run.expired or is_trivial(problem)):
        solve_if_circular(problem, run)
    if not (run.proved or run.expired):
        branch_and_bound(problem, run, memory=memory, threads=threads, policy=policy)
    if run.x is None:
        begin(problem, run)  # however short the time was


@dispersion_method((PointDispersionProblem, KindDispersionProblem), "auto", kind="exact")
def auto_without_matrix(problem: SelectionProblem, run: Run) -> None:
    """Repeated points as kinds, few clients as a matrix, by its ``auto``; many by ``branch-and-bound``.

    Many points on a circle or a line go to ``circle`` before.
    """
    if isinstance(problem, PointDispersionProblem) and (same := repeated(problem)) is not None:
        solve_by_kinds(same, run)
    elif problem.n <= _AS_MATRIX[type(problem)]:
        small = problem.expanded()
        inner = RestatedRun(small, run, problem.rounding + small.rounding)
        try:
            find(small, "auto").function(small, inner)
        finally:
            inner.hand_over()
            run.nodes = inner.nodes
    else:
        solve_if_circular(problem, run)
        if not (run.proved or (run.expired and run.x is not None)):
            find(problem, "branch-and-bound").function(problem, run)
