"""The swap neighbourhood that the heuristics share: gains, greedy construction, steepest ascent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.constrained_set import ConstrainedSelections
from solvers.dispersion.kernels import load
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.run import Run

_EPS = float(np.finfo(np.float64).eps)


def gains(problem: DispersionProblem, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Marginal value of each client beside those chosen, ``g = 2·weight·Hx − costs + common_cost``."""
    rows = problem.distances[np.flatnonzero(x)]
    return 2 * problem.weight * rows.sum(axis=0, dtype=np.float64) + problem.linear


def greedy_decision(problem: SelectionProblem) -> NDArray[np.int64]:
    """Add the client of largest marginal gain until ``size`` are chosen; ties go to the lowest index.

    Under side constraints, the included clients come first, and the next one is the best that leaves a way to keep
    them.
    """
    feasible, start = problem.feasible, problem.linear.copy()
    for included in feasible.included:
        start += 2 * problem.weight * problem.geometry.row(int(included))

    def growing() -> Callable[[int], NDArray[np.float64]]:
        g = start

        def after(client: int) -> NDArray[np.float64]:
            nonlocal g
            g = g + 2 * problem.weight * problem.geometry.row(client)
            return g

        return after

    if isinstance(feasible, ConstrainedSelections):
        found = feasible.grown_at_once(start, growing())
        if found is not None:
            return found
    return feasible.grown(start, growing())


def incumbent(run: Run) -> NDArray[np.int64]:
    """The run's best decision; there must be one."""
    assert run.x is not None
    return run.x.astype(np.int64)


def load_swaps(
    problem: DispersionProblem, run: Run, steps: float | None = None
) -> tuple[Any, tuple[NDArray[Any], ...] | None]:
    """Load `kernels.swaps` for a problem; return it and the side constraints as it takes them, or None."""
    rows = problem.feasible.by_client
    name = "swaps" if rows is None else "swaps_with_rows"
    return load(name, run, precision=problem.distances.dtype.name, steps=steps), rows


def random_decision(problem: SelectionProblem, rng: np.random.Generator) -> NDArray[np.int64]:
    """A feasible decision, drawn uniformly; under side constraints another one where ten such draws miss some."""
    return problem.feasible.draw(rng)


def ascend(problem: DispersionProblem, x: NDArray[np.int64], run: Run | None = None) -> NDArray[np.int64]:
    """Make the best one-for-one swap until none improves, or until ``run`` has expired.

    Replacing the chosen ``a`` by ``b`` changes the objective by ``g_b − g_a − 2·weight·H_ab``; each swap updates
    the gains in O(n).

    After n swaps the gains are computed afresh, and the ascent goes on from a selection of larger value than n swaps
    before: rounding cannot make it go round in circles.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    x : (n,) ndarray of int
        A feasible decision; not changed.
    run : Run, optional
        Whose time limit to respect.

    Returns
    -------
    (n,) ndarray of int
        A decision that no swap which keeps the constraints improves by more than rounding, unless time ran out.
    """
    x = x.copy()
    if problem.size == problem.n:
        return x
    pair, least = 2 * problem.weight, _smallest_gain(problem)
    best, known = x, -np.inf
    while True:
        if run is not None:
            run.spend(problem.size * problem.n)
        g = gains(problem, x)
        value = float((g + problem.linear)[x == 1].sum())  # twice the objective, less a constant
        if value <= known:
            return best
        best, known = x.copy(), value
        for _ in range(problem.n):
            if run is not None and run.expired:
                return x
            if run is not None:
                run.spend(4 * problem.n)
            a, b, gain = _best_swap(problem, g, np.flatnonzero(x == 1), np.flatnonzero(x == 0))
            if gain <= least:
                return x
            x[a], x[b] = 0, 1
            g += pair * (problem.geometry.row(b) - problem.geometry.row(a))


def _smallest_gain(problem: DispersionProblem) -> float:
    """Gain from which on a swap counts: a smaller one may be the rounding of freshly computed gains."""
    n, m = problem.n, problem.size
    reach = 2 * problem.weight * problem.diameter * m + problem.spread
    return max(1e-12 * problem.terms, 4 * (min(m, n - m) + 4) * _EPS * reach)


def local_ascent(problem: DispersionProblem, run: Run) -> None:
    """Offer what the run has, or the greedy selection, which is offered before, improved by swaps."""
    if run.x is None:
        run.offer(greedy_decision(problem))
    run.offer(ascend(problem, incumbent(run), run))


def ensure_incumbent(problem: DispersionProblem, run: Run) -> None:
    """Offer the greedy selection, improved by swaps, to a run that has none."""
    if run.x is None:
        local_ascent(problem, run)


def _best_swap(
    problem: DispersionProblem, g: NDArray[np.float64], inside: NDArray[np.int64], outside: NDArray[np.int64]
) -> tuple[int, int, float]:
    """The best swap, looking only at clients whose gains leave it a chance: ``g_b − g_a − h_ab ≤ g_b − g_a``."""
    if problem.is_constrained:
        return _best_swap_in_constraints(problem, g, inside, outside)
    width = 64
    if max(inside.size, outside.size) > width:
        inside = inside[np.argsort(g[inside], kind="stable")]
        outside = outside[np.argsort(-g[outside], kind="stable")]
    while True:
        first, second = inside[:width], outside[:width]
        change: NDArray[Any] = g[second] - g[first][:, None]
        change = change - 2 * problem.weight * problem.distances[np.ix_(first, second)].astype(np.float64)
        best = int(change.argmax())
        gain = float(change.flat[best])
        # What a client beyond the width could still bring.
        rest = -np.inf
        if inside.size > width:
            rest = g[outside[0]] - g[inside[width]]
        if outside.size > width:
            rest = max(rest, g[outside[width]] - g[inside[0]])
        if gain >= rest:
            return int(first[best // second.size]), int(second[best % second.size]), gain
        width *= 4


def _best_swap_in_constraints(
    problem: DispersionProblem, g: NDArray[np.float64], inside: NDArray[np.int64], outside: NDArray[np.int64]
) -> tuple[int, int, float]:
    """Return the best of all swaps that keep the side constraints, with a gain of minus infinity where none does."""
    feasible = problem.feasible
    change = g[outside] - g[inside][:, None]
    change -= 2 * problem.weight * problem.distances[np.ix_(inside, outside)].astype(np.float64)
    change[~feasible.swaps(feasible.decision(inside), inside, outside)] = -np.inf
    best = int(change.argmax())
    return int(inside[best // outside.size]), int(outside[best % outside.size]), float(change.flat[best])
