"""Exact methods of our own: enumeration, longest paths on a line, branch and bound, and ``auto`` over them all."""

from __future__ import annotations

import itertools
import math
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.kinds import FEW, alike, repeated
from solvers.dispersion.line import choose, line_of, too_large
from solvers.dispersion.memory import Memory
from solvers.dispersion.methods.constrained import solve_constrained
from solvers.dispersion.methods.kinds import solve_by_kinds
from solvers.dispersion.methods.memetic import Relay
from solvers.dispersion.methods.rlt import FEW_OF_MANY, descend, sift, survivors
from solvers.dispersion.methods.rlt import LARGEST as LARGEST_RLT
from solvers.dispersion.neighbourhood import ascend, incumbent
from solvers.dispersion.prelude import begin, dispersion_method, is_trivial, one_thread, solve_trivial
from solvers.dispersion.problem import (
    EXPANDABLE,
    DispersionProblem,
    KindDispersionProblem,
    PointDispersionProblem,
    SelectionProblem,
)
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.relaxations.slice_form import Normal, units
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.dispersion.restated import RestatedRun, as_matrix
from solvers.dispersion.symmetry import closure
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.dispersion.tree.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.tree.portfolio import TreePortfolio
from solvers.dispersion.tree.stages import Stages
from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import AtLeast
from solvers.registry import find, method
from solvers.run import Run

__all__ = ["LARGEST", "auto", "auto_without_matrix", "branch_and_bound", "brute_force", "line", "solve_on_a_line"]

#: Selections that brute force is willing to look at.
LARGEST = 20_000_000

_CHUNK = 20_000


def _is_enumerable(problem: SelectionProblem) -> str | None:
    count = problem.feasible.count
    if count <= LARGEST:
        is_stored = isinstance(problem, DispersionProblem) or problem.n <= EXPANDABLE
        return None if is_stored else f"brute-force makes a matrix for up to {EXPANDABLE} clients; got {problem.n}"
    return (
        f"brute-force would look at {_rounded(count)} selections of {problem.size} out of {problem.n}; "
        f"it accepts at most {LARGEST:.3g} (use 'cp-sat' or 'auto')"
    )


@method(SelectionProblem, "brute-force", kind="exact", accepts=_is_enumerable, constraints=True)
def brute_force(problem: SelectionProblem, run: Run) -> None:
    """Evaluate all n-choose-m selections, those that keep the constraints; the reference for testing other methods.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million selections.
    """
    run.tighten(problem.trivial_bound())
    has_matrix = isinstance(problem, DispersionProblem)
    if not has_matrix and solve_trivial(problem, run):
        return  # where costs decide alone, the rounding of the matrix would leave the proof open
    matrix = problem.expanded()
    subsets = problem.feasible.selections()
    best = -math.inf
    while chunk := list(itertools.islice(subsets, _CHUNK)):
        chosen = np.array(chunk)
        pairs = matrix.distances[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2), dtype=np.float64)
        values = problem.weight * pairs - problem.costs[chosen].sum(axis=1)
        top = int(values.argmax())
        if values[top] > best:
            best = float(values[top])
            run.offer(problem.feasible.decision(chosen[top]))
        if run.expired:
            return
    if best == -math.inf:
        run.infeasible()
        return
    # Every selection was evaluated, each to within the rounding of one evaluation, and of an entry of the matrix.
    run.tighten(best + problem.rounding + (0.0 if has_matrix else matrix.rounding))


def _rounded(count: int) -> str:
    """A number that may be too large for a float."""
    return f"{count:.3g}" if count < 10**15 else f"about 10^{math.floor(math.log10(count))}"


_NO_LINE = "line needs distances between points on a line, to 1e-7 of the largest distance; these are not (use 'auto')"


def _is_on_a_line(problem: SelectionProblem) -> str | None:
    if is_trivial(problem):
        return None
    return too_large(problem) or (None if line_of(problem) is not None else _NO_LINE)


@dispersion_method((DispersionProblem, PointDispersionProblem), "line", kind="exact", accepts=_is_on_a_line)
def line(problem: SelectionProblem, run: Run) -> None:
    """Prove optimality for points on a line, by one longest path through the clients in order.

    Whether a matrix holds the distances of such points is seen from it, to 1e-7 of the largest; what they differ by is
    added to the bound. The line may lie in any space, and costs may be any.

    Raises
    ------
    InvalidProblem
        When the distances are not those of points on a line, or there are more than 20 million pairs of a client and a
        rank.
    """
    if not solve_on_a_line(problem, run) and not run.expired:
        raise InvalidProblem(_NO_LINE)  # a difference among the distances that had not been looked at before


