"""Methods for deadline problems: Moore and Hodgson's, exact ones for values, and the published greedy rule."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from solvers.backends import cut_short, follower, run_cp_sat, solver_for
from solvers.deadline.chain import Chain, exchanged, multipliers, search, search_all, search_in_whole_numbers
from solvers.deadline.counting import branch_on_counts, on_a_line
from solvers.deadline.problem import DeadlineProblem
from solvers.deadline.theory import fedcs_order
from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import AtLeast
from solvers.problem import certified
from solvers.registry import method
from solvers.run import Run
from solvers.search.pool import DiverseIncumbents, conclude_pool, offer_best
from solvers.subsets import from_clients

_EPS = float(np.finfo(np.float64).eps)


def _needs_equal_values(problem: DeadlineProblem) -> str | None:
    if problem.is_uniform:
        return None
    return "moore-hodgson counts clients; these have different values (use 'branch-and-bound' or 'auto')"


@method(DeadlineProblem, "moore-hodgson", kind="exact", accepts=_needs_equal_values, work=True)
def moore_hodgson(problem: DeadlineProblem, run: Run) -> None:
    """Take clients by due date, and give up the longest upload where one is late: exact for equal values, O(n log n).

    Moore (1968), in Hodgson's form, read backwards from the deadline. A selection of k clients from the first j that
    takes the least time is kept for every j; no selection of more is in time.
    """
    by_length = np.argsort(problem.upload, kind="stable")
    ranks = np.empty(problem.n, dtype=np.int64)
    ranks[by_length] = -np.arange(problem.n)
    kept = _kept_in_floats(problem, by_length, ranks)
    if kept is None:
        kept = _kept_exactly(problem, by_length, ranks)
    run.spend(100 * problem.n)
    run.offer(from_clients(by_length[-np.array(kept, dtype=np.int64)], problem.n))
    run.tighten(len(kept) * Fraction(float(problem.worth[0])))


#: Comparisons that floating point may leave open before whole numbers take over; each costs a sum over all kept.
_OPEN = 20


def _kept_in_floats(
    problem: DeadlineProblem, by_length: NDArray[np.int64], ranks: NDArray[np.int64]
) -> list[int] | None:
    """Run Hodgson's loop in floating point; None where too many comparisons are closer than rounding.

    The running sum is off by at most ``slack``; where a comparison is closer, the exactly rounded sum decides.
    """
    sequence = np.array(problem.sequence, dtype=np.int64)
    uploads, rooms = problem.upload[sequence], problem.deadline - problem.ready[sequence]
    size = float(problem.upload.sum() + np.abs(problem.ready).max() + abs(problem.deadline))
    slack = 4.0 * (problem.n + 8) * _EPS * size
    lengths = (-problem.upload[by_length]).tolist()  # negative, so that giving one up adds it
    kept: list[int] = []  # ranks, negative: the longest comes first
    total, unsure = 0.0, 0
    rows = (ranks[sequence], uploads, rooms - slack, rooms + slack, problem.ready[sequence])
    for rank, upload, surely, surely_not, ready in zip(*(row.tolist() for row in rows), strict=True):
        later = total + upload
        fits = later <= surely
        if not fits and later <= surely_not:
            if (unsure := unsure + 1) > _OPEN:
                return None
            fits = math.fsum([*(-lengths[-each] for each in kept), upload, ready, -problem.deadline]) <= 0.0
        if fits:
            heapq.heappush(kept, rank)
            total = later
        else:
            total = later + lengths[-heapq.heappushpop(kept, rank)]
    return kept


def _kept_exactly(problem: DeadlineProblem, by_length: NDArray[np.int64], ranks: NDArray[np.int64]) -> list[int]:
    """Run Hodgson's loop in whole numbers."""
    ready, upload, deadline, _ = problem.whole
    rank, lengths = ranks.tolist(), [upload[k] for k in by_length.tolist()]
    kept: list[int] = []
    total = 0
    for k in problem.sequence:
        later = total + upload[k]
        if later <= deadline - ready[k]:
            heapq.heappush(kept, rank[k])
            total = later
        else:
            total = later - lengths[-heapq.heappushpop(kept, rank[k])]
    return kept


