"""Simple heuristics: greedy, random selections, swap ascent from several of them, simulated annealing."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from solvers.dispersion.neighbourhood import ascend, greedy_decision, load_swaps, random_decision
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.dispersion.relaxations.slice_form import units
from solvers.errors import InvalidOption
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run


@method(SelectionProblem, "greedy", kind="heuristic", constraints=True)
def greedy(problem: SelectionProblem, run: Run) -> None:
    """Add the client of largest marginal gain until the selection is full; in O(n·m) without side constraints."""
    run.offer(greedy_decision(problem))


@method(SelectionProblem, "random", kind="heuristic", constraints=True)
def random_search(problem: SelectionProblem, run: Run, *, draws: Annotated[int, AtLeast(1)] = 1) -> None:
    """Draw selections and keep the best: what choosing by chance is worth.

    They are drawn uniformly; under side constraints others are taken where ten such draws miss some.
    """
    for _ in range(draws):
        run.offer(random_decision(problem, run.rng))
        if run.expired:
            return


@method(DispersionProblem, "local-search", kind="heuristic", constraints=True)
def local_search(problem: DispersionProblem, run: Run, *, restarts: Annotated[int, AtLeast(0)] = 20) -> None:
    """Swap ascent from the start, the greedy selection and random selections; the best local optimum wins.

    Parameters
    ----------
    restarts : int
        Random selections to ascend from, beside ``start`` (if given) and the greedy selection.
    """
    if run.x is not None:
        run.offer(ascend(problem, run.x, run))
    run.offer(ascend(problem, greedy_decision(problem), run))
    for _ in range(restarts):
        if run.expired:
            break
        run.offer(ascend(problem, random_decision(problem, run.rng), run))


@method(DispersionProblem, "annealing", kind="heuristic", constraints=True)
def annealing(
    problem: DispersionProblem,
    run: Run,
    *,
    moves: Annotated[int, AtLeast(0)] = 300_000,
    initial_temperature: float = 0.1,
    final_temperature: float = 1e-4,
) -> None:
    """Metropolis swaps under a falling temperature (Kirkpatrick et al. 1983), compiled; the best is improved at last.

    Parameters
    ----------
    moves : int
        Swaps proposed over the whole schedule.
    initial_temperature, final_temperature : float
        First and last temperature, relative to a bound of one client's gain, within a factor of two; the fall is
        geometric.

    Raises
    ------
    InvalidOption
        When the temperatures are not finite, or not ``initial_temperature ≥ final_temperature > 0``.
    """
    hot, cold = initial_temperature, final_temperature
    if not math.inf > hot >= cold > 0:
        raise InvalidOption(f"temperatures must be finite and satisfy initial >= final > 0; got {hot} and {cold}")
    n, m = problem.n, problem.size
    x = random_decision(problem, run.rng) if run.x is None else problem.decision(run.x)
    run.offer(x)
    if m < n:
        swaps, rows = load_swaps(problem, run)
        factor, _, linear = units(problem)
        order = np.argsort(-x, kind="stable")
        best, value = order.copy(), -np.inf
        state = run.rng.integers(1, 2**63, size=1, dtype=np.uint64)
        done = 0
        while done < moves and not run.expired:
            chunk = min(max(200, 20_000_000 // n // 50), DEFAULT_POLICY.annealing_slice, moves - done)
            start, end = (hot * (cold / hot) ** (part / moves) for part in (done, done + chunk))
            pair = 2 * problem.weight * factor
            chain = (order, value, best, chunk, start, end, state)
            value = swaps.anneal(problem.distances, pair, linear, m, *chain, rows)
            done += chunk
        x = np.zeros(n, dtype=np.int64)
        x[best[:m]] = 1
    run.offer(ascend(problem, x, run))
