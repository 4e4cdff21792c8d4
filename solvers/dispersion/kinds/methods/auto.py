"""Method ``auto`` between kinds."""

from __future__ import annotations

from solvers.dispersion.kinds.methods.branch_and_bound import branch_and_bound
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["auto"]


@method(KindDispersionProblem, "auto", kind="exact")
def auto(problem: KindDispersionProblem, run: Run) -> None:
    """Prove optimality by ``branch-and-bound`` over the counts of the kinds."""
    branch_and_bound(problem, run)
