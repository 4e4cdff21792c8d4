"""Methods for problems between kinds; under side constraints the heuristics are those of the matrix."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from solvers.dispersion.kernels import load
from solvers.dispersion.methods.tabu import tabu as tabu_with_matrix
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.prelude import dispersion_method
from solvers.dispersion.problem import DispersionProblem, KindDispersionProblem
from solvers.dispersion.subproblem import SubproblemRun, as_matrix
from solvers.dispersion.tree.counts import Counts, CountsTree, filled
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run


@method(KindDispersionProblem, "greedy", kind="heuristic", constraints=True)
def greedy(problem: KindDispersionProblem, run: Run) -> None:
    """Add the cheapest client of the kind that gains most until ``size`` are chosen; ties go to the first kind."""
    if problem.is_constrained:
        as_matrix(problem, run, "greedy")
        return
    start, run.x, run.objective = run.x, None, None
    filled(Counts(problem), run)
    if start is not None:
        run.offer(start)


@method(KindDispersionProblem, "local-search", kind="heuristic", constraints=True)
def local_search(problem: KindDispersionProblem, run: Run, *, restarts: Annotated[int, AtLeast(0)] = 20) -> None:
    """Exchange clients of two kinds, the best exchange first; the best local optimum wins.

    Parameters
    ----------
    restarts : int
        Random selections to ascend from, beside ``start`` or the greedy one.
    """
    if problem.is_constrained:
        as_matrix(problem, run, "local-search", restarts=restarts)
        return
    form = Counts(problem)
    kernels = load("counts", run)
    counts = filled(form, run)
    capacity = np.diff(form.start)
    for attempt in range(restarts + 1):
        if run.expired:
            return
        if attempt > 0:
            counts = run.rng.multivariate_hypergeometric(capacity, problem.size).astype(np.int64)
        kernels.ascend(form.q, form.start, form.steps, counts, 10 * problem.size, 1e-12 * problem.scale)
        run.offer(form.decision(counts))


@method(KindDispersionProblem, "tabu", kind="heuristic", constraints=True)
def tabu(problem: KindDispersionProblem, run: Run, *, moves: Annotated[int, AtLeast(0)] = 20_000) -> None:
    """Exchanges between kinds, then tabu search over the clients that are the next to leave or to come, of each kind.

    Parameters
    ----------
    moves : int
        Swaps made in the search.
    """
    if problem.is_constrained:
        as_matrix(problem, run, "tabu", moves=moves)
        return
    form = Counts(problem)
    counts = filled(form, run)
    least = 1e-12 * problem.scale
    load("counts", run).ascend(form.q, form.start, form.steps, counts, 10 * problem.size, least)
    run.offer(form.decision(counts))
    reach = max(1, DEFAULT_POLICY.nearest // (2 * problem.k))
    capacity = np.diff(form.start)
    held = np.maximum(counts - reach, 0)
    some = np.concatenate(
        [form.order[a + low : a + high] for a, low, high in _ranges(form.start, held, counts + reach, capacity)]
    )
    d, kinds = problem.distances, problem.kinds[some]
    h = d[np.ix_(kinds, kinds)]
    np.fill_diagonal(h, 0.0)
    costs = problem.costs[some] - 2 * problem.weight * (d @ held)[kinds]
    size = problem.size - int(held.sum())
    small = DispersionProblem(h, costs, size=size, weight=problem.weight)
    x = form.decision(counts)

    def map_back(y: np.ndarray) -> np.ndarray:
        whole = x.copy()
        whole[some] = y
        return whole

    constant = problem.objective(x) - small.objective(x[some])  # of those held
    inner = SubproblemRun(
        small, run, problem.rounding + small.rounding, map_back=map_back, constant=constant, outside=None
    )
    inner.offer(x[some])
    try:
        tabu_with_matrix(small, inner, moves=moves)
    finally:
        inner.hand_over()


def _ranges(start: np.ndarray, low: np.ndarray, high: np.ndarray, capacity: np.ndarray) -> list[tuple[int, int, int]]:
    """Where each kind's steps begin, and which of them are in the small problem."""
    return list(zip(start[:-1].tolist(), low.tolist(), np.minimum(high, capacity).tolist(), strict=True))


@dispersion_method(KindDispersionProblem, "tangent", kind="relaxation")
def tangent(problem: KindDispersionProblem, run: Run) -> None:
    """Bound by the concave relaxation over counts and its tangent; round it to a decision."""
    form = Counts(problem)
    CountsTree(form, run, filled(form, run)).advance(1)


@dispersion_method(KindDispersionProblem, "branch-and-bound", kind="exact", work=True)
def branch_and_bound(
    problem: KindDispersionProblem,
    run: Run,
    *,
    nodes: Annotated[int, AtLeast(0)] | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    r"""Prove optimality over the counts of the kinds.

    Of each kind only the m cheapest clients can matter, the cheapest first, so that a decision is k whole numbers. A
    uniform shift makes the quadratic concave on the slice; what it takes off is given back at whole numbers, and a
    node replaces that and the costs by their concave envelope between its bounds. Moves of weight between two kinds
    lead to a tangent and a price per client; together they bound the node, and cut off counts by reduced costs.

    Parameters
    ----------
    nodes : int, optional
        Nodes after which the tree ends; those that are looked at together are finished.
    policy : Policy
        What is decided by, for experiments.
    """
    run.nodes = 0
    form = Counts(problem)
    counts = filled(form, run)
    load("counts", run).ascend(form.q, form.start, form.steps, counts, 10 * problem.size, 1e-12 * problem.scale)
    run.offer(form.decision(counts))
    tree = CountsTree(form, run, counts, policy)
    tree.advance(1)
    if tree.open and not run.proved:
        tree.probe()
    while tree.open and not (run.expired or run.proved) and (nodes is None or tree.nodes < nodes):
        before = tree.nodes
        tree.advance()
        if tree.open and tree.nodes == before:
            run.stop("iterations", "the tree over counts is deeper than its stack")
            break


def solve_by_kinds(
    same: KindDispersionProblem, run: Run, policy: Policy, share: float = 1.0, most: int | None = None
) -> None:
    """Solve what ``run`` is for by its statement between kinds.

    Parameters
    ----------
    same : KindDispersionProblem
        The same problem; clients are in the same places.
    run : Run
        The run to serve.
    policy : Policy
        What is decided by.
    share : float
        Part of the remaining time to use.
    most : int, optional
        As ``nodes`` of `branch_and_bound`.
    """
    inner = SubproblemRun(same, run, run.problem.rounding + same.rounding, share=share)  # type: ignore[attr-defined]
    run.details["kinds"] = same.k
    try:
        branch_and_bound(same, inner, nodes=most, policy=policy)
    finally:
        inner.hand_over()
