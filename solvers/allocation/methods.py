"""Methods for allocation problems: whole clients exactly, real allocations, and the roundings in use."""

from __future__ import annotations

import heapq
import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.allocation.problem import AllocationProblem, fill, round_up_largest
from solvers.backends import clarabel_point, cut_short, into_box, run_cp_sat, solver_for
from solvers.certificate_writers import certificate_writer, whole_numbers
from solvers.certificates import Certificate, problem_digest
from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run
from solvers.solution import Solution


def allocate_whole(
    costs: NDArray[np.float64],
    total: int,
    first: NDArray[np.int64],
    upper: NDArray[np.int64],
    *,
    by_heap: int = 256,
) -> NDArray[np.int64]:
    r"""Minimise :math:`\sum_k c_k / s_k` over whole :math:`\text{first} \le s \le \text{upper}` that sum to ``total``.

    Adding the next client to group k gains :math:`c_k / (s(s + 1))`, less each time, so the ``total − Σ first``
    largest gains of all groups together are a feasible choice and the best one (Fox 1966; Wright 2012, 2017). Ties go
    to the lowest index.

    Parameters
    ----------
    costs : (K,) ndarray
        c > 0.
    total : int
        Wanted sum, between those of the bounds.
    first, upper : (K,) ndarray of int
        Bounds, 1 ≤ first ≤ upper.
    by_heap : int
        Clients handed out one by one at the end; more than so many are first narrowed down by the threshold.

    Returns
    -------
    (K,) ndarray of int
        An optimal allocation.
    """
    a = np.sqrt(costs)
    s = first.copy()
    if total - int(s.sum()) > by_heap:
        _, level = fill(a, float(total), first.astype(np.float64), upper.astype(np.float64))
        low, high = 0.0, level
        while int(_above(high, a, first, upper).sum()) < total:
            low, high = high, 2.0 * high
        for _ in range(100):
            middle = (low + high) / 2
            missing = total - int(_above(middle, a, first, upper).sum())
            low, high = (middle, high) if missing >= 0 else (low, middle)
            if 0 <= missing <= by_heap or not low < (low + high) / 2 < high:
                break
        s = _above(low, a, first, upper)
    heap = [(-gain, k) for k, gain in enumerate(next_gain(costs, s, upper).tolist()) if gain > 0]
    heapq.heapify(heap)
    for _ in range(total - int(s.sum())):
        k = heap[0][1]
        s[k] += 1
        if s[k] < upper[k]:
            held = float(s[k])
            heapq.heapreplace(heap, (-float(costs[k]) / (held * (held + 1.0)), k))
        else:
            heapq.heappop(heap)
    return s