@method(DeadlineProblem, "greedy", kind="heuristic")
def greedy(problem: DeadlineProblem, run: Run) -> None:
    """Take the client of most value per unit of upload time that still fits, again and again; ties to the latest ready.

    For equal values that is the shortest upload first, which is optimal where times take at most 62 bits. For others it
    is not: a short upload may take the place of a longer one that is worth more.
    """
    chain = Chain.of(problem, "up")
    slack, chosen = chain.room.copy(), []
    # Of equal values by the times themselves: densities of different ones may round to the same number.
    for j in np.argsort(chain.upload if problem.is_uniform else -chain.density, kind="stable").tolist():
        left = slack[j:]
        if int(left.min()) >= chain.upload[j]:
            left -= chain.upload[j]
            chosen.append(int(chain.clients[j]))
    run.offer(from_clients(chosen, problem.n))


@method(DeadlineProblem, "fedcs", kind="heuristic")
def fedcs(problem: DeadlineProblem, run: Run, *, strict: bool = False) -> None:
    """Select as FedCS publishes it: the client that adds the least elapsed time, while the deadline holds.

    Values are not looked at; see `solvers.deadline.fedcs_order`.

    Parameters
    ----------
    strict : bool
        Ask for an end before the deadline, as the paper's pseudo-code does, not at it.
    """
    run.offer(from_clients(fedcs_order(problem, strict=strict), problem.n))


#: States kept by the passes of the search: few find a good selection, which fathoms the rest.
_WIDTHS = (200, 20_000, 4_000_000)


def _refuse_diverse(run: Run) -> None:
    if isinstance(run.pool, DiverseIncumbents):
        raise InvalidOption(
            "diverse is for problems that select a stated number of clients; a deadline problem does not"
        )


def _find_pool(problem: DeadlineProblem, run: Run) -> None:
    """Enumerate all selections that may be members of the run's pool; no pair of time and value dominates another."""
    assert run.pool is not None
    _refuse_diverse(run)
    chain = Chain.of(problem, "down")
    if not chain.is_exact:
        raise InvalidOption("pools need times of at most 62 bits in a common unit (use 'brute-force')")
    greedy(problem, run)
    if chain.clients.size:
        known = multipliers(chain)
        for width in _WIDTHS:
            run.pool.tighten(search_all(chain, known, problem, run, width))
            if run.expired or run.pool.result().is_complete:
                break
    else:
        run.pool.tighten(-math.inf)
    conclude_pool(run)


@method(DeadlineProblem, "branch-and-bound", kind="exact", pool=True, work=True)
def branch_and_bound(problem: DeadlineProblem, run: Run) -> None:
    r"""Enumerate by due date, with dominance and the bound of the relaxation in which uploads may be cut.

    Three passes keep 200, 20 000 and 4 million states. Where values follow times, what the first leaves open is
    branched on the numbers of clients (`solvers.deadline.counting`), exchanged to a local optimum, and tabulated where
    the table of ``dynamic-programme`` is small. Times are exact: where they take more than 62 bits, one search is over
    times rounded down, whose bound holds, one over times rounded up, whose selections are in time, and where that
    leaves a gap, one in whole numbers of any length, as long as there are few states.
    """
    if run.pool is not None:
        _find_pool(problem, run)
        return
    greedy(problem, run)
    chain = Chain.of(problem, "down")
    if not chain.clients.size:
        run.tighten(0.0)
        return
    known = multipliers(chain)
    run.tighten(float(known.ahead[0]), known.margin)
    within = chain if chain.is_exact else Chain.of(problem, "up")
    for width in _WIDTHS:
        _tighten(problem, run, search(chain, known, problem, run, width))
        if not chain.is_exact and not run.proved and not run.expired:
            search(within, multipliers(within), problem, run, width)
        if run.proved or run.expired:
            return
        if width == _WIDTHS[0] and not chain.is_exact:
            bound = search_in_whole_numbers(chain, known, problem, run)
            if bound is not None:
                _tighten(problem, run, bound)
                return
        if width == _WIDTHS[0] and (line := on_a_line(chain)) is not None:
            members, has_constant = line
            if has_constant:
                _tighten(problem, run, branch_on_counts(problem, run, chain, within, members))
            if not run.proved:
                _exchange(problem, run, within)
            if run.proved or run.expired:
                return
            if chain.is_exact and _table(problem)[1] * problem.n <= _QUICK_TABLE:
                dynamic_programme(problem, run)
                return
    many = f"more than {_WIDTHS[-1]} pairs of time and value do not dominate each other"
    long = "times take more than 62 bits, and states that differ by their rounding are too many to be told apart"
    run.stop("iterations", many if chain.is_exact else long)


