"""Methods for problems between points: the clients nearest to the threshold as a small problem with a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.constrained_set import ConstrainedSelections
from solvers.dispersion.geometry import OutOfTime, potentials
from solvers.dispersion.methods.auto import auto
from solvers.dispersion.methods.constrained_points import (
    first_selection,
    incumbent_value,
    search_in_constraints,
    solve_by_prices,
    stored,
)
from solvers.dispersion.methods.exact import branch_and_bound as branch_and_bound_with_matrix
from solvers.dispersion.methods.tabu import tabu as tabu_with_matrix
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.prelude import dispersion_method, single_threaded_blas
from solvers.dispersion.problem import DispersionProblem, PointDispersionProblem
from solvers.dispersion.relaxations.points import PointRelaxation, ReducedProblem
from solvers.dispersion.subproblem import SubproblemRun, as_matrix
from solvers.feasible_set import FREE
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run


def candidates(problem: PointDispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY) -> NDArray[np.intp]:
    """The clients that gain most beside a sample of the others: enough of them to choose from."""
    n, m = problem.n, problem.size
    number = max(4 * m, policy.candidates)
    if number >= n:
        return np.arange(n)
    sample = np.sort(np.random.default_rng(run.seed).choice(n, size=min(n, policy.point_sample), replace=False))
    sums = problem.geometry.potentials(sample, np.ones(sample.size), run)
    promise = 2 * problem.weight * (m - 1) / sample.size * sums - problem.costs
    return np.sort(np.argpartition(-promise, number)[:number])


def greedy_decision(problem: PointDispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY) -> NDArray[np.int64]:
    """Add the clients of largest marginal gain in up to 512 batches until ``size`` are chosen.

    Where a batch is one client, ties go to the lowest place.
    """
    some = candidates(problem, run, policy)
    c = np.ascontiguousarray(problem.geometry.coordinates[:, some])
    g = -problem.costs[some]
    x = np.zeros(problem.n, dtype=np.int64)
    left, batch = problem.size, -(-problem.size // policy.greedy_batches)
    while left > 0:
        count = min(batch, left)
        chosen = np.argpartition(-g, count - 1)[:count] if count > 1 else np.array([g.argmax()])
        x[some[chosen]] = 1
        left -= count
        if left > 0:
            centres = np.ascontiguousarray(c[:, chosen])
            g += 2 * problem.weight * potentials(c, centres, np.ones(count), run)
            g[chosen] = -np.inf
    return x


#: Makes decisions of a small problem better, through its run.
Improvement = Callable[[DispersionProblem, SubproblemRun], None]


@contextmanager
def in_time(problem: PointDispersionProblem, run: Run) -> Iterator[None]:
    """End the ``with`` block when the clock runs out; the cheapest clients are the decision if there is no other."""
    try:
        yield
    except OutOfTime:
        if run.x is None:
            run.offer(problem.feasible.round(problem.linear))


def started(problem: PointDispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY) -> PointRelaxation:
    """The gradient at the run's decision or, where there is none, at the greedy one."""
    x = greedy_decision(problem, run, policy) if run.x is None else problem.decision(run.x)
    if problem.size <= policy.evaluated_at_once or run.is_limited:
        run.offer(x)
    return PointRelaxation(problem, run, x)


def improve(relaxation: PointRelaxation, run: Run, how: Improvement, number: int = DEFAULT_POLICY.nearest) -> bool:
    """Round the relaxation's point to a decision, and let ``how`` improve it; whether the run's decision got better."""
    rest = ReducedProblem(relaxation, relaxation.working(number))
    small = rest.dense()
    part = rest.run(small, run)
    known = run.objective
    part.offer(rest.start(relaxation.y, relaxation.g))
    how(small, part)
    part.hand_over()
    return known is None or run.objective > known  # type: ignore[operator]  # one was offered


def search(
    problem: PointDispersionProblem, run: Run, how: Improvement, rounds: int, number: int = DEFAULT_POLICY.nearest
) -> None:
    """Improve the run's decision by small problems until one brings nothing, or ``rounds`` are made."""
    relaxation = started(problem, run)
    for _ in range(rounds):
        if run.expired or not improve(relaxation, run, how, number):
            break
        assert run.x is not None
        relaxation.move(run.x.astype(np.float64))
    if run.x is None:
        run.offer(relaxation.y.astype(np.int64))


