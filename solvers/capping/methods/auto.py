"""Method ``auto``: the best choice we know."""

from __future__ import annotations

from solvers.capping.methods.exact_search import exact_search
from solvers.capping.problem import CappingProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["auto"]


@method(CappingProblem, "auto", kind="exact")
def auto(problem: CappingProblem, run: Run) -> None:
    """``exact-search``: it is exact and the fastest at every size."""
    exact_search(problem, run)