def _tighten(problem: DeadlineProblem, run: Run, bound: float) -> None:
    """Give the run a bound, rounded down where values are whole."""
    run.tighten(math.floor(bound) if problem.has_whole_values else bound)


def _exchange(problem: DeadlineProblem, run: Run, within: Chain) -> None:
    """Improve the best selection and one of most clients by exchanges."""
    by_length = np.argsort(problem.upload, kind="stable")
    ranks = np.empty(problem.n, dtype=np.int64)
    ranks[by_length] = -np.arange(problem.n)
    most = by_length[-np.array(_kept_exactly(problem, by_length, ranks), dtype=np.int64)]
    assert run.x is not None
    for chosen in (np.flatnonzero(run.x), most):
        taken = np.isin(within.clients, chosen)
        if run.proved or run.expired or not within.fits(taken):
            continue
        run.offer(from_clients(within.clients[exchanged(within, taken, run)].tolist(), problem.n))
    rng = np.random.default_rng(run.seed)
    for _ in range(_KICKS):
        taken = np.isin(within.clients, np.flatnonzero(run.x))
        if run.proved or run.expired or taken.sum() < 2 or not within.fits(taken):
            return
        taken[rng.choice(np.flatnonzero(taken), size=2, replace=False)] = False
        run.offer(from_clients(within.clients[exchanged(within, taken, run)].tolist(), problem.n))


#: Restarts of the exchanges, from the incumbent without two clients: enough for ties of floats within the tolerance.
_KICKS = 20

#: Entries of a table that is filled in about a second.
_QUICK_TABLE = 400_000_000

#: Bits of the tables that a dynamic programme may keep: half a gigabyte.
_LARGEST_TABLE = 4_000_000_000


def _table(problem: DeadlineProblem) -> tuple[str, int]:
    """The smaller of the tables over times and, where these are whole, over values; and its columns."""
    ready, _, deadline, _ = problem.whole
    most = max((deadline - ready[k] for k in problem.sequence), default=0)
    by_value = int(problem.worth[problem.sequence].sum()) + 1 if problem.has_whole_values else 0
    if by_value and by_value <= most:
        return "value", by_value
    return "time", most + 1


def _needs_whole_numbers(problem: DeadlineProblem) -> str | None:
    if not Chain.of(problem).is_exact:
        return "dynamic-programme takes times of at most 62 bits in a common unit (use 'branch-and-bound')"
    over, columns = _table(problem)
    if columns * problem.n <= _LARGEST_TABLE:
        return None
    return (
        f"dynamic-programme would keep a table of {problem.n} clients by {columns:.3g} units of {over}; it accepts "
        f"{_LARGEST_TABLE} entries: state times, or values, in whole numbers of few digits (or use 'branch-and-bound')"
    )


@method(DeadlineProblem, "dynamic-programme", kind="exact", accepts=_needs_whole_numbers, work=True)
def dynamic_programme(problem: DeadlineProblem, run: Run) -> None:
    """Tabulate the most value for each time, or the least time for each value: pseudo-polynomial (Lawler, Moore 1969).

    Over times, or over values where these are whole: the smaller table is taken. It needs one bit for each client and
    unit, of which at most 4 000 000 000 are accepted, and some 20 bytes for each unit. Times must take at most 62 bits
    in a common unit.
    """
    over, columns = _table(problem)
    chain = Chain.of(problem)
    run.offer(np.zeros(problem.n, dtype=np.int64))
    by_time = over == "time"
    steps = chain.upload if by_time else chain.values.astype(np.int64)
    never = -math.inf if by_time else np.iinfo(np.int64).max // 2
    table = np.full(columns, never, dtype=np.float64 if by_time else np.int64)
    table[0] = 0
    taken: list[NDArray[np.uint8]] = []
    for j, step in enumerate(steps.tolist()):
        if run.expired:
            return
        run.spend(4 * columns)
        room = int(chain.room[j])
        last = min(room, columns - 1) if by_time else columns - 1
        with_it = table[: max(last + 1 - step, 0)] + (chain.values[j] if by_time else chain.upload[j])
        here = table[step : last + 1]
        better = with_it > here if by_time else (with_it < here) & (with_it <= room)
        np.copyto(here, with_it, where=better)
        mark = np.zeros(columns, dtype=bool)
        mark[step : last + 1] = better
        taken.append(np.packbits(mark))
    place = int(table.argmax()) if by_time else int(np.flatnonzero(table < never)[-1])
    best, chosen = float(table[place]) if by_time else float(place), []
    for j in range(chain.clients.size - 1, -1, -1):
        if taken[j][place >> 3] >> (7 - (place & 7)) & 1:
            chosen.append(int(chain.clients[j]))
            place -= int(steps[j])
    run.offer(from_clients(chosen, problem.n))
    run.nodes = columns * len(taken)
    run.tighten(best, _rounding_of_sums(problem, best))