def _above(
    level: float, a: NDArray[np.float64], first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the allocation that takes every gain above the threshold 1/level²; a trifle short, never one too many."""
    with np.errstate(over="ignore"):
        count = np.floor((np.sqrt(1.0 + 4.0 * (level * a) ** 2) - 1.0) / 2.0 * (1.0 - 1e-12)) + 1.0
    return np.clip(count, first, upper).astype(np.int64)


def next_gain(costs: NDArray[np.float64], s: NDArray[np.int64], upper: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the gain of one more client for each group, c / (s (s + 1)); 0 where there is none."""
    held = np.maximum(s, 1).astype(np.float64)
    return np.where(s < upper, costs / (held * (held + 1.0)), 0.0)


def best_whole(problem: AllocationProblem, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the best allocation for ``costs``; groups where they are 0 share the rest in proportion to their sizes.

    These groups stay at their lower bound while others have room.
    """
    s = problem.first.copy()
    counts = costs > 0
    idle = ~counts & (problem.upper > 0)
    wanted = min(problem.total - int(s[idle].sum()), int(problem.upper[counts].sum()))
    for group, weights, budget in (
        (counts, costs, wanted),
        (idle, (problem.sizes / problem.sizes.max()) ** 2, problem.total - wanted),
    ):
        if group.any():
            s[group] = _spread(weights[group], budget, s[group], problem.upper[group])
    return s


def _spread(
    costs: NDArray[np.float64], total: int, first: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`allocate_whole` where ``first`` may be 0: a first client gains infinitely, so it comes before any second one."""
    start = np.maximum(first, 1)
    if total >= int(start.sum()):
        return allocate_whole(costs, total, start, upper)
    order = np.argsort(np.where(first == 0, -costs, np.inf), kind="stable")
    s = first.copy()
    s[order[: total - int(first.sum())]] += 1
    return s


def accepts_whole_start(problem: AllocationProblem, run: Run) -> None:
    """Refuse a start in real numbers where the answer is to be in whole clients; take whole floats for integers."""
    if run.x is None:
        return
    if not problem.integral(run.x):
        raise InvalidOption(f"start must be in whole clients for {run.method!r}, as its answers are")
    run.x = run.x.astype(np.int64)
    run.x.setflags(write=False)


@method(AllocationProblem, "greedy", kind="exact")
def greedy(problem: AllocationProblem, run: Run) -> None:
    """Hand out clients by largest gain: exact in whole clients, in O(K log K) whatever the budget.

    It is proved by a price: no client left out gains more, and none handed out beyond the lower bounds gains less.
    """
    accepts_whole_start(problem, run)
    s = best_whole(problem, problem.costs)
    price = float(next_gain(problem.costs, s, problem.upper).max())
    run.offer(s)
    run.tighten(problem.integer_bound(price))
    run.duals = {"price": price}


@method(AllocationProblem, "kkt", kind="relaxation")
def kkt(problem: AllocationProblem, run: Run, *, rounded: bool = False) -> None:
    r"""Solve the KKT conditions: :math:`x_k = \mathrm{clip}(\tau N_k H_k, \ell_k, u_k)`, in O(K log K).

    Where no bound is active this is Neyman's allocation, the paper's closed form (19).

    Parameters
    ----------
    rounded : bool
        Return whole clients, rounded by largest remainder, with the same bound; ``raw`` then has the
        real allocation.
    """
    if rounded:
        accepts_whole_start(problem, run)
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


@method(AllocationProblem, "cvxpy", kind="relaxation")
def convex(problem: AllocationProblem, run: Run, *, rounded: bool = False) -> None:
    """State Eq. 20 with its bounds in CVXPY and solve it with Clarabel's second-order cones.

    The bound is the problem's own dual function at the solver's price: valid however inaccurate that is.

    Parameters
    ----------
    rounded : bool
        Return whole clients, rounded by largest remainder, with the same bound; ``raw`` then has the
        real allocation.
    """
    with run.loading():
        import cvxpy as cp

    if rounded:
        accepts_whole_start(problem, run)
    counts = problem.costs > 0
    if not counts.any():  # nothing to minimise: the convention for a tie of everything
        kkt(problem, run, rounded=rounded)
        return
    unit = float(problem.costs.max())
    with run.building():
        x = cp.Variable(problem.n)
        total = cp.sum(x) == problem.total
        cost = (problem.costs[counts] / unit) @ cp.inv_pos(x[counts])
        model = cp.Problem(cp.Minimize(cost), [total, x >= problem.lower, x <= problem.upper])
    point = clarabel_point(model, x, run, accuracy=1e-11)
    if point is None:
        return
    price = abs(float(np.asarray(total.dual_value))) * unit
    run.tighten(problem.relaxed_bound(price))
    # The point that the price implies is more accurate than the solver's own, unless the price is bad.
    box = (problem.lower, problem.upper, problem.total)
    found = into_box(point, *box)
    implied = into_box(np.where(counts, np.sqrt(problem.costs / max(price, 1e-300)), found), *box)
    better = problem.objective(found) < problem.objective(implied) - 1e-12 * problem.scale
    offer(problem, run, found if better else implied, price, rounded)


@method(AllocationProblem, "largest-remainder", kind="heuristic")
def largest_remainder(problem: AllocationProblem, run: Run) -> None:
    """Round the water-filling allocation down, then up where most was lost (Hamilton's rule).

    The obvious way to whole clients; not optimal for one small random problem in ten to fifty, by up to some per cent.
    """
    accepts_whole_start(problem, run)
    x, _ = problem.water_fill(problem.first)
    run.offer(round_up_largest(x, problem.total, problem.first, problem.upper))
    run.tighten(problem.relaxed_bound(problem.water_fill(problem.lower)[1]))


@method(AllocationProblem, "proportional", kind="heuristic")
def proportional(problem: AllocationProblem, run: Run) -> None:
    """Allot as if all deviations were equal (FedSS-P, S_k = S·N_k/N within the bounds), in whole clients.

    What ``greedy`` gives for equal deviations, so that no group present is left without a client where there is one for
    each. The bound beside it is that of the real deviations.
    """
    accepts_whole_start(problem, run)
    present = problem.upper > 0
    share = np.where(present, problem.sizes / problem.sizes[present].sum(), 0.0)
    run.offer(best_whole(problem, share**2))
    run.tighten(problem.relaxed_bound(problem.water_fill(problem.lower)[1]))


#: Numbers brute force is willing to look at: allocations times groups.
LARGEST_ENUMERATION = 20_000_000

#: Allocations that brute force looks at together: some milliseconds' work, after which it may be ended.
BLOCK = 50_000


@method(AllocationProblem, "brute-force", kind="exact")
def brute_force(problem: AllocationProblem, run: Run) -> None:
    """Evaluate every allocation in whole clients.

    Raises
    ------
    InvalidProblem
        When allocations times groups, or the clients to hand out beyond the lower bounds, exceed 20 million.
    """
    accepts_whole_start(problem, run)
    first, upper, n = problem.first, problem.upper, problem.n
    if (spare := problem.total - int(first.sum())) > LARGEST_ENUMERATION:
        raise InvalidProblem(
            f"brute-force hands out at most {LARGEST_ENUMERATION} clients beyond the lower bounds; here are {spare} "
            "(use 'greedy' or 'cp-sat')"
        )
    if _allocations(problem) * n > LARGEST_ENUMERATION:
        raise InvalidProblem(
            f"brute-force would look at more than {LARGEST_ENUMERATION // n} allocations over {n} groups, the most "
            "that it accepts (use 'greedy' or 'cp-sat')"
        )
    # Groups one by one: every prefix that the remaining groups can still complete to the total. In blocks, the first of
    # them first: the largest arrays would be a second's work that nothing can end.
    least, most = (np.append(each[::-1].cumsum()[::-1], 0) for each in (first, upper))
    blocks, found, looked = [np.zeros((1, 0), dtype=np.int64)], (np.inf, np.zeros(0, dtype=np.int64)), 0
    while blocks:
        if run.expired:
            return
        prefixes = blocks.pop()
        group = prefixes.shape[1]
        if group < n:
            choices = np.arange(first[group], upper[group] + 1)
            longer = np.hstack([np.repeat(prefixes, choices.size, axis=0), np.tile(choices, len(prefixes))[:, None]])
            left = problem.total - longer.sum(axis=1)
            longer = longer[(left >= least[group + 1]) & (left <= most[group + 1])]
            blocks += reversed(np.array_split(longer, -(-len(longer) // BLOCK))) if len(longer) else []
            continue
        values = np.zeros(len(prefixes))
        for k in np.flatnonzero(problem.costs > 0).tolist():
            values += problem.costs[k] * ((problem.sizes[k] - prefixes[:, k]) / problem.sizes[k] / prefixes[:, k])
        place, looked = int(values.argmin()), looked + len(prefixes)
        if values[place] < found[0]:
            found = float(values[place]), prefixes[place]
    best = run.offer(found[1])
    # All terms are non-negative, so each sum is right to K + 4 roundings.
    run.tighten(best, 2.0 * np.finfo(np.float64).eps * (n + 4) * best)
    run.nodes = looked


def _allocations(problem: AllocationProblem) -> int:
    """Count the allocations by dynamic programming over the sum; where they are too many, at least so many."""
    spare = problem.total - int(problem.first.sum())
    ways = [1] + [0] * spare
    # Another group leaves no fewer ways, as it may take nothing; wide ones first reach the sum soonest.
    for width in sorted((problem.upper - problem.first).tolist(), reverse=True):
        running, sums = 0, []
        for used in range(spare + 1):
            running += ways[used] - (ways[used - width - 1] if used > width else 0)
            sums.append(running)
        ways = sums
        if ways[spare] > LARGEST_ENUMERATION:
            break
    return ways[spare]


#: Values of all cost tables together that are looked at, at most.
LARGEST_TABLES = 20_000_000

#: What the largest sum of costs is scaled to.
UNITS = 2.0**46


@method(AllocationProblem, "cp-sat", kind="exact")
def cp_sat(problem: AllocationProblem, run: Run, *, threads: Annotated[int, AtLeast(1)] = 1) -> None:  # noqa: C901
    """Minimise a sum of costs that lie above supporting lines, and add the lines that the answer violates; exact.

    The costs c_k (1/s − 1/N_k) are scaled to integers by one factor, so that their largest sum is 2^46, and rounded
    *down*. Every line has integer coefficients and is lowered until it lies below the whole table of its group, so that
    CP-SAT's bound, divided by the factor, holds for the real costs at every stage. Rounding loses about 2K / 2^46 of
    the largest sum.

    Parameters
    ----------
    run : Run
        Clock and incumbent; at the time limit the incumbent comes back, or ``largest-remainder``'s answer where CP-SAT
        has none yet.
    threads : int
        Threads of the solver.

    Raises
    ------
    InvalidProblem
        When the tables have more than 20 million entries.
    """
    with run.loading():
        from ortools.sat.python import cp_model

    accepts_whole_start(problem, run)
    first = problem.first
    last = np.minimum(problem.upper, first + (problem.total - int(first.sum())))
    if (entries := int((last - first + 1).sum())) > LARGEST_TABLES:
        raise InvalidProblem(f"cp-sat would tabulate {entries} costs; it accepts {LARGEST_TABLES} (use 'greedy')")
    counted = np.flatnonzero(problem.costs > 0)
    largest = float(problem.terms(first).sum())
    factor = UNITS / largest if largest > 0 else 1.0

    def units(k: int, s: NDArray[np.int64] | int) -> NDArray[np.int64]:
        # One unit less than the floor: costs are below 2^46 units, so their rounding is far below one unit.
        cost = problem.costs[k] * ((problem.sizes[k] - np.asarray(s)) / problem.sizes[k] / s) * factor
        return np.maximum(np.floor(cost).astype(np.int64) - 1, 0)

    with run.building():
        model = cp_model.CpModel()
        clients = [model.new_int_var(int(a), int(b), "") for a, b in zip(first, last, strict=True)]
        model.add(cp_model.LinearExpr.sum(clients) == problem.total)
        cost = {k: model.new_int_var(0, int(units(k, int(first[k]))), "") for k in counted.tolist()}
        model.minimize(cp_model.LinearExpr.sum(list(cost.values())))
        lines: set[tuple[int, int]] = set()

        def add_line(k: int, s: int) -> None:
            """Add the line through s and s + 1, lowered below the table."""
            s = max(min(s, int(last[k]) - 1), int(first[k]))
            if (k, s) in lines:
                return
            lines.add((k, s))
            grid = np.arange(first[k], last[k] + 1)
            table = units(k, grid)
            slope = int(units(k, s + 1) - units(k, s)) if s < last[k] else 0
            model.add(cost[k] >= slope * clients[k] + int((table - slope * grid).min()))

        near = np.floor(problem.water_fill(first)[0]).astype(np.int64)
        for k in cost:
            for s in range(int(near[k]) - 1, int(near[k]) + 2):
                add_line(k, s)
            if run.expired:
                break
    margin = 4.0 * np.finfo(np.float64).eps * (math.log2(problem.n + 1) + 4.0)
    while not run.expired:
        solver = solver_for(run, threads)
        status = run_cp_sat(run, solver, model)
        run.message = f"cp-sat: {solver.status_name(status)}, {len(lines)} lines"
        run.nodes = (run.nodes or 0) + solver.num_branches
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            bound = max(0.0, solver.best_objective_bound) / factor
            run.tighten(bound, margin * bound, is_claimed=True)
        ended = cut_short(run, model, status)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            break
        allocation = np.array([solver.value(variable) for variable in clients], dtype=np.int64)
        run.offer(allocation)
        if ended:
            break
        known = len(lines)
        for k, variable in cost.items():
            here = int(allocation[k])
            if solver.value(variable) < int(units(k, here)) - 2:
                add_line(k, here)
                add_line(k, here - 1)
        if len(lines) == known:
            break
    if run.x is None:
        largest_remainder(problem, run)


@method(AllocationProblem, "auto", kind="exact")
def auto(problem: AllocationProblem, run: Run) -> None:
    """``greedy``: whole clients, exact and fast at every size."""
    greedy(problem, run)


@certificate_writer(AllocationProblem)
def write_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The price between what the next client gains and the last one gained; a real allocation's price for real ones."""
    problem, x = solution.problem, solution.x
    assert isinstance(problem, AllocationProblem)
    assert solution.bound is not None
    if x is None:
        return None
    whole = x.dtype.kind in "iu"
    if whole:
        gain = problem.costs / np.maximum(x * (x + 1.0), 0.5)  # who has nobody costs nothing, or is absent
        loss = problem.costs / np.maximum(x * (x - 1.0), 0.5)
        least = float(gain[x < problem.upper].max(initial=0.0))
        most = float(loss[x > np.maximum(problem.first, 1)].min(initial=np.inf))
        price = least if not np.isfinite(most) else 0.5 * (least + most)
    else:
        price = problem.water_fill(problem.first)[1]
    grid, (number,) = whole_numbers([price])
    arrays = {"price": np.array([number]), "whole": np.array([int(whole)])}
    return Certificate("allocation", problem_digest(problem), float(solution.bound), grid, arrays)
