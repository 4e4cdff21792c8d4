"""Method ``auto``: a list of stages, each of which applies to a problem or says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kinds import alike, repeated
from solvers.dispersion.line import Line, choose, line_of, too_large
from solvers.dispersion.memory import Memory
from solvers.dispersion.methods.constrained import note_prices, solve_constrained
from solvers.dispersion.methods.exact import brute_force, search_trees
from solvers.dispersion.methods.fixing import Fixing, close_rest, fix_by_counts, fix_by_products, fix_clients
from solvers.dispersion.methods.kinds import solve_by_kinds
from solvers.dispersion.methods.memetic import HybridSearch
from solvers.dispersion.methods.pools import solve_pool
from solvers.dispersion.methods.rlt import descend, sift, survivors
from solvers.dispersion.neighbourhood import ascend, incumbent
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.prelude import begin, dispersion_method, is_trivial, one_thread, solve_trivial
from solvers.dispersion.problem import (
    DispersionProblem,
    KindDispersionProblem,
    PointDispersionProblem,
    SelectionProblem,
)
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.relaxations.slice_form import ScaledProblem, units
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.dispersion.subproblem import SubproblemRun, as_matrix
from solvers.dispersion.tree.rlt_log import RltLog
from solvers.registry import find, method
from solvers.run import Run
from solvers.solution import relative_gap


@dataclass
class Work:
    """What the stages work on; a stage may leave fewer clients to the next one.

    Attributes
    ----------
    problem, run : SelectionProblem, Run
        The problem that was asked, and its run.
    policy : Policy
        What stages decide by.
    memory : Memory, optional
        Of earlier rounds over the same distances.
    threads : int
        For nodes with a doubly nonnegative bound.
    part, part_run : DispersionProblem, Run
        The problem over the clients that are left, and its run; at first the whole.
    types : KindDispersionProblem, optional
        The same problem between types of clients, once a stage has looked for them.
    line : Line, optional
        The line that the clients lie on.
    multipliers : RltLog, optional
        Those that have left clients out, where the search is written down.
    known : CoreMultipliers, optional
        Multipliers of all clients of the part, which the root of the DNN tree starts from.
    """

    problem: Any
    run: Run
    policy: Policy = DEFAULT_POLICY
    memory: Memory | None = None
    threads: int = 1
    types: KindDispersionProblem | None = None
    line: Line | None = None
    multipliers: RltLog | None = None
    known: CoreMultipliers | None = None

    def __post_init__(self) -> None:
        self.part, self.part_run = self.problem, self.run


@dataclass(frozen=True)
class Stage:
    """One thing that ``auto`` tries.

    Attributes
    ----------
    name : str
        What the log and docs/choose.md call it.
    when, does : str
        When it applies and what it does, as docs/choose.md says it; braces hold fields of `Policy`.
    applies : callable
        ``applies(work)`` is True, or a sentence that says why the stage does not apply.
    solve : callable
        ``solve(work)`` returns whether no stage is to follow.
    share : str
        Field of `Policy` with its part of the remaining time, for the table; ``solve`` keeps to it itself.
    """

    name: str
    when: str
    does: str
    applies: Callable[[Work], Literal[True] | str]
    solve: Callable[[Work], bool]
    share: str = ""

    def row(self, policy: Policy = DEFAULT_POLICY) -> tuple[str, str, str, str]:
        """Return its row of the table in docs/choose.md: name, when, what it does, share of the time."""
        when, does = (text.format_map(vars(policy)) for text in (self.when, self.does))
        return self.name, when, does, f"{getattr(policy, self.share):.0%}" if self.share else "the rest"


def _go_through(stages: tuple[Stage, ...], work: Work) -> None:
    """Try one stage after the other until the problem is solved or the time is over; log which do not apply."""
    problem, run = work.problem, work.run
    for stage in stages:
        reason = stage.applies(work)
        if reason is not True:
            run.log(f"auto: not {stage.name}, {reason}")
            continue
        run.log(f"auto: {stage.name}")
        if stage.solve(work) or run.proved or (run.expired and run.x is not None):
            break
    if run.x is None and not problem.is_constrained:
        begin(problem, run)  # however short the time was


# -- which stages apply ----------------------------------------------------------------------------------------------


def _is_enumerable(work: Work) -> Literal[True] | str:
    count = work.problem.feasible.count
    return count <= work.policy.enumerable or f"as there are more than {work.policy.enumerable} selections"


def _is_constrained(work: Work) -> Literal[True] | str:
    return work.problem.is_constrained or "as there are no side constraints"


def _needs_a_search(work: Work) -> Literal[True] | str:
    return not is_trivial(work.problem) or "as no search is needed"


def _comes_in_types(work: Work) -> Literal[True] | str:
    few = work.policy.few_clients
    if work.problem.n < few:
        return f"as it pays from {few} clients on"
    work.types = alike(work.problem, work.policy)
    each = work.policy.clients_per_kind
    return work.types is not None or f"as there are fewer than {each} clients of a type, on average"


def _lies_on_a_line(work: Work) -> Literal[True] | str:
    if work.problem.is_constrained:
        return "as the path keeps no side constraints"
    if is_trivial(work.problem):
        return "as no search is needed"
    if too_large(work.problem) is not None:
        return "as the table of paths would be too large"
    work.line = line_of(work.problem, work.run)
    return work.line is not None or "as the clients do not lie on one"


def _can_be_fixed(work: Work) -> Literal[True] | str:
    n, policy = work.problem.n, work.policy
    if n < policy.few_clients:
        return f"as it pays from {policy.few_clients} clients on"
    if is_trivial(work.problem):
        return "as no search is needed"
    if work.run.recording and n > policy.fixing_ratio * work.problem.size:
        return "as a certificate is wanted, and the level-1 RLT bound is written down as it goes"
    largest = policy.fixing_certified if work.run.recording else policy.fixing_largest
    return n <= largest or f"as it, or its certificate, takes too long for more than {largest} clients"


def _is_for_trees(work: Work) -> Literal[True] | str:
    n, policy = work.problem.n, work.policy
    if not policy.few_clients <= n <= policy.largest_tree:
        return f"as it is for {policy.few_clients} to {policy.largest_tree} clients"
    return _needs_a_search(work)


def _is_soon_searched(work: Work) -> Literal[True] | str:
    reason = _is_for_trees(work)
    if reason is not True:
        return reason
    return work.problem.n < work.policy.rlt_ratio * work.problem.size or "as few of many are chosen"


def _is_shifted(work: Work) -> Literal[True] | str:
    reason = _is_for_trees(work)
    if reason is not True:
        return reason
    return work.problem.n >= work.policy.rlt_ratio * work.problem.size or "as the short search begins with it"


def _has_products(work: Work) -> Literal[True] | str:
    n, m, policy = work.problem.n, work.problem.size, work.policy
    reason = _can_be_fixed(work)
    if reason is not True:
        return reason
    if n > policy.fixing_ratio * m:
        return f"as {m} of {n} are chosen, fewer than one of {policy.fixing_ratio}"
    few = policy.fixing_few
    return work.part.n > few or f"as no more than {few} clients are left"


def _is_few_of_many(work: Work) -> Literal[True] | str:
    problem, policy = work.part, work.policy
    n, m = problem.n, problem.size
    if work.run.recording and n >= policy.few_clients and problem is work.problem:
        work.multipliers = RltLog(problem)
    if is_trivial(problem):
        return "as no search is needed"
    if n < policy.few_clients:
        return f"as it pays from {policy.few_clients} clients on"
    if n < policy.rlt_ratio * m:
        return f"as {m} of {n} are chosen, more than one of {policy.rlt_ratio}"
    beside = policy.fixing_closed if work.run.recording else policy.rlt_beside_products
    if n > beside and _has_products(work) is True:
        return f"as multipliers of products follow, for more than {beside} clients"
    return n <= policy.rlt_largest or f"as its multipliers are kept for {policy.rlt_largest} clients at most"


def _always(work: Work) -> Literal[True] | str:
    return True


# -- what they do ----------------------------------------------------------------------------------------------------


def _enumerate(work: Work) -> bool:
    brute_force(work.problem, work.run)
    return True


def _keep_constraints(work: Work) -> bool:
    problem, run, memory, policy = work.problem, work.run, work.memory, work.policy
    part = solve_constrained(problem, run, memory=memory, policy=policy, fixes=not run.recording)
    while part is not None:
        few, inner = part
        if few.is_constrained:
            part = solve_constrained(few, inner, policy=policy, fixes=True)
        else:
            part = None
            if not solve_trivial(few, inner):
                search_trees(few, inner, policy.products, policy.tabu_moves, policy.largest_tree, policy=policy)
    note_prices(problem, run)
    if memory is not None:
        memory.keep(problem, run.x)
    return True


def _find_a_selection(work: Work) -> bool:
    begin(work.problem, work.run)  # before anything that takes a while
    return False


def _count_types(work: Work) -> bool:
    assert work.types is not None
    solve_by_kinds(work.types, work.run, work.policy, work.policy.kinds_time_share, work.policy.kinds_nodes)
    return False


def _follow_a_line(work: Work) -> bool:
    assert work.line is not None
    begin(work.problem, work.run)
    choose(work.problem, work.line, work.run)
    return True


def _fix(work: Work) -> bool:
    problem, run, memory, policy = work.problem, work.run, work.memory, work.policy
    with run.phase("quadratic fixing"):
        if memory is not None:
            for x in memory.start(problem):
                run.offer(ascend(problem, x, run))
        moves, search = policy.tabu_moves, HybridSearch(problem, run, policy)  # what is fixed depends on the incumbent
        while moves > 0 and not run.expired and (done := search.advance(moves)):
            moves -= done
        fixing = Fixing(problem, run)
        fix_by_counts(fixing, policy)
        fix_clients(problem, run, policy, fixing)
        if _is_far(run, policy) and _search_far(run, search, policy):
            fixing = fix_clients(problem, run, policy)
        fix_by_counts(fixing, policy)
    run.details["fixed"] = problem.n - fixing.ids.size
    if run.proved or run.expired:
        if memory is not None:
            memory.keep(problem, run.x)  # else the trees do
        return True
    if fixing.ids.size < problem.n:
        work.part, work.part_run = fixing.part()
    return False


def _is_far(run: Run, policy: Policy) -> bool:
    """Whether the bound is so far away that trees would be busy with it, and better selections are worth a search."""
    return (
        run.objective is not None
        and run.bound is not None
        and relative_gap(run.objective, run.bound) > policy.far_search_gap
    )


def _search_far(run: Run, search: HybridSearch, policy: Policy) -> bool:
    """Go on with a memetic search for some of the time; return whether it found a better selection."""
    known, moves = run.objective, policy.far_search_moves
    until = (1 - policy.far_search_time_share) * run.remaining
    search.cross()
    while moves > 0 and run.remaining > until and (done := search.advance(moves)):
        moves -= done
    return run.objective != known


def _search_a_little(work: Work, most: float) -> bool:
    few, inner, policy = work.part, work.part_run, work.policy
    if not solve_trivial(few, inner):
        search_trees(few, inner, policy.products, policy.tabu_moves, policy.largest_tree, policy=policy, most=most)
    if work.run.proved and work.memory is not None:
        work.memory.keep(work.problem, work.run.x)  # else the trees do
    return work.run.proved


def _shift(work: Work) -> bool:
    with work.run.phase("uniform shift"):
        uniform_shift_bound(work.problem, work.run)
    if work.run.proved and work.memory is not None:
        work.memory.keep(work.problem, work.run.x)  # else the trees do
    return work.run.proved


def _search_first(work: Work) -> bool:
    return _search_a_little(work, work.policy.short_search)


def _fix_by_products(work: Work) -> bool:
    if _search_a_little(work, work.policy.products_search):
        return True
    with work.run.phase("multipliers of products"):
        fixing = fix_by_products(work.part, work.part_run, work.policy)
    with work.run.phase("cuts and conditioning"):
        close_rest(fixing, work.policy)
    work.run.details["fixed"] += work.part.n - fixing.ids.size
    if fixing.ids.size < work.part.n and not (fixing.is_decided or work.run.proved):
        work.part, work.part_run = fixing.part()
        work.known = None  # multipliers of clients that are no longer there
    return False


def _leave_out(work: Work) -> bool:
    with work.run.phase("level-1 RLT"):
        work.part, work.part_run, work.known = _reduced_by_rlt(work)
    if work.memory is not None and (work.run.proved or work.run.expired):
        work.memory.keep(work.problem, work.run.x)  # else the trees do
    return False


def _branch(work: Work) -> bool:
    few, inner = work.part, work.part_run
    memory, is_whole = work.memory, few.size == work.problem.size
    if not is_whole:
        memory = None  # selections of the part are no selections of the whole
    if not solve_trivial(few, inner):
        search_trees(
            few,
            inner,
            work.policy.products,
            work.policy.tabu_moves,
            work.policy.largest_tree,
            memory,
            work.threads,
            policy=work.policy,
            known=work.known,
        )
    return True


def _reduced_by_rlt(work: Work) -> tuple[DispersionProblem, Run, CoreMultipliers | None]:
    """Bound by ``rlt``; return the problem over the clients that are left, its run, and multipliers to go on from."""
    problem, run, memory, policy, log = work.part, work.part_run, work.memory, work.policy, work.multipliers
    if memory is not None:
        for x in memory.start(problem):
            run.offer(ascend(problem, x, run))
    moves, search = (
        policy.tabu_moves,
        HybridSearch(problem, run, policy),
    )  # targets and the core depend on the incumbent
    while moves > 0 and (done := search.advance(moves)):
        moves -= done

    def part_of_the_time(share: float) -> SubproblemRun:
        return SubproblemRun(problem, run, 0.0, share=share)

    relaxation = RowRelaxation(ScaledProblem.of(problem), run, policy=policy)
    first = policy.rlt_first_iterations
    descend(problem, part_of_the_time(policy.rlt_time_share), relaxation, first, log, policy)
    is_near = relaxation.ids.size < problem.n
    if is_near:  # further
        descend(problem, part_of_the_time(policy.rlt_time_share), relaxation, stages=log, policy=policy)
    sifting = None
    if relaxation.ids.size >= policy.few_clients:
        core = None if memory is None else memory.core(problem)
        known = None if memory is None else memory.multipliers(problem, relaxation.ids)
        share = policy.core_time_share
        assert run.objective is not None  # the search has one
        is_wide = run.bound is not None and relative_gap(run.objective, run.bound) > policy.far_core_gap
        if not is_near and is_wide and problem.n <= policy.most_bounded:
            share = policy.far_core_time_share  # trees over all of so few may well do better
        sifting = sift(problem, part_of_the_time(share), relaxation, core, known, log, policy)
        if memory is not None:
            kept = sifting.core[np.argsort(-sifting.x[sifting.core], kind="stable")[: policy.core_kept]]
            memory.keep_core(problem, kept, sifting.multipliers())
    ids = relaxation.ids if sifting is None else survivors(problem, run, sifting, policy)
    if ids.size == problem.n:
        return problem, run, None
    few = DispersionProblem(
        problem.distances[np.ix_(ids, ids)],
        problem.costs[ids],
        size=problem.size,
        weight=problem.weight,
        clients=problem.clients[ids],
    ).answering(problem)

    def map_back(x: NDArray[np.int64]) -> NDArray[np.int64]:
        return problem.feasible.decision(ids[np.flatnonzero(x)])

    slack = problem.rounding + few.rounding
    inner = SubproblemRun(few, run, slack, map_back=map_back, outside=run.objective)
    inner.offer(incumbent(run)[ids])  # its clients are never left out
    last = None if sifting is None else sifting.multipliers()
    if last is None or not np.isin(ids, last.core).all():
        return few, inner, None
    # The same distances in the units of fewer clients.
    return few, inner, last.among(np.searchsorted(last.core, ids), units(few)[0] / relaxation.scaled.factor)


# -- distances by a matrix -------------------------------------------------------------------------------------------

#: What ``auto`` tries, in order, for a problem with a matrix of distances.
MATRIX_STAGES = (
    Stage(
        "enumeration",
        "there are at most {enumerable:,} selections",
        "evaluates them all",
        _is_enumerable,
        _enumerate,
    ),
    Stage(
        "tree under side constraints",
        "there are side constraints",
        "swaps, tabu search, and branch and bound with prices of the rows; for {fixing_few} to {fixing_largest:,} "
        "clients where no certificate is wanted, after {constrained_search:,.0f} entries, quadratic fixing with "
        "prices, once, and the same on what is left",
        _is_constrained,
        _keep_constraints,
    ),
    Stage(
        "first selection",
        "a search is needed",
        "greedy choice and swaps, before anything that takes a while",
        _needs_a_search,
        _find_a_selection,
    ),
    Stage(
        "types of clients",
        "there are {few_clients} clients and more, on average {clients_per_kind} or more of a type, which differ in "
        "nothing but costs",
        "branch and bound over how many of each type are chosen",
        _comes_in_types,
        _count_types,
        "kinds_time_share",
    ),
    Stage(
        "line",
        "the clients lie on a line, and there are at most {line_table:,} pairs of a client and a rank",
        "one longest path, which is the proof",
        _lies_on_a_line,
        _follow_a_line,
    ),
    Stage(
        "one shift",
        "there are {few_clients} to {largest_tree:,} clients, and at most one in {rlt_ratio} is chosen",
        "makes the objective concave by one shift for all clients; its bound proves some rounds at once",
        _is_shifted,
        _shift,
    ),
    Stage(
        "short search",
        "there are {few_clients} to {largest_tree:,} clients, and more than one in {rlt_ratio} is chosen",
        "the first-order tree, for {short_search:,.0f} entries of the matrix",
        _is_soon_searched,
        _search_first,
    ),
    Stage(
        "quadratic fixing",
        "there are {few_clients} to {fixing_largest:,} clients; where a certificate is wanted, to "
        "{fixing_certified:,}, and at least one in {fixing_ratio} is chosen",
        "low-rank multipliers and one matrix inverse, which leave out or choose clients for good; again on the rest; "
        "where the bound stays more than {far_search_gap:.0%} away, a search for better selections; where distances "
        "follow shared labels, a linear program over counts of groups before and after",
        _can_be_fixed,
        _fix,
    ),
    Stage(
        "level-1 RLT bound",
        "few of many are chosen: of {few_clients} to {rlt_largest:,} clients at most one in {rlt_ratio}; where "
        "multipliers of products follow, of at most {rlt_beside_products} clients, or {fixing_closed} where a "
        "certificate is wanted",
        "leaves out clients that no better selection contains, where it has left out some for another "
        "{rlt_time_share:.0%} of what is left; then a stronger bound over a core does, for at most "
        "{core_time_share:.0%} of what is left then",
        _is_few_of_many,
        _leave_out,
        "rlt_time_share",
    ),
    Stage(
        "multipliers of products",
        "quadratic fixing applies, at least one in {fixing_ratio} is chosen, and more than {fixing_few} clients are "
        "left",
        "a short search on these, then the multipliers of products with quadratic fixing, again on the rest; up to "
        "{fixing_closed} clients then cuts and a search that conditions their form, for at most "
        "{fixing_close_time_share:.0%} of what is left then",
        _has_products,
        _fix_by_products,
        "fixing_time_share",
    ),
    Stage(
        "trees",
        "always, on the clients that are left",
        "tabu search, one shift for all clients, and the portfolio of two trees (up to {largest_tree:,} clients)",
        _always,
        _branch,
    ),
)


@method(DispersionProblem, "auto", kind="exact", constraints=True, pool=True, work=True)
@one_thread
def auto(
    problem: DispersionProblem,
    run: Run,
    *,
    memory: Memory | None = None,
    threads: int = 1,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    """Enumerate what is small; otherwise swap ascent, tabu search, a certified bound, and branch and bound.

    Where clients come in few types, which differ in nothing but costs, a tree over counts comes first; where they are
    points on a line, a longest path does. Where few of many are chosen, the level-1 RLT bound comes before the trees,
    which are left the clients that a better selection may contain.
    The stages are a list (`solvers.dispersion.methods.auto.MATRIX_STAGES`); the log says which do not apply, and why.

    No solver is called, but SciPy's HiGHS for prices of side constraints, for a selection that keeps them, and for
    counts of groups.

    Parameters
    ----------
    memory : Memory, optional
        Carries the multipliers and the best selections of earlier rounds over the same distances to this one.
    threads : int
        Threads for nodes with a doubly nonnegative bound; without a time limit the answer is the same for any number.
    policy : Policy
        What stages, trees and heuristics decide by, for experiments.
    """
    if run.pool is not None:
        if problem.feasible.count <= policy.enumerable:
            brute_force(problem, run)
        else:
            solve_pool(problem, run, auto, policy, memory=memory, threads=threads)
        return
    work = Work(problem, run, policy, memory, threads)
    _go_through(MATRIX_STAGES, work)
    if work.multipliers is not None and run.recorded is None:
        run.recorded = work.multipliers.certificate(run)


# -- distances by points or types ------------------------------------------------------------------------------------


def _shares_points(work: Work) -> Literal[True] | str:
    if work.problem.is_constrained:
        return "as side constraints tell clients at one point apart"
    if not isinstance(work.problem, PointDispersionProblem):
        return "as it is stated by types"
    work.types = repeated(work.problem, work.policy)
    return work.types is not None or "as few clients share a point"


def _has_a_small_matrix(work: Work) -> Literal[True] | str:
    problem, policy = work.problem, work.policy
    is_stated_by_types = isinstance(problem, KindDispersionProblem)
    if problem.is_constrained and is_stated_by_types:
        return True
    if problem.n <= (policy.few_clients_of_kinds if is_stated_by_types else policy.few_clients):
        return True
    if not problem.is_constrained:
        return f"as there are {problem.n} clients"
    if problem.n > policy.largest_tree:
        return f"as the tree takes {policy.largest_tree} clients"
    return len(problem.feasible.core.numbers) > 0 or "as there are neither quotas nor conflicts"


def _solve_by_types(work: Work) -> bool:
    assert work.types is not None
    solve_by_kinds(work.types, work.run, work.policy)
    return True


def _make_a_matrix(work: Work) -> bool:
    as_matrix(work.problem, work.run, "auto", policy=work.policy)
    return True


def _solve_as_stated(work: Work) -> bool:
    find(work.problem, "branch-and-bound").function(work.problem, work.run, policy=work.policy)
    return True


#: The same for points and for types of clients.
OTHER_STAGES = (
    Stage(
        "types of clients",
        "clients share points without side constraints: at most {most_kinds} points, and two clients or more to each "
        "on average",
        "branch and bound over how many of each type are chosen",
        _shares_points,
        _solve_by_types,
    ),
    Stage(
        "matrix",
        "there are at most {few_clients} points, {few_clients_of_kinds} clients of types, 20,000 of them under "
        "side constraints, or {largest_tree:,} points under quotas or conflicts",
        "the stages for a matrix",
        _has_a_small_matrix,
        _make_a_matrix,
    ),
    Stage(
        "line",
        "the points lie on a line, and there are at most {line_table:,} pairs of a client and a rank",
        "one longest path, which is the proof",
        _lies_on_a_line,
        _follow_a_line,
    ),
    Stage(
        "branch-and-bound",
        "always",
        "the concave relaxation over points, or the tree over counts",
        _always,
        _solve_as_stated,
    ),
)


@dispersion_method(
    (PointDispersionProblem, KindDispersionProblem), "auto", kind="exact", constraints=True, pool=True, work=True
)
def auto_without_matrix(problem: SelectionProblem, run: Run, *, policy: Policy = DEFAULT_POLICY) -> None:
    """Repeated points as types, few clients as a matrix, by its ``auto``; many by ``branch-and-bound``.

    Many points on a line go to ``line`` before. The stages are a list
    (`solvers.dispersion.methods.auto.OTHER_STAGES`).

    Parameters
    ----------
    policy : Policy
        What stages, trees and heuristics decide by, for experiments.
    """
    if run.pool is not None:
        if problem.feasible.count <= policy.enumerable:
            brute_force(problem, run)
        else:
            solve_pool(problem, run, auto_without_matrix, policy)
        return
    _go_through(OTHER_STAGES, Work(problem, run, policy))
