"""Method ``tangent`` between kinds: the root bound of the tree over counts."""

from __future__ import annotations

from solvers.dispersion.kinds.counts import Counts
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.kinds.tree import Tree, filled
from solvers.dispersion.trivial import solve_trivial
from solvers.registry import method
from solvers.run import Run

__all__ = ["tangent"]


@method(KindDispersionProblem, "tangent", kind="relaxation")
def tangent(problem: KindDispersionProblem, run: Run) -> None:
    """Bound by the concave relaxation over counts and its tangent; round it to a decision."""
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    form = Counts(problem)
    Tree(form, run, filled(form, run)).advance(1)
