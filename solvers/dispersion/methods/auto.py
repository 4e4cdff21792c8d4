"""Method ``auto``: an incumbent in milliseconds, a bound next, then a proof in the time left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kinds import FEW, alike, repeated
from solvers.dispersion.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.methods.brute_force import brute_force
from solvers.dispersion.methods.circle import solve_if_circular
from solvers.dispersion.methods.kinds import solve_by_kinds
from solvers.dispersion.methods.rlt import LARGEST, descend
from solvers.dispersion.prelude import begin, dispersion_method, is_trivial
from solvers.dispersion.problem import (
    DispersionProblem,
    KindDispersionProblem,
    PointDispersionProblem,
    SelectionProblem,
)
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.restated import RestatedRun
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.neighbourhood import incumbent
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

#: Clients to one that is chosen from which on the level-1 RLT bound comes before the trees, and its share of the time.
#: 2026-11-22, rounds of 1 000 clients: the gap after it was a half to a quarter of what the trees came to in 5 s.
_FEW_OF_MANY, _RLT = 20, 0.3


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
    points on a circle or a line, which their distances show at once, longest paths do. Where few of many are chosen,
    the level-1 RLT bound comes before the trees, which are left the clients that a better selection may contain.

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
        few, inner = _without_the_hopeless(problem, run)
        branch_and_bound(few, inner, memory=memory, threads=threads, policy=policy)
        run.nodes = inner.nodes
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


def _without_the_hopeless(problem: DispersionProblem, run: Run) -> tuple[DispersionProblem, Run]:
    """Bound by ``rlt`` where few of many are chosen; return the problem over the clients that are left, and its run."""
    if not _FEW_OF_MANY * problem.size <= problem.n <= LARGEST or problem.n < FEW or run.recording:
        return problem, run
    begin(problem, run)
    relaxation = RowRelaxation(Normal.of(problem), run)
    descend(problem, RestatedRun(problem, run, 0.0, share=_RLT), relaxation)
    ids = relaxation.ids
    if ids.size == problem.n:
        return problem, run
    few = DispersionProblem(
        problem.distances[np.ix_(ids, ids)],
        problem.costs[ids],
        size=problem.size,
        weight=problem.weight,
        clients=problem.clients[ids],
    )

    def lift(x: NDArray[np.int64]) -> NDArray[np.int64]:
        return problem.feasible.decision(ids[np.flatnonzero(x)])

    slack = problem.rounding + few.rounding
    inner = RestatedRun(few, run, slack, lift=lift, beside=run.objective)
    inner.offer(incumbent(run)[ids])  # its clients are never left out
    return few, inner