@method(PointDispersionProblem, "greedy", kind="heuristic", constraints=True)
def greedy(problem: PointDispersionProblem, run: Run) -> None:
    """Add the clients of largest marginal gain, of many clients among those far out only, in up to 512 batches.

    Under side constraints a point of the concave relaxation is rounded instead, after some steps of Frank-Wolfe.
    """
    with in_time(problem, run):
        run.offer((first_selection if problem.is_constrained else greedy_decision)(problem, run))


@method(PointDispersionProblem, "local-search", kind="heuristic", constraints=True)
def local_search(problem: PointDispersionProblem, run: Run, *, rounds: Annotated[int, AtLeast(0)] = 50) -> None:
    """Swap ascent from ``start`` or the greedy selection, some 600 clients at a time.

    Those whose marginal gain lies nearest to the threshold between chosen and not chosen are taken out as a small
    problem with a matrix, improved by swaps, and put back, until nothing changes.

    Parameters
    ----------
    rounds : int
        Small problems to improve, at most.
    """
    with in_time(problem, run):
        if problem.is_constrained:
            search_in_constraints(problem, run, rounds)
        else:
            search(problem, run, swaps, rounds)


def swaps(small: DispersionProblem, part: SubproblemRun) -> None:
    """Make the best swap until none improves."""
    assert part.x is not None
    part.offer(ascend(small, part.x.astype("int64"), part))


@method(PointDispersionProblem, "tabu", kind="heuristic", constraints=True)
def tabu(
    problem: PointDispersionProblem,
    run: Run,
    *,
    moves: Annotated[int, AtLeast(0)] = DEFAULT_POLICY.nearest_moves,
    rounds: Annotated[int, AtLeast(0)] = DEFAULT_POLICY.nearest_rounds,
) -> None:
    """Tabu search over swaps among the 600 clients nearest to the threshold, put back and taken out anew.

    Parameters
    ----------
    moves : int
        Swaps made in each small problem.
    rounds : int
        Small problems, at most; the search ends when one brings nothing.
    """

    def moved(small: DispersionProblem, part: SubproblemRun) -> None:
        tabu_with_matrix(small, part, moves=moves)

    with in_time(problem, run):
        if problem.is_constrained:
            search_in_constraints(problem, run, rounds, moves)
        else:
            search(problem, run, moved, rounds)


def moves_and_swaps(small: DispersionProblem, part: SubproblemRun) -> None:
    """Tabu search, as long as the method of this name does by default."""
    tabu_with_matrix(small, part, moves=DEFAULT_POLICY.nearest_moves)


@dispersion_method(PointDispersionProblem, "tangent", kind="relaxation", constraints=True)
def tangent(problem: PointDispersionProblem, run: Run, *, accuracy: Annotated[float, AtLeast(0)] = 1e-8) -> None:
    """Climb the concave relaxation by moving weight between pairs, and bound by the tangent there.

    Pairwise Frank-Wolfe from the selection that ``start`` or the greedy construction gives. Under side constraints rows
    have prices, which are changed while the bound falls.

    Parameters
    ----------
    accuracy : float
        Stop when the tangent is this close to the best one, relative to the problem's scale; without side constraints.
    """
    with in_time(problem, run):
        if problem.is_constrained:
            if run.x is None:
                run.offer(first_selection(problem, run))
            solve_by_prices(problem, run)
        else:
            relaxed(problem, run, accuracy)


def relaxed(
    problem: PointDispersionProblem,
    run: Run,
    accuracy: float = 1e-8,
    rounds: int = 100,
    policy: Policy = DEFAULT_POLICY,
) -> PointRelaxation:
    """Solve the relaxation to an accuracy, tightening the run's bound, and round it."""
    relaxation = started(problem, run, policy)
    least = accuracy * problem.scale
    for _ in range(rounds):
        gap = relaxation.climb()
        run.tighten(relaxation.bound())
        if run.proved or run.expired or gap <= least:
            break
    if relaxation.error * problem.size > 1e-9 * problem.scale:
        relaxation.refresh()
        run.tighten(relaxation.bound())
    improve(relaxation, run, swaps, policy.nearest)  # also where the bound is close enough: it costs little
    return relaxation


