"""Method ``annealing``: simulated annealing over swaps."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.kernels import load
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import units
from solvers.dispersion.search.neighbourhood import ascend, random_decision
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["annealing"]

#: Swaps between two looks at the clock.
_CHUNK = 20_000


@method(DispersionProblem, "annealing", kind="heuristic")
def annealing(
    problem: DispersionProblem, run: Run, *, moves: int = 300_000, hot: float = 0.1, cold: float = 1e-4
) -> None:
    """Metropolis swaps under a falling temperature (Kirkpatrick et al. 1983), compiled; the best is improved at last.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    moves : int
        Swaps proposed over the whole schedule.
    hot, cold : float
        First and last temperature, relative to the largest gain of one client; the fall is geometric.

    Raises
    ------
    InvalidOption
        When ``moves`` is negative, or the temperatures are not ``hot ≥ cold > 0``.
    """
    if moves < 0:
        raise InvalidOption(f"moves must not be negative; got {moves}")
    if not hot >= cold > 0:
        raise InvalidOption(f"temperatures must satisfy hot >= cold > 0; got hot={hot}, cold={cold}")
    n, m = problem.n, problem.size
    x = random_decision(problem, run.rng) if run.x is None else problem.decision(run.x)
    run.offer(x)
    if m < n:
        swaps = load("annealing", run, precision=problem.distances.dtype.name)
        factor, _, linear = units(problem)
        order = np.argsort(-x, kind="stable")
        best, value = order.copy(), -np.inf
        state = run.rng.integers(1, 2**63, size=1, dtype=np.uint64)
        done = 0
        while done < moves and not run.expired:
            chunk = min(max(200, 20_000_000 // n // 50), _CHUNK, moves - done)
            start, end = (hot * (cold / hot) ** (part / moves) for part in (done, done + chunk))
            pair = 2 * problem.weight * factor
            value = swaps.anneal(problem.distances, pair, linear, m, order, value, best, chunk, start, end, state)
            done += chunk
        x = np.zeros(n, dtype=np.int64)
        x[best[:m]] = 1
    run.offer(ascend(problem, x, run))