def _rounding_of_sums(problem: DeadlineProblem, value: float) -> float:
    """Return the largest error of a sum of values near ``value``: n roundings, and none where they are whole."""
    return 0.0 if problem.has_whole_values else 2.0 * problem.n * _EPS * value


def _repaired(problem: DeadlineProblem, clients: Iterable[int]) -> NDArray[np.int64]:
    """Drop the least valuable where an upload is late: a solver's answer, made feasible exactly."""
    ready, upload, deadline, _ = problem.whole
    wanted, total = set(clients), 0
    kept: list[tuple[float, int]] = []
    for k in problem.sequence:
        if k in wanted:
            heapq.heappush(kept, (float(problem.worth[k]), k))
            total += upload[k]
            while total > deadline - ready[k]:
                total -= upload[heapq.heappop(kept)[1]]
    return from_clients([k for _, k in kept], problem.n)


#: Bits that the largest sum of values, and the longest time, are scaled to for CP-SAT.
_VALUE_BITS, _TIME_BITS = 46, 40


@method(DeadlineProblem, "cp-sat", kind="exact")
def cp_sat(problem: DeadlineProblem, run: Run, *, threads: Annotated[int, AtLeast(1)] = 1) -> None:
    """Nested knapsacks in CP-SAT, with the time after each client as an integer.

    Values that are not whole, or large, are scaled and rounded up, times of more than 40 bits rounded to a coarser unit
    that loses no selection: the bound holds for the problem as it is. An answer that such rounding let in is repaired
    by dropping the least valuable.

    Parameters
    ----------
    threads : int
        Threads of the solver.
    """
    with run.loading():
        from ortools.sat.python import cp_model

    greedy(problem, run)
    chain = Chain.of(problem, "down")
    coarser = max(0, int(chain.room.max(initial=0)).bit_length() - _TIME_BITS)
    times, rooms = chain.upload >> coarser, -(-chain.room >> coarser)
    whole = (chain.values == np.round(chain.values)).all() and float(chain.values.sum()) < 2.0**_VALUE_BITS
    # By a power of two, so that scaling is exact; a value that vanishes is one unit.
    shift = 0 if whole else _VALUE_BITS - math.frexp(problem.scale)[1]
    worth = np.maximum(np.ceil(np.ldexp(chain.values, shift)), chain.values > 0).astype(np.int64)
    with run.building():
        model = cp_model.CpModel()
        chosen = [model.new_bool_var("") for _ in range(problem.n)]
        before: Any = 0
        for j, k in enumerate(chain.clients.tolist()):
            after = model.new_int_var(0, int(rooms[j]), "")
            model.add(after == before + int(times[j]) * chosen[k])
            before = after
        for k in set(range(problem.n)) - set(chain.clients.tolist()):
            model.add(chosen[k] == 0)
        model.maximize(cp_model.LinearExpr.weighted_sum([chosen[k] for k in chain.clients.tolist()], worth.tolist()))
    solver = solver_for(run, threads)

    def widened(value: float) -> float:
        return certified(Fraction(value) / Fraction(2) ** shift, 0, "max") if math.isfinite(value) else value

    exact = chain.is_exact and not coarser
    status = run_cp_sat(run, solver, model, follower(run, solver, chosen, widened) if exact else None)
    run.nodes = solver.num_branches
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        run.offer(_repaired(problem, [k for k in chain.clients.tolist() if solver.value(chosen[k])]))
        run.tighten(widened(solver.best_objective_bound), is_claimed=True)
    cut_short(run, model, status)