@dispersion_method(PointDispersionProblem, "branch-and-bound", kind="exact", constraints=True, work=True)
def branch_and_bound(
    problem: PointDispersionProblem,
    run: Run,
    *,
    largest: Annotated[int, AtLeast(0)] | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    r"""Prove optimality: swaps, Frank-Wolfe, tangent bound, reduced costs; then a tree over the few that are left.

    The objective is concave on the slice without a shift, so the bound at the relaxation's optimum is tight where there
    are many clients, and reduced costs often fix all but some tens or hundreds of them. Those are mostly a
    `DispersionProblem`, solved by its own ``branch-and-bound``, or its ``auto`` where few of many are chosen; the fixed
    ones enter its costs. Follows Spiers, Bui
    and Loxton (EJOR 311(2), 2023), who put the same tangents into a mixed-integer solver. Under side constraints
    rows have prices at the relaxation, and the small problem has what the fixed clients leave of them.

    Parameters
    ----------
    largest : int
        Clients that the tree takes over, at most, and a third of those that the level-1 RLT bound does, where few of
        many are chosen; with more left there is only a bound, unless enough are fixed to begin anew with the others. By
        default as the policy says.
    policy : Policy
        What is decided by, for experiments.
    """
    run.nodes = 0
    with in_time(problem, run):
        if problem.is_constrained:
            problem = stored(problem, run, policy)
            with run.phase("prices of rows"), single_threaded_blas(problem, policy.points_stored):
                relaxation = solve_by_prices(problem, run, policy)
            if not (run.proved or run.expired):
                with run.phase("swaps"):
                    search_in_constraints(problem, run, policy.nearest_rounds, policy=policy)
        else:
            with run.phase("concave relaxation"):
                relaxation = relaxed(problem, run, policy=policy)
        if not (run.proved or run.expired):
            finish(relaxation, run, policy.largest_tree if largest is None else largest, policy)


def finish(relaxation: PointRelaxation, run: Run, largest: int, policy: Policy) -> None:
    """Fix by reduced costs, and solve what is left."""
    problem, value = relaxation.problem, incumbent_value(run)
    places, is_constrained = relaxation.open_places(value), problem.is_constrained
    if is_constrained and (problem.constraints.states[places] != FREE).any():
        if problem.n <= largest:  # the point is not where clients are included or excluded
            as_matrix(problem, run, "branch-and-bound", policy=policy)
        return
    if places.size > largest and not is_constrained:
        while improve(relaxation, run, moves_and_swaps, policy.nearest_at_last) and not run.proved:
            value = incumbent_value(run)
            places = relaxation.open_places(value)
    rest = ReducedProblem(relaxation, places)
    left = rest.constraints() if is_constrained else None
    is_decided = rest.size in (0, places.size)
    if is_decided or (left is not None and ConstrainedSelections.of(left).contradiction() is not None):
        only = rest.whole(np.full(places.size, int(rest.size > 0)))
        if is_decided and problem.violation(only) == 0:
            value = max(value, run.offer(only))
        run.tighten(value + problem.rounding)
        return
    # Rows of the matrix say more of few among many than a tangent does.
    least = max(policy.rlt_ratio * rest.size, policy.few_clients)
    is_few = not is_constrained and least <= places.size <= min(policy.rlt_largest, 3 * largest)
    shrinks = not is_constrained and places.size <= policy.shrunk_points * problem.n
    if places.size > largest and not (is_few or shrinks):
        run.stop("iterations", f"{places.size} clients are left open by reduced costs; the tree takes {largest}")
        return
    is_small = is_few or places.size <= largest
    constraints = {} if left is None else left.arguments()
    small: DispersionProblem | PointDispersionProblem = rest.dense(**constraints) if is_small else rest.points()
    part = rest.run(small, run, value)
    if not is_constrained:
        assert run.x is not None
        part.offer(rest.start(run.x.astype(np.float64), relaxation.g))
    try:
        if isinstance(small, DispersionProblem):
            (auto if is_few else branch_and_bound_with_matrix)(small, part, policy=policy)
        else:
            branch_and_bound(small, part, largest=largest, policy=policy)
    finally:
        part.hand_over()
        if part.message:
            run.stop("iterations", part.message)
