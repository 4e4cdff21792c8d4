"""Heuristics between points under side constraints: some hundred clients at a time, with prices on the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import FREE, ONE, ZERO
from solvers.dispersion.methods.tabu import tabu as tabu_with_matrix
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.problem import DispersionProblem, PointDispersionProblem
from solvers.dispersion.restated import RestatedRun
from solvers.errors import InvalidProblem
from solvers.run import Run

__all__ = ["first_selection", "search_in_constraints"]

#: Steps of Frank-Wolfe that find where to round from.
_STEPS = 12

#: Clients whose mean distance says how far out a client lies, for the first selection.
_SAMPLE = 64

#: Share of a time limit for these steps.
_SHARE = 0.4

#: Clients of a small problem.
_SMALL = 600


def first_selection(problem: PointDispersionProblem, run: Run) -> NDArray[np.int64]:
    """Return a selection near the best point of the concave relaxation, by steps of Frank-Wolfe over the rows.

    A step of 2 / (k + 2) goes towards the selection that is best for the gradient at the rows' prices; the point is
    rounded to a selection that keeps all rows.
    """
    feasible = _set_of(problem)
    sample = feasible.decision(
        np.random.default_rng(run.seed).choice(problem.n, min(problem.n, _SAMPLE), replace=False)
    )
    share = (problem.size - 1) / sample.sum()
    x = feasible.round(2 * problem.weight * share * _sums(problem, sample, run) + problem.linear)
    run.offer(x)
    point, sums = x.astype(np.float64), _sums(problem, x, run)
    for k in range(_STEPS):
        if run.time_limit is not None and run.seconds > _SHARE * run.time_limit:
            break
        g = 2 * problem.weight * sums + problem.linear
        towards = feasible.core.best(feasible.at_prices(g, feasible.prices(g))[1])
        if feasible.violation(towards) == 0:
            run.offer(towards)
        step = 2.0 / (k + 2.0)
        point += step * (towards - point)
        sums += step * (_sums(problem, towards, run) - sums)
    g = 2 * problem.weight * sums + problem.linear
    return feasible.round(point + 1e-3 * g / max(float(np.abs(g).max()), 1e-300))


def search_in_constraints(problem: PointDispersionProblem, run: Run, rounds: int, moves: int = 0) -> None:
    """Improve a selection by small problems until nothing changes.

    Those clients whose gain at the rows' prices is nearest to the threshold of their groups are free in a small problem
    with a matrix, all others stay where they are, and the rows have what these leave.

    Parameters
    ----------
    problem, run : PointDispersionProblem, Run
        The problem and its run, whose decision is the start.
    rounds : int
        Small problems, at most.
    moves : int
        Moves of tabu search in each; swap ascent alone by default.
    """
    feasible = _set_of(problem)
    if run.x is None:
        run.offer(first_selection(problem, run))
    for _ in range(rounds):
        if run.expired:
            return
        assert run.x is not None
        known, x = run.objective, problem.decision(run.x)
        g = 2 * problem.weight * _sums(problem, x, run) + problem.linear
        _improve(problem, run, x, g, _near(feasible, x, g), moves)
        if run.objective == known:
            return


def _set_of(problem: PointDispersionProblem) -> ConstrainedSelections:
    assert isinstance(problem.feasible, ConstrainedSelections)
    return problem.feasible


def _sums(problem: PointDispersionProblem, x: NDArray[np.int64], run: Run) -> NDArray[np.float64]:
    """Return ``Hx``."""
    chosen = np.flatnonzero(x)
    return problem.geometry.potentials(chosen, np.ones(chosen.size), run)


def _near(feasible: ConstrainedSelections, x: NDArray[np.int64], g: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the clients that are out of place at the rows' prices, and those that lose least by a change."""
    reduced = feasible.at_prices(g, feasible.prices(g))[1]
    best = feasible.core.best(reduced)
    loss = np.where(best == x, feasible.core.losses(reduced, best), -1.0)
    loss[feasible.constraints.states != FREE] = np.inf
    return np.sort(np.argsort(loss, kind="stable")[: min(_SMALL, int(np.isfinite(loss).sum()))])


def _improve(
    problem: PointDispersionProblem,
    run: Run,
    x: NDArray[np.int64],
    g: NDArray[np.float64],
    places: NDArray[np.intp],
    moves: int,
) -> None:
    """Solve the small problem over the clients at ``places``, and offer what it brings."""
    states = np.where(x == 1, ONE, ZERO).astype(np.int8)
    states[places] = FREE
    places, left = problem.constraints.restricted(states)
    if left.size in (0, places.size):
        return
    distances = problem.geometry.distances(places)
    # What the clients that stay add to the gain of each.
    own = 2 * problem.weight * distances @ x[places]
    try:
        small = DispersionProblem(
            distances, own - g[places], size=left.size, weight=problem.weight, **left.arguments(drawn_in=2e-9)
        )
    except InvalidProblem:  # no selection is left by limits that are drawn in
        return

    def lift(part: NDArray[np.int64]) -> NDArray[np.int64]:
        whole = x.copy()
        whole[places] = part
        return whole

    constant = problem.objective(x) - small.objective(x[places])
    inner = RestatedRun(small, run, problem.rounding + small.rounding, lift=lift, constant=constant, beside=None)
    if small.violation(x[places]) == 0:
        inner.offer(ascend(small, x[places], inner))
    if moves:
        tabu_with_matrix(small, inner, moves=moves)
    inner.hand_over()
