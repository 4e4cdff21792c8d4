"""Side constraints in the exact methods: a tree of its own over a matrix, prices of rows, prices in the answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.dispersion.memory import Memory
from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.prices import priced_bound
from solvers.dispersion.tree.constrained import ConstrainedTree
from solvers.dispersion.tree.policy import DEFAULT_POLICY, Policy
from solvers.errors import NoSelection
from solvers.registry import methods
from solvers.run import Run

__all__ = ["solve_constrained"]


def solve_constrained(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: float = 3.0,
    moves: int = 3_000,
    memory: Memory | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    """Prove optimality under side constraints by `ConstrainedTree`, from selections that swaps and the root find.

    Parameters
    ----------
    problem : DispersionProblem
        A problem with side constraints.
    run : Run
        Is given decisions, bounds, prices, or that there is no selection.
    cuts, moves, memory, policy
        As for ``branch-and-bound``.
    """
    run.tighten(problem.trivial_bound())
    if problem.size == 1 and not _choose_one(problem, run):
        return
    if memory is not None:
        for x in memory.start(problem):
            if problem.violation(x) == 0:
                run.offer(ascend(problem, x, run))
    tree = ConstrainedTree(problem, run, cuts, policy=policy)
    try:
        if not tree.is_contradictory():
            _begin(problem, run, moves)
            tree.refresh_incumbent()
        tree.start()
        _round(tree)
        while tree.open and not (run.expired or run.proved):
            tree.advance()
        tree.report()
    finally:
        if memory is not None:
            memory.keep(problem, run.x)
        keep_prices(tree)


def _choose_one(problem: DispersionProblem, run: Run) -> bool:
    """Offer the cheapest client that keeps all constraints, which proves itself; say whether there is one."""
    one = np.ones(problem.n, dtype=bool)
    for row in problem.constraints.rows:
        used = row.dense(problem.n)
        one &= (row.low <= used) & (used <= row.high)
    for client in np.flatnonzero(one)[np.argsort(problem.costs[one], kind="stable")].tolist():
        x = problem.feasible.decision([client])
        if problem.violation(x) == 0:
            run.tighten(run.offer(x))
            return True
    run.infeasible()
    return False


def _begin(problem: DispersionProblem, run: Run, moves: int) -> None:
    """Offer the greedy selection and what swaps and tabu search make of it, where one is found quickly."""
    try:
        if run.x is None:
            run.offer(ascend(problem, greedy_decision(problem), run))
        tabu = next((each for each in methods(problem) if each.name == "tabu"), None)
        if moves > 0 and tabu is not None:
            tabu.function(problem, run, moves=moves)
    except NoSelection:
        run.note("neither a greedy choice nor its repair found a selection that keeps all constraints")


def _round(tree: ConstrainedTree) -> None:
    """Offer the selection nearest to the root's point, improved by swaps."""
    root, problem, run = tree.root, tree.problem, tree.run
    if root is None or not math.isfinite(root.value) or run.expired or run.proved:
        return
    point = np.zeros(problem.n)
    point[root.ones], point[root.ids] = 1.0, root.x[: root.ids.size]
    near = problem.feasible.core.best(point)  # type: ignore[attr-defined]  # there are constraints
    if problem.violation(near) == 0:
        run.offer(ascend(problem, near, run))
        tree.refresh_incumbent()


def keep_prices(tree: ConstrainedTree) -> None:
    """Keep what the root's bound pays for each constraint, and that bound, in units of the objective."""
    root, rows, factor = tree.root, tree.rows, tree.normal.factor
    if root is None or not math.isfinite(root.value) or tree.run.x is None or root.ids.size == 0:
        return
    found = priced_bound(root.form, root.sides, *tree.multipliers(root))
    prices: dict[str, float] = dict.fromkeys((row.name for row in tree.constraints.rows), 0.0)
    for name, price in zip(rows.names, (rows.signs * found.rows * rows.scale).tolist(), strict=True):
        prices[name] += price / factor
    for name, price in zip(rows.group_names, found.groups.tolist(), strict=False):
        prices[name] += price / factor
    details: dict[str, Any] = {"prices": prices, "priced_bound": tree.certified(found.value + root.constant)}
    tree.run.details.update(details)
