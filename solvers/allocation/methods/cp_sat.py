"""Method ``cp-sat``: whole clients as an integer program over supporting lines of the costs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.allocation.methods.largest_remainder import largest_remainder
from solvers.allocation.problem import AllocationProblem
from solvers.allocation.whole import accepts_whole_start
from solvers.cp_sat import cut_short, solver_for
from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["LARGEST", "cp_sat"]

#: Values of all cost tables together that are looked at, at most.
LARGEST = 20_000_000

#: What the largest sum of costs is scaled to.
UNITS = 2.0**46


@method(AllocationProblem, "cp-sat", kind="exact")
def cp_sat(problem: AllocationProblem, run: Run, *, threads: int = 1) -> None:  # noqa: C901
    """Minimise a sum of costs that lie above supporting lines, and add the lines that the answer violates; exact.

    The costs c_k (1/s − 1/N_k) are scaled to integers by one factor, so that their largest sum is 2^46, and rounded
    *down*. Every line has integer coefficients and is lowered until it lies below the whole table of its group, so that
    CP-SAT's bound, divided by the factor, holds for the real costs at every stage. Rounding loses about 2K / 2^46 of
    the largest sum. Lines next to the water-filling allocation come first; they are nearly always enough.

    Parameters
    ----------
    problem : AllocationProblem
        The problem.
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
    from ortools.sat.python import cp_model

    accepts_whole_start(problem, run)
    first = problem.first
    last = np.minimum(problem.upper, first + (problem.total - int(first.sum())))
    if (entries := int((last - first + 1).sum())) > LARGEST:
        raise InvalidProblem(f"cp-sat would tabulate {entries} costs; it accepts at most {LARGEST} (use 'greedy')")
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
            """The line through s and s + 1, lowered below the table."""
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
        status = solver.solve(model)
        run.message = f"cp-sat: {solver.status_name(status)}, {len(lines)} lines"
        run.nodes = (run.nodes or 0) + solver.num_branches
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            bound = max(0.0, solver.best_objective_bound) / factor
            run.tighten(bound * (1.0 - margin))
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
