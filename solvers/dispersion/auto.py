"""Method ``auto``: an incumbent in milliseconds, then a proof in the time left."""

from __future__ import annotations

import math

from solvers.dispersion.brute_force import brute_force
from solvers.dispersion.cp_sat import cp_sat
from solvers.dispersion.local_search import local_search
from solvers.dispersion.problem import DispersionProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["auto"]

#: Up to this many selections are looked at one by one, which takes milliseconds.
_ENUMERABLE = 20_000

#: Products of pairs beyond which Glover's linearisation, with one variable a client, is stated instead.
_MOST_PRODUCTS = 20_000


@method(DispersionProblem, "auto", kind="exact")
def auto(problem: DispersionProblem, run: Run) -> None:
    """Enumerate what is small; otherwise local search for the incumbent and CP-SAT for the proof."""
    if math.comb(problem.n, problem.size) <= _ENUMERABLE:
        brute_force(problem, run)
        return
    local_search(problem, run)
    products = problem.n * (problem.n - 1) // 2
    cp_sat(problem, run, formulation="rlt" if products <= _MOST_PRODUCTS else "glover")
