"""Pools of the k best selections: the exact methods where `solvers.solve` is asked for more than one selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.dispersion.subproblem import SubproblemRun
from solvers.dispersion.tree.pool_tree import PoolRun, PoolTree
from solvers.diverse import solve_diverse
from solvers.errors import InvalidOption, NoSelection
from solvers.run import Run
from solvers.search import DiverseIncumbents

#: Swaps that are looked at to fill a pool before the tree, some tenths of a second.
_SWAPS = 20_000_000


def solve_pool(
    problem: SelectionProblem, run: Run, exact: Callable[..., None], policy: Policy = DEFAULT_POLICY, **options: Any
) -> None:
    """Find the members of the run's pool, and prove that there are no better ones, as far as the time allows.

    Without a veto ``exact`` first looks for the best selection, in half of the time. Swaps then fill the pool, and
    `PoolTree` finds all that may be better than its last member.

    Parameters
    ----------
    problem : SelectionProblem
        The problem, in any statement.
    run : Run
        Its run, which has a pool.
    exact : callable
        The method itself, ``exact(problem, run, policy=policy, **options)``.
    policy, **options
        Its options.

    Raises
    ------
    InvalidOption
        When there are more clients than a tree takes.
    """
    assert run.pool is not None
    if problem.n > policy.largest_tree:
        raise InvalidOption(
            f"pools are found by a tree over the clients, which takes {policy.largest_tree} of them at most; got "
            f"{problem.n} (leave pool, within, diverse and veto away)"
        )
    if isinstance(run.pool, DiverseIncumbents):
        solve_diverse(problem, run, run.pool, run.method, policy=policy, **options)
        return
    nodes = 0
    if run.pool.request.veto is None:  # a refused selection may be better than the best one that is not
        inner = SubproblemRun(problem, run, 0.0, share=0.5)
        exact(problem, inner, policy=policy, **options)
        inner.hand_over()
        nodes = inner.nodes or 0
        if run.x is None and inner.solution().status == "infeasible":
            run.infeasible()
            return
    matrix = problem.expanded()
    slack = 0.0 if matrix is problem else problem.rounding + matrix.rounding
    part = PoolRun(matrix, run, slack)
    with run.phase("swaps for the pool"):
        _fill(matrix, part)
    with run.phase("tree for the pool"):
        tree = PoolTree(matrix, part, policy.products, policy)
        tree.solve()
    run.nodes = nodes + (part.nodes or 0)
    conclude(problem, run)


def conclude(problem: SelectionProblem, run: Run) -> None:
    """Bound the best selection by what bounds those that were not offered."""
    assert run.pool is not None
    found = run.pool.result()
    if found.members:
        run.tighten(max(run.pool.rest, found.members[0].objective + problem.rounding))
    elif found.is_complete:
        run.infeasible()


def _fill(problem: DispersionProblem, run: PoolRun) -> None:
    """Offer the swap neighbours of members that may be members, until all are looked at, or `_SWAPS` or time is up."""
    if run.incumbents.threshold is None and not len(run.incumbents):
        try:
            run.offer(ascend(problem, greedy_decision(problem), run))
        except NoSelection:
            return
    seen: set[bytes] = set()
    work = 0
    while work < _SWAPS and not run.expired:
        fresh = [x for x in list(run.incumbents)[: run.incumbents.request.size] if x.tobytes() not in seen]
        if not fresh:
            return
        for x in fresh:
            seen.add(x.tobytes())
            each = problem.size * problem.n
            run.spend(each)
            work += each
            _offer_neighbours(problem, run, problem.decision(x))
            if work >= _SWAPS or run.expired:
                return


def _offer_neighbours(problem: DispersionProblem, run: PoolRun, x: NDArray[np.int64]) -> None:
    """Offer the best swap neighbours of a selection, as many as the pool has places, while they may enter it."""
    inside, outside = np.flatnonzero(x == 1), np.flatnonzero(x == 0)
    if not outside.size:
        return
    h, w = problem.distances, problem.weight
    gains = 2 * w * (h[:, inside].sum(axis=1, dtype=np.float64)) - problem.costs
    values = problem.objective(x) - gains[inside][:, None] + gains[outside] - 2 * w * h[np.ix_(inside, outside)]
    flat = values.ravel()
    count = min(flat.size, run.incumbents.request.size)
    best = np.argpartition(-flat, count - 1)[:count]
    for place in best[np.argsort(-flat[best], kind="stable")].tolist():
        threshold = run.incumbents.threshold
        if threshold is not None and flat[place] < threshold:
            return
        swapped = x.copy()
        swapped[inside[place // outside.size]], swapped[outside[place % outside.size]] = 0, 1
        if problem.violation(swapped) == 0:
            run.offer(swapped)
