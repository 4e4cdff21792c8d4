"""Method ``auto`` between kinds."""

from __future__ import annotations

from solvers.dispersion.kinds.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.kinds.restated import Restated
from solvers.dispersion.trivial import solve_trivial
from solvers.registry import find, method
from solvers.run import Run

__all__ = ["auto"]

#: Up to this many clients a matrix costs nothing, and its methods need no compilation for a first answer.
_FEW = 60


@method(KindDispersionProblem, "auto", kind="exact")
def auto(problem: KindDispersionProblem, run: Run) -> None:
    """Few clients as a matrix, by its ``auto``; many by ``branch-and-bound`` over the counts of the kinds.

    Parameters
    ----------
    problem : KindDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    """
    if problem.n > _FEW:
        branch_and_bound(problem, run)
        return
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    small = problem.expanded()
    inner = Restated(small, run, problem.rounding + small.rounding)
    try:
        find(small, "auto").function(small, inner)
    finally:
        run.nodes = inner.nodes