#: HiGHS calls a row satisfied and a value whole within 1e-6; its bounds are widened by this share of the values.
_TOLERANCE = 4e-6


@method(DeadlineProblem, "milp", kind="exact")
def milp(problem: DeadlineProblem, run: Run) -> None:
    """Nested knapsacks in HiGHS, with the time after each client as a variable.

    HiGHS works with tolerances: its bound is widened by 4e-6 of the sum of the values, and an answer that is late by
    a rounding is repaired by dropping the least valuable.
    """
    with run.loading():
        from scipy import optimize, sparse

    greedy(problem, run)
    chain = Chain.of(problem, "down")
    n = chain.clients.size
    if n == 0:
        run.tighten(0.0)
        return
    with run.building():
        unit = float(chain.room.max()) or 1.0
        worth = float(chain.values.sum()) or 1.0
        step = sparse.eye_array(n) - sparse.eye_array(n, k=-1)
        rows = sparse.hstack([sparse.diags_array(-chain.upload / unit), step], format="csr")
    limit = {"time_limit": max(run.remaining, 0.01)} if math.isfinite(run.remaining) else {}
    answer = optimize.milp(
        np.concatenate([-chain.values / worth, np.zeros(n)]),
        integrality=np.concatenate([np.ones(n), np.zeros(n)]),
        bounds=optimize.Bounds(np.zeros(2 * n), np.concatenate([np.ones(n), chain.room / unit])),
        constraints=optimize.LinearConstraint(rows, 0.0, 0.0),
        options={"mip_rel_gap": max(1e-9, (run.gap or 0.0) / 2), **limit},
    )
    run.message = str(answer.message)
    run.nodes = int(getattr(answer, "mip_node_count", 0) or 0)
    if (bound := getattr(answer, "mip_dual_bound", None)) is not None:
        run.tighten(-float(bound) * worth, _TOLERANCE * worth, is_claimed=True)
    if answer.x is not None:
        run.offer(_repaired(problem, chain.clients[answer.x[:n] > 0.5].tolist()))


#: Work that a state of Python's own numbers counts as. 2026-11-24.
_STATE_WORK = 100

#: Clients that brute force is willing to enumerate the subsets of.
_LARGEST_ENUMERATION = 20


@method(DeadlineProblem, "brute-force", kind="exact", pool=True, work=True)
def brute_force(problem: DeadlineProblem, run: Run) -> None:
    """Enumerate all selections that are in time.

    Raises
    ------
    InvalidProblem
        When more than 20 clients meet the deadline alone.
    """
    _refuse_diverse(run)
    ready, upload, deadline, _ = problem.whole
    if len(problem.sequence) > _LARGEST_ENUMERATION:
        raise InvalidProblem(
            f"brute-force would look at all selections of {len(problem.sequence)} clients; it accepts at most "
            f"{_LARGEST_ENUMERATION} that meet the deadline alone (use 'auto')"
        )
    states: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, ())]
    for k in problem.sequence:
        room, step, value = deadline - ready[k] - upload[k], upload[k], float(problem.worth[k])
        states += [(time + step, worth + value, (*chosen, k)) for time, worth, chosen in states if time <= room]
        run.spend(_STATE_WORK * len(states))
        if run.expired:
            return
    run.nodes = len(states)
    if run.pool is not None:
        values = np.array([value for _, value, _ in states])
        raised = values + _rounding_of_sums(problem, float(values.max()))
        offer_best(run, raised, lambda place: from_clients(states[place][2], problem.n))
        run.pool.tighten(run.pool.cutoff)
        conclude_pool(run)
        return
    best = max(states, key=lambda state: state[1])
    run.offer(from_clients(best[2], problem.n))
    run.tighten(best[1], _rounding_of_sums(problem, best[1]))


@method(DeadlineProblem, "auto", kind="exact", pool=True, work=True)
def auto(problem: DeadlineProblem, run: Run) -> None:
    """``moore-hodgson`` where all clients are worth the same and no pool is wanted, else ``branch-and-bound``."""
    (moore_hodgson if problem.is_uniform and run.pool is None else branch_and_bound)(problem, run)
