"""Methods for schedule problems: exchanges level by level, minimum-cost flow, and rules that know less ahead."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Annotated

import numpy as np

from solvers.errors import InvalidProblem
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run
from solvers.schedule.problem import DiverseScheduleProblem, ScheduleProblem
from solvers.schedule.residual import even_out, round_by_round


@method(ScheduleProblem, "round-by-round", kind="heuristic")
def selected_round_by_round(problem: ScheduleProblem, run: Run) -> None:
    """Select those of the fewest turns so far, as a fair selector that does not know the future; ties at random."""
    run.offer(round_by_round(problem.available, problem.sizes, problem.counts, run.rng))


@method(ScheduleProblem, "rolling", kind="heuristic")
def rolling(problem: ScheduleProblem, run: Run, *, horizon: Annotated[int, AtLeast(1)] = 10) -> None:
    """Know the availability of some rounds ahead: plan these exactly, select as planned for one, and plan anew.

    Parameters
    ----------
    horizon : int
        Rounds known, the present one with them; 1 is ``round-by-round``.
    """
    counts, rows = problem.counts.copy(), []
    for t in range(len(problem.available)):
        ahead = problem.available[t : t + horizon]
        plan = round_by_round(ahead, problem.sizes[t : t + horizon], counts, run.rng)
        if not run.expired:
            even_out(ahead, counts, run, plan)
        rows.append(plan[0])
        counts = counts + plan[0]
    run.offer(np.array(rows))


@method(ScheduleProblem, "exchanges", kind="exact", work=True)
def exchanges(problem: ScheduleProblem, run: Run) -> None:
    """Even out the counts of ``round-by-round``, or of a start, along paths of exchanges, from the highest count down.

    Where no path of the residual graph leads from a client to one with two or more turns fewer, there is no negative
    cycle, and the schedule is optimal.
    """
    run.tighten(problem.bound())
    if run.x is None:
        run.offer(round_by_round(problem.available, problem.sizes, problem.counts, run.rng))
    assert run.x is not None
    if run.proved:
        return
    table = run.x.copy()
    finished = even_out(problem.available, problem.counts, run, table)
    run.offer(table)
    if finished:
        run.tighten(problem.variance(problem.turns(table)))


@method(ScheduleProblem, "min-cost-flow", kind="exact", requires="ortools")
def min_cost_flow(problem: ScheduleProblem, run: Run) -> None:
    """State the convex-cost flow to OR-Tools, with an arc of cost 2v + 1 for the turn after v: exact in whole numbers.

    The solver cannot be stopped. A time limit that is over before its model is built leaves ``round-by-round``'s
    schedule.
    """
    with run.loading():
        from ortools.graph.python import min_cost_flow as flows

    run.tighten(problem.bound())
    run.offer(round_by_round(problem.available, problem.sizes, problem.counts, run.rng))
    if run.expired or run.proved:
        return
    rounds, n = problem.available.shape
    with run.building():
        flow = flows.SimpleMinCostFlow()
        when, who = np.nonzero(problem.available)
        ones = np.ones(when.size, dtype=np.int64)
        turns = flow.add_arcs_with_capacity_and_unit_cost(when, rounds + who, ones, 0 * ones)
        most = problem.available.sum(axis=0)
        clients = np.repeat(np.arange(n), most)
        nth = np.arange(clients.size) - np.repeat(np.cumsum(most) - most, most)
        cost = 2 * (problem.counts - problem.counts.min())[clients] + 2 * nth + 1
        flow.add_arcs_with_capacity_and_unit_cost(
            rounds + clients, np.full(clients.size, rounds + n), np.ones(clients.size, dtype=np.int64), cost
        )
        flow.set_nodes_supplies(np.arange(rounds), problem.sizes)
        flow.set_node_supply(rounds + n, -int(problem.sizes.sum()))
    status = flow.solve()
    run.message = f"min-cost-flow: {status.name}"
    if status != flow.OPTIMAL:
        run.stop("error", run.message)
        return
    table = np.zeros_like(problem.available)
    table[when, who] = flow.flows(turns) > 0
    run.offer(table)
    run.tighten(problem.variance(problem.turns(table)), is_claimed=True)


#: Selections of a round that brute force goes through between two looks at the clock.
_BETWEEN_LOOKS = 1_000

#: Work of a selection beside counts, in Python. 2026-11-24.
_SELECTION_WORK = 500

#: Count vectors that brute force goes on from; and 50 times as many that it looks at in a round.
_LARGEST_ENUMERATION = 200_000


@method(DiverseScheduleProblem, "brute-force", kind="exact")
@method(ScheduleProblem, "brute-force", kind="exact", work=True)
def brute_force(problem: ScheduleProblem | DiverseScheduleProblem, run: Run) -> None:
    """Enumerate all counts that can be reached, round by round.

    Of the schedules that reach the same counts the one that is worth most is kept.

    Raises
    ------
    InvalidProblem
        When there are more than 200 000 before a round, or more than ten million with each selection of the round.
    """
    Rows = tuple[tuple[int, ...], ...]
    reached: dict[tuple[int, ...], tuple[float, Rows]] = {tuple(problem.counts.tolist()): (0.0, ())}
    clients = np.arange(problem.n)
    for there, size in zip(problem.available, problem.sizes.tolist(), strict=True):
        ids = np.flatnonzero(there).tolist()
        if len(reached) * math.comb(len(ids), size) > 50 * _LARGEST_ENUMERATION or len(reached) > _LARGEST_ENUMERATION:
            raise InvalidProblem(
                f"brute-force would look at more than {_LARGEST_ENUMERATION} vectors of counts before a round, or at "
                f"more than {50 * _LARGEST_ENUMERATION} in it (use 'auto')"
            )
        selections = []
        for chosen in itertools.combinations(ids, size):
            if run.expired:
                return
            selections.append((chosen, problem.worth(np.isin(clients, chosen))))
        further: dict[tuple[int, ...], tuple[float, Rows]] = {}
        for counts, (before, rows) in reached.items():
            for number, (chosen, worth) in enumerate(selections):
                run.spend(_SELECTION_WORK)
                if number % _BETWEEN_LOOKS == 0 and run.expired:
                    return
                after = list(counts)
                for k in chosen:
                    after[k] += 1
                key = tuple(after)
                if key not in further or before + worth > further[key][0]:
                    further[key] = (before + worth, (*rows, chosen))
        reached = further
    run.nodes, best = len(reached), None
    for counts, (worth, rows) in reached.items():
        if run.expired:
            return
        value = problem.variance(np.array(counts)) - Fraction(worth)
        if best is None or value < best[0]:
            best = (value, rows)
    assert best is not None
    table = np.zeros_like(problem.available)
    for t, chosen in enumerate(best[1]):
        table[t, list(chosen)] = True
    run.offer(table)
    # The counts are exact, and so is a schedule of counts alone; distances are summed with rounding.
    run.tighten(best[0], problem.rounding_at(float(best[0])))


@method(ScheduleProblem, "auto", kind="exact", work=True)
def auto(problem: ScheduleProblem, run: Run) -> None:
    """``exchanges``: exact and fast at every size."""
    exchanges(problem, run)
