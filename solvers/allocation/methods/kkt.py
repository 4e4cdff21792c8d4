"""Method ``kkt``: the best real allocation, by water-filling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.allocation.problem import AllocationProblem
from solvers.allocation.water_filling import round_up_largest
from solvers.registry import method
from solvers.run import Run

__all__ = ["kkt"]


@method(AllocationProblem, "kkt", kind="relaxation")
def kkt(problem: AllocationProblem, run: Run, *, rounded: bool = False) -> None:
    r"""Solve the KKT conditions: :math:`x_k = \mathrm{clip}(\tau N_k H_k, \ell_k, u_k)`, in O(K log K).

    Where no bound is active this is Neyman's allocation, the paper's closed form (19).

    Parameters
    ----------
    problem : AllocationProblem
        The problem.
    run : Run
        Clock and incumbent.
    rounded : bool
        Return whole clients, rounded by largest remainder, with the same bound; ``raw`` then has the
        real allocation.
    """
    x, price = problem.water_fill(problem.lower)
    run.tighten(problem.relaxed_bound(price))
    offer(problem, run, x, price, rounded)


def offer(problem: AllocationProblem, run: Run, x: NDArray[np.float64], price: float, rounded: bool) -> None:
    """Offer a real allocation with its multipliers, or whole clients made from it."""
    if rounded:
        inside, _ = (x, price) if (x >= problem.first).all() else problem.water_fill(problem.first)
        run.offer(round_up_largest(inside, problem.total, problem.first, problem.upper))
        run.details["raw"] = x
        return
    run.offer(x)
    slope = np.divide(problem.costs, x * x, out=np.zeros(problem.n), where=problem.costs > 0)
    # A solver's point reaches its bounds only nearly; what that costs shows as complementarity.
    lower = np.where(x <= problem.lower + 1e-6, np.maximum(price - slope, 0.0), 0.0)
    upper = np.where(x >= problem.upper - 1e-6, np.maximum(slope - price, 0.0), 0.0)
    run.duals = {"price": price, "lower": lower, "upper": upper}