def solve_on_a_line(problem: SelectionProblem, run: Run) -> bool:
    """Prove optimality where the clients lie on a line and the table of paths is not too large; False elsewhere."""
    found = line_of(problem, run) if too_large(problem) is None else None
    if found is None:
        return False
    begin(problem, run)
    choose(problem, found, run)
    return True


@method(DispersionProblem, "branch-and-bound", kind="exact", constraints=True)
@one_thread
def branch_and_bound(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: Annotated[float, AtLeast(0)] = 3.0,
    moves: Annotated[int, AtLeast(0)] = 3_000,
    largest: Annotated[int, AtLeast(0)] = 2_000,
    memory: Memory | None = None,
    threads: int = 1,
    symmetries: ArrayLike | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    r"""Prove optimality with concave relaxations on the slice and compiled first-order nodes.

    The objective is made concave on :math:`1^\top s = m` by multipliers of the semidefinite relaxation
    (`solvers.dispersion.relaxations.semidefinite`), certified in floating point
    (`solvers.dispersion.relaxations.slice_form`).
    A node takes some swaps of weight between clients (pairwise Frank-Wolfe with second-order choice, warm from its
    parent), and any point on the way gives a valid bound: the tangent's m largest entries. Reduced costs and dominance
    fix clients. A depth-first search uses up a fixed amount of work; what it leaves open goes to a queue by bound, and
    an open problem taken from there gets multipliers of its own, with :math:`s_i s_j \ge 0` imposed on the pairs
    that its parent's relaxation violates. Side constraints have a tree of their own
    (`solvers.dispersion.tree.constrained`), and prices in the answer (`solvers.Solution.prices`).

    Parameters
    ----------
    cuts : float
        Pairs held non-negative per free client, at most; 0 for none.
    moves : int
        Tabu moves made for the incumbent before the tree.
    largest : int
        With more clients only the root bound is computed.
    memory : Memory, optional
        Multipliers and selections of earlier problems over the same clients; this one's are added.
    threads : int
        Threads for the nodes with a doubly nonnegative bound; the answer is the same for any number.
    symmetries : (k, n) array-like of int, optional
        Permutations of the clients (client i to ``symmetries[r][i]``) that change no distance and no cost: of the
        selections that they take into each other, one is looked at.
    policy : Policy
        Tuning constants of the trees, for experiments.

    Raises
    ------
    InvalidOption
        When a permutation is none or changes the problem.
    """
    if problem.is_constrained:
        if symmetries is not None:
            raise InvalidOption(
                "symmetries are not used beside side constraints, which they would have to keep as well"
            )
        solve_constrained(problem, run, cuts=cuts, moves=moves, memory=memory, policy=policy)
        return
    group = None if symmetries is None else closure(problem, symmetries)
    if not solve_trivial(problem, run):
        _search_trees(problem, run, cuts, moves, largest, memory, threads, group, policy)


def _search_trees(
    problem: DispersionProblem,
    run: Run,
    cuts: float = 3.0,
    moves: int = 3_000,
    largest: int = 2_000,
    memory: Memory | None = None,
    threads: int = 1,
    group: NDArray[np.int64] | None = None,
    policy: Policy = DEFAULT_POLICY,
    known: CoreMultipliers | None = None,
) -> None:
    """Bound, search and branch; with ``known``, multipliers of all clients, DNN nodes start from them."""
    if memory is not None:
        for x in memory.start(problem):
            run.offer(ascend(problem, x, run))
    search = Relay(problem, run)
    if run.bound is None:
        run.tighten(problem.trivial_bound())
    try:
        # One shift for all clients takes milliseconds and is enough for many problems.
        # Where it is all there will be, it waits for the selection that it starts from.
        shifted = problem.n <= largest and not run.proved
        if shifted:
            with run.phase("uniform shift"):
                uniform_shift_bound(problem, run)
        with run.phase("tabu search"):
            while moves > 0 and not (run.expired or run.proved) and (done := search.advance(moves)):
                moves -= done
        if run.expired or (run.proved and not (shifted and run.recording)):
            return
        if problem.n > largest:
            uniform_shift_bound(problem, run)
        _search_on(problem, run, search, problem.n <= largest and run.remaining > 2 * policy.seconds_of_dnn(problem.n))
        if problem.n > largest or run.expired:
            return
        tree = FirstOrderTree(problem, run, cuts, memory, policy)
        TreePortfolio(tree, search, threads, group, shifted, known).solve()
        run.recorded = tree.certificate()
    finally:
        if memory is not None:
            memory.keep(problem, run.x)


#: From so many clients on, and with a relative gap of more than this after one shift for all of them, nothing is proved
#: in a time limit: half of it goes to better selections first where the other half has time for a DNN bound, and all
#: where it has not, so that trees would leave the bound as it is. 2026-11-23, uniform distances, n = 2 000, 20 s: with
#: half, and tabu search before that, `memetic` was ahead by 3e-4 of the objective; the bound was the same.
_LARGE, _FAR = 1_000, 0.01


def _search_on(problem: DispersionProblem, run: Run, search: Relay, has_trees: bool) -> None:
    """Search for better selections where a proof is out of reach; not without a limit, where the trees leave time."""
    if problem.n < _LARGE or run.time_limit is None or run.recording or run.bound is None or run.objective is None:
        return
    if run.bound - run.objective <= _FAR * abs(run.objective):
        return
    search.cross()
    with run.phase("search"):
        until = 0.5 * run.remaining if has_trees else 0.0
        while run.remaining > until and search.advance(1_000):
            pass


#: Up to this many selections are looked at one by one, which takes milliseconds.
_ENUMERABLE = 5_000

#: Share of the time for the tree over counts, which proves what it can prove at once.
_KINDS = 0.1

#: Up to so many clients, as points or of a few kinds, a matrix costs nothing, and its methods need no compilation for a
#: first answer.
_AS_MATRIX = {PointDispersionProblem: 150, KindDispersionProblem: 60}

#: Up to so many points have a matrix made for the tree under quotas or conflicts, which the point of the concave
#: relaxation does not keep.
_MOST_IN_GROUPS = 2_000

#: Share of the time for the level-1 RLT bound (`FEW_OF_MANY`).
_RLT = 0.3

#: Tabu moves before it, some tens of milliseconds for a thousand clients, in so many parts.
_MOVES, _LOOKS = 1_000, 3

#: Clients that it must leave for a core to be looked for among them (as above), and the share of the time for that.
_MANY, _SIFTING = 150, 0.8

#: Steps after which a bound that leaves all clients is not worth further ones before that.
_FIRST_ITERATIONS = 300

#: Clients of a core that the next round over the same distances begins with.
_KEPT = 200


@method(DispersionProblem, "auto", kind="exact", constraints=True)
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

    Where clients come in few kinds, which differ in nothing but costs, a tree over counts comes first; where they are
    points on a line, which their distances show at once, a longest path does. Where few of many are chosen,
    the level-1 RLT bound comes before the trees, which are left the clients that a better selection may contain.

    Everything needed comes with the package: no solver is called.

    Parameters
    ----------
    memory : Memory, optional
        Carries the multipliers and the best selections of earlier rounds over the same distances to this one.
    threads : int
        Threads for nodes with a doubly nonnegative bound; the answer is the same for any number.
    policy : Policy
        Tuning constants of the trees, for experiments.
    """
    if problem.feasible.count <= _ENUMERABLE:
        brute_force(problem, run)
        return
    if problem.is_constrained:
        solve_constrained(problem, run, memory=memory, policy=policy)
        return
    if problem.n >= FEW:
        begin(problem, run)  # before anything that takes a while
    same = alike(problem)
    if same is not None:
        solve_by_kinds(same, run, share=_KINDS)
    if not (run.proved or run.expired or is_trivial(problem)):
        solve_on_a_line(problem, run)
    if not (run.proved or run.expired):
        stages = Stages(problem) if run.recording and problem.n >= _MANY else None
        few, inner, known = problem, run, None
        if _is_few_of_many(problem, run, stages):
            with run.phase("level-1 RLT"):
                few, inner, known = _reduced_by_rlt(problem, run, memory, stages)
        if not ((stages is not None and run.proved) or solve_trivial(few, inner)):
            _search_trees(few, inner, memory=memory, threads=threads, policy=policy, known=known)
        run.nodes = inner.nodes
        if stages is not None and run.recorded is None:
            run.recorded = stages.certificate(run)
    if run.x is None:
        begin(problem, run)  # however short the time was


@dispersion_method((PointDispersionProblem, KindDispersionProblem), "auto", kind="exact", constraints=True)
def auto_without_matrix(problem: SelectionProblem, run: Run) -> None:
    """Repeated points as kinds, few clients as a matrix, by its ``auto``; many by ``branch-and-bound``.

    Many points on a line go to ``line`` before.
    """
    if problem.is_constrained:
        in_groups = problem.n <= _MOST_IN_GROUPS and len(problem.feasible.core.numbers) > 0  # type: ignore[attr-defined]  # there are constraints
        if isinstance(problem, KindDispersionProblem) or problem.n <= _AS_MATRIX[type(problem)] or in_groups:
            as_matrix(problem, run, "auto")
        else:
            find(problem, "branch-and-bound").function(problem, run)
    elif isinstance(problem, PointDispersionProblem) and (same := repeated(problem)) is not None:
        solve_by_kinds(same, run)
    elif problem.n <= _AS_MATRIX[type(problem)]:
        as_matrix(problem, run, "auto")
    else:
        solve_on_a_line(problem, run)
        if not (run.proved or (run.expired and run.x is not None)):
            find(problem, "branch-and-bound").function(problem, run)


def _is_few_of_many(problem: DispersionProblem, run: Run, stages: Stages | None) -> bool:
    """Whether few of many are chosen, and ``rlt`` comes before the trees."""
    is_few = FEW_OF_MANY * problem.size <= problem.n <= LARGEST_RLT and problem.n >= FEW
    return is_few and not is_trivial(problem) and not (run.recording and stages is None)


def _reduced_by_rlt(
    problem: DispersionProblem, run: Run, memory: Memory | None, stages: Stages | None
) -> tuple[DispersionProblem, Run, CoreMultipliers | None]:
    """Bound by ``rlt``; return the problem over the clients that are left, its run, and multipliers to go on from."""
    begin(problem, run)
    if memory is not None:
        for x in memory.start(problem):
            run.offer(ascend(problem, x, run))
    search = Relay(problem, run)  # targets and the core depend on the incumbent
    for _ in range(_LOOKS):
        if not search.advance(_MOVES):
            break
    relaxation = RowRelaxation(Normal.of(problem), run)
    descend(problem, RestatedRun(problem, run, 0.0, share=_RLT), relaxation, _FIRST_ITERATIONS, stages)
    if relaxation.ids.size < problem.n or problem.n < _MANY:  # it is near: further
        descend(problem, RestatedRun(problem, run, 0.0, share=_RLT), relaxation, stages=stages)
    sifting = None
    if relaxation.ids.size >= _MANY:
        core = None if memory is None else memory.core(problem)
        known = None if memory is None else memory.multipliers(problem, relaxation.ids)
        sifting = sift(problem, RestatedRun(problem, run, 0.0, share=_SIFTING), relaxation, core, known, stages)
        if memory is not None:
            kept = sifting.core[np.argsort(-sifting.x[sifting.core], kind="stable")[:_KEPT]]
            memory.keep_core(problem, kept, sifting.multipliers())
    ids = relaxation.ids if sifting is None else survivors(problem, run, sifting)
    if ids.size == problem.n:
        return problem, run, None
    few = DispersionProblem(
        problem.distances[np.ix_(ids, ids)],
        problem.costs[ids],
        size=problem.size,
        weight=problem.weight,
        clients=problem.clients[ids],
    )

    def lift(x: NDArray[np.int64]) -> NDArray[np.int64]:
        return problem.feasible.decision(ids[np.flatnonzero(x)])

    slack = problem.rounding + few.rounding
    inner = RestatedRun(few, run, slack, lift=lift, beside=run.objective)
    inner.offer(incumbent(run)[ids])  # its clients are never left out
    last = None if sifting is None else sifting.multipliers()
    if last is None or not np.isin(ids, last.core).all():
        return few, inner, None
    # The same distances in the units of fewer clients.
    return few, inner, last.among(np.searchsorted(last.core, ids), units(few)[0] / relaxation.normal.factor)
