"""Method ``auto``: the best choice we know."""

from __future__ import annotations

from solvers.participation.methods.corollary import corollary_cutoff
from solvers.participation.methods.enumerate import enumerate_cutoffs
from solvers.participation.problem import CutoffProblem
from solvers.registry import method
from solvers.run import Run


@method(CutoffProblem, "auto", kind="exact")
def auto(problem: CutoffProblem, run: Run) -> None:
    """``enumerate``, from Corollary 4's cutoff."""
    run.offer(corollary_cutoff(problem))
    enumerate_cutoffs(problem, run)
