"""Methods for coverage problems: greedy ones, swaps, the Lagrangian tree, and linear models for other solvers."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.backends import cut_short, follower, offer_answer, run_cp_sat, solver_for, stated_choice
from solvers.coverage.lagrangian import Tree
from solvers.coverage.problem import CoverageProblem
from solvers.coverage.swaps import ascend, kernel, perturb
from solvers.diverse import solve_diverse
from solvers.errors import NoSelection
from solvers.options import Above, AtLeast
from solvers.registry import method
from solvers.run import Run
from solvers.search.pool import DiverseIncumbents, conclude_pool, offer_best
from solvers.subsets import from_clients, from_row, in_order

_EPS = float(np.finfo(np.float64).eps)

#: Numbers of a block of rows that a pass over all candidates works on: 4 megabytes, which caches hold.
_BLOCK = 500_000


def _greedy(problem: CoverageProblem, run: Run) -> NDArray[np.int64]:
    """Select greedily and return the candidates in the order of their selection; of equal gains the lowest id's.

    Under side constraints, the next one is the best that leaves a way to keep them.
    """
    served = problem.extremes[0].astype(problem.similarity.dtype)
    lower = kernel(problem, run, steps=20.0 * problem.similarity.size).lower
    gains, rows = np.full(problem.n, -float(served.sum(dtype=np.float64))), max(1, _BLOCK // problem.n)
    for start in range(0, served.size, rows):
        gains += problem.similarity[start : start + rows].sum(axis=0)
    gains -= problem.costs
    run.spend(2 * problem.similarity.size)
    order: list[int] = []

    def after(client: int) -> NDArray[np.float64]:
        order.append(client)
        run.spend(served.size + problem.n)
        if not run.expired:  # else those of the largest gains so far complete the selection
            lower(problem.similarity, client, served, gains)
        return gains

    for included in problem.feasible.included.tolist():
        after(included)
    x = problem.feasible.grown(gains, after)
    run.offer(x)
    return in_order(x, order)


@method(CoverageProblem, "greedy", kind="heuristic", constraints=True)
def greedy(problem: CoverageProblem, run: Run) -> None:
    """Take the candidate of the largest gain, again and again.

    It reaches 1 − 1/e of the optimum where similarities are non-negative and there are neither costs nor constraints.
    """
    _greedy(problem, run)


@method(CoverageProblem, "stochastic-greedy", kind="heuristic")
def stochastic_greedy(problem: CoverageProblem, run: Run, *, epsilon: Annotated[float, Above(0)] = 0.1) -> None:
    """Take the best of a random sample of candidates, again and again (Mirzasoleiman et al. 2015); DivFL may use it.

    Parameters
    ----------
    epsilon : float
        The sample has n/m · ln(1/ε) candidates, so that 1 − 1/e − ε of the optimum is reached on average where
        similarities are non-negative and there are no costs; from 1 on it has a single one.
    """
    n, m = problem.n, problem.size
    sample = min(n, max(1, math.ceil(n / m * math.log(1.0 / epsilon)))) if epsilon < 1 else 1
    served = problem.extremes[0].copy()
    free = np.arange(n)
    chosen: list[int] = []
    while len(chosen) < m:
        if run.expired:
            chosen += free[: m - len(chosen)].tolist()
            break
        drawn = np.sort(run.rng.choice(free, size=min(sample, free.size), replace=False))
        gains = np.maximum(problem.similarity[:, drawn] - served[:, None], 0.0).sum(axis=0) - problem.costs[drawn]
        best = int(drawn[gains.argmax()])
        chosen.append(best)
        free = free[free != best]
        np.maximum(served, problem.similarity[:, best], out=served)
    run.offer(from_clients(chosen, n))


@method(CoverageProblem, "local-search", kind="heuristic", constraints=True)
def local_search(problem: CoverageProblem, run: Run) -> None:
    """Improve the greedy selection by swaps until none does."""
    ascend(problem, run, _greedy(problem, run))


def _begin(problem: CoverageProblem, run: Run, kicks: int = 0, sweeps: int | None = None) -> None:
    """Offer the greedy selection, improved by swaps and kicks; none where side constraints leave none in sight."""
    try:
        ascend(problem, run, _greedy(problem, run), sweeps)
    except NoSelection:
        run.note("neither a greedy choice nor its repair found a selection that keeps all constraints")
    else:
        if run.x is not None:  # a veto may have refused all
            perturb(problem, run, kicks)


@method(CoverageProblem, "lagrangian", kind="relaxation", constraints=True, work=True)
def lagrangian(problem: CoverageProblem, run: Run) -> None:
    """Relax "each row is represented once" with multipliers by subgradients: nearly the linear relaxation's bound.

    Swaps make the decision, from the greedy selection and from those of the relaxation.
    """
    _begin(problem, run)
    Tree(problem, run).search(root_only=True)


@method(CoverageProblem, "branch-and-bound", kind="exact", constraints=True, pool=True, work=True)
def branch_and_bound(problem: CoverageProblem, run: Run) -> None:
    """Bound by Lagrangian relaxation, fix candidates by reduced costs, and branch on what is left, best bound first.

    Swaps from the greedy selection, and from kicks of it, make the incumbent first.
    """
    if isinstance(run.pool, DiverseIncumbents):
        solve_diverse(problem, run, run.pool, run.method)
        return
    _begin(problem, run, kicks=12)
    if run.pool is not None:
        _fill(problem, run)
    Tree(problem, run).search()
    if run.pool is not None:
        conclude_pool(run)


#: Similarities that are looked at to fill a pool with neighbours of the best selection: some tenths of a second.
_LARGEST_FILL = 200_000_000


def _fill(problem: CoverageProblem, run: Run) -> None:
    """Offer the best selections that one swap makes of the incumbent, so that the tree has a threshold."""
    assert run.pool is not None
    if run.x is None or problem.size * problem.similarity.size > _LARGEST_FILL or problem.size == problem.n:
        return
    run.spend(2 * problem.size * problem.similarity.size)
    chosen, outside = np.flatnonzero(run.x), np.flatnonzero(run.x == 0)
    candidates = problem.similarity[:, outside]
    values = np.empty((chosen.size, outside.size))
    for k, client in enumerate(chosen.tolist()):
        others = chosen[chosen != client]
        served = problem.similarity[:, others].max(axis=1) if others.size else np.full(len(candidates), -np.inf)
        values[k] = np.maximum(candidates, served[:, None]).sum(axis=0, dtype=np.float64)
        values[k] -= problem.costs[others].sum() + problem.costs[outside]
    if problem.is_constrained:
        values[~problem.feasible.swaps(run.x, chosen, outside)] = -np.inf
    x = run.x.copy()

    def swapped(place: int) -> NDArray[np.int64]:
        other = x.copy()
        other[chosen[place // outside.size]], other[outside[place % outside.size]] = 0, 1
        return other

    best = np.argsort(-values, axis=None, kind="stable")[: 2 * run.pool.request.size]
    best = best[np.isfinite(values.flat[best])]
    offer_best(run, values.flat[best], lambda place: swapped(int(best[place])))


#: Entries of a similarity matrix that the linear models accept, of a variable and a row each.
_LARGEST_MODEL = 250_000


def _is_small(problem: CoverageProblem) -> str | None:
    if problem.similarity.size <= _LARGEST_MODEL:
        return None
    rows = problem.similarity.shape[0]
    return (
        f"the linear model has a variable for each entry of a similarity matrix, here {rows} × {problem.n}; at most "
        f"{_LARGEST_MODEL} are accepted (use 'branch-and-bound')"
    )


#: HiGHS calls a row satisfied and a value whole within 1e-6; its bounds are widened by this share of what it adds up.
_TOLERANCE = 4e-6


@method(CoverageProblem, "milp", kind="exact", accepts=_is_small, constraints=True)
def milp(problem: CoverageProblem, run: Run) -> None:
    """State the p-median with assignments, x ≤ y, in HiGHS.

    Its bound is widened by 4e-6 of what the spreads of the rows and the largest costs add up to.
    """
    with run.loading():
        from scipy import optimize, sparse

    _begin(problem, run, sweeps=1)
    rows, n = problem.similarity.shape
    least, largest = problem.extremes
    run.tighten(problem.reach[1], problem.rounding)
    unit = float((largest - least).sum()) + problem.largest_cost or 1.0
    with run.building():
        worth = (problem.similarity.astype(np.float64) - least[:, None]) / unit
        served = sparse.hstack([sparse.kron(sparse.eye_array(rows), np.ones((1, n))), sparse.coo_array((rows, n))])
        opened = sparse.kron(np.ones((rows, 1)), -sparse.eye_array(n))
        linked = sparse.hstack([sparse.eye_array(rows * n), opened])
        stated = [row.scaled() for row in problem.feasible.rows()]
        none = sparse.coo_array((len(stated), rows * n))
        kept = sparse.hstack([none, np.array([row.coefficients for row in stated])])
    limit = {"time_limit": max(run.remaining, 0.01)} if math.isfinite(run.remaining) else {}
    answer = optimize.milp(
        np.concatenate([-worth.ravel(), problem.costs / unit]),
        integrality=np.concatenate([np.zeros(rows * n), np.ones(n)]),
        bounds=optimize.Bounds(0.0, 1.0),
        constraints=[
            optimize.LinearConstraint(served.tocsr(), -np.inf, 1.0),
            optimize.LinearConstraint(linked.tocsr(), -np.inf, 0.0),
            optimize.LinearConstraint(kept.tocsr(), [row.low for row in stated], [row.high for row in stated]),
        ],
        options={"mip_rel_gap": max(1e-9, (run.gap or 0.0) / 2), **limit},
    )
    run.message = str(answer.message)
    run.nodes = int(getattr(answer, "mip_node_count", 0) or 0)
    if (bound := getattr(answer, "mip_dual_bound", None)) is not None:
        value, error = -float(bound) * unit + float(least.sum()), _TOLERANCE * unit + problem.rounding
        run.tighten(value, error, is_claimed=True)
    if answer.x is not None:
        offer_answer(problem, run, from_clients(np.argsort(-answer.x[rows * n :], kind="stable")[: problem.size], n))
    elif answer.status == 2 and problem.is_constrained:
        run.infeasible()


#: What the sum over the rows of the largest differences, and the largest costs, is scaled to for CP-SAT.
_UNITS = 2.0**46


@method(CoverageProblem, "cp-sat", kind="exact", accepts=_is_small, constraints=True)
def cp_sat(problem: CoverageProblem, run: Run, *, threads: Annotated[int, AtLeast(1)] = 1) -> None:
    """State the p-median with assignments in CP-SAT, similarities scaled and rounded up so that its bound holds.

    Parameters
    ----------
    threads : int
        Threads of the solver.
    """
    with run.loading():
        from ortools.sat.python import cp_model

    _begin(problem, run, sweeps=1)
    least, largest = problem.extremes
    spread = float((largest - least).sum()) + problem.largest_cost
    factor = _UNITS / spread if spread > 0 else 1.0
    worth = np.ceil((problem.similarity.astype(np.float64) - least[:, None]) * factor * (1 + 4 * _EPS))
    with run.building():
        model = cp_model.CpModel()
        chosen = stated_choice(problem.feasible, model)
        terms, weights = [], []
        for row in worth.astype(np.int64).tolist():
            gains = [(j, value) for j, value in enumerate(row) if value > 0]
            served = [model.new_bool_var("") for _ in gains]
            for variable, (j, _) in zip(served, gains, strict=True):
                model.add_implication(variable, chosen[j])
            if served:
                model.add_at_most_one(served)
            terms += served
            weights += [value for _, value in gains]
            if run.expired:
                return
        terms += chosen
        weights += np.ceil(factor * (4 * _EPS * np.abs(problem.costs) - problem.costs)).astype(np.int64).tolist()
        model.maximize(cp_model.LinearExpr.weighted_sum(terms, weights))

    def widened(value: float) -> float:
        return value / factor * (1 + (4 if value > 0 else -4) * _EPS) + float(least.sum()) + problem.rounding

    solver = solver_for(run, threads)
    status = run_cp_sat(run, solver, model, follower(run, solver, chosen, widened))
    run.nodes = solver.num_branches
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        offer_answer(problem, run, np.array([int(solver.value(variable)) for variable in chosen]))
        run.tighten(widened(solver.best_objective_bound), is_claimed=True)
    elif status == cp_model.INFEASIBLE and problem.is_constrained:
        run.infeasible()
    cut_short(run, model, status)


@method(CoverageProblem, "brute-force", kind="exact", constraints=True, pool=True, work=True)
def brute_force(problem: CoverageProblem, run: Run) -> None:
    """Evaluate every selection.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million.
    """
    if isinstance(run.pool, DiverseIncumbents):
        solve_diverse(problem, run, run.pool, run.method)
        return
    similarity, best = problem.similarity.astype(np.float64), -math.inf
    at_once = max(1, 4 * _BLOCK // (similarity.shape[0] * problem.size))
    run.nodes = 0
    for clients in problem.selection_blocks(at_once):
        values = similarity[:, clients].max(axis=2).sum(axis=0) - problem.costs[clients].sum(axis=1)
        if run.pool is not None:
            offer_best(run, values, partial(from_row, clients, problem.n))
        top = int(values.argmax())
        if values[top] > best:
            best = float(values[top])
            run.offer(from_clients(clients[top], problem.n))
        run.nodes += len(clients)
        run.spend(clients.size * len(similarity))
        if run.expired:
            return
    if run.pool is not None:
        run.pool.tighten(run.pool.cutoff)
        conclude_pool(run)
        return
    if run.x is None:
        run.infeasible()
        return
    run.tighten(best, problem.rounding)


@method(CoverageProblem, "auto", kind="exact", constraints=True, pool=True, work=True)
def auto(problem: CoverageProblem, run: Run) -> None:
    """``branch-and-bound``, which begins with the greedy selection and swaps."""
    branch_and_bound(problem, run)
