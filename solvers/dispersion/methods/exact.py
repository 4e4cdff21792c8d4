"""Exact methods of our own: enumeration, longest paths on a line, branch and bound."""

from __future__ import annotations

import itertools
import math
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.line import choose, line_of, too_large
from solvers.dispersion.memory import Memory
from solvers.dispersion.methods.constrained import solve_constrained
from solvers.dispersion.methods.memetic import HybridSearch
from solvers.dispersion.methods.pools import conclude, solve_diverse, solve_pool
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.prelude import begin, dispersion_method, is_trivial, one_thread, solve_trivial
from solvers.dispersion.problem import (
    EXPANDABLE,
    DispersionProblem,
    PointDispersionProblem,
    SelectionProblem,
)
from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.dispersion.symmetry import closure
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.dispersion.tree.portfolio import TreePortfolio
from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run
from solvers.search import DiverseIncumbents, Incumbents

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
        f"it accepts at most {LARGEST:.3g} (use 'auto')"
    )


@method(SelectionProblem, "brute-force", kind="exact", accepts=_is_enumerable, constraints=True, pool=True)
def brute_force(problem: SelectionProblem, run: Run) -> None:
    """Evaluate all selections of m clients that keep the constraints; the reference for testing other methods.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million selections to look at, or no matrix and more than 20 000 clients.
    """
    run.tighten(problem.trivial_bound())
    has_matrix = isinstance(problem, DispersionProblem)
    if not has_matrix and run.pool is None and solve_trivial(problem, run):
        return  # where costs decide alone, the rounding of the matrix would leave the proof open
    if isinstance(run.pool, DiverseIncumbents):
        solve_diverse(problem, run, run.pool, "brute-force")
        return
    if run.pool is not None:
        _enumerate_pool(problem, run, run.pool)
        return
    matrix = problem.expanded()
    subsets = problem.feasible.selections()
    best = -math.inf
    while chunk := list(itertools.islice(subsets, _CHUNK)):
        chosen = np.array(chunk)
        values = _values(matrix, chosen)
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


def _values(matrix: DispersionProblem, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the objectives of selections, a row of positions each."""
    pairs = matrix.distances[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2), dtype=np.float64)
    values: NDArray[np.float64] = matrix.weight * pairs - matrix.costs[chosen].sum(axis=1)
    return values


def _enumerate_pool(problem: SelectionProblem, run: Run, pool: Incumbents) -> None:
    """Offer all selections that may be members of a pool; the largest value of the others bounds them."""
    matrix = problem.expanded()
    margin = problem.rounding + (0.0 if matrix is problem else matrix.rounding)
    subsets = problem.feasible.selections()
    others = -math.inf
    while chunk := list(itertools.islice(subsets, _CHUNK)):
        chosen = np.array(chunk).reshape(len(chunk), problem.size)
        values = _values(matrix, chosen)
        for place in np.argsort(-values, kind="stable").tolist():
            least = pool.threshold
            if least is not None and values[place] < least - 2 * margin - pool.near:
                others = max(others, float(values[place]))
                break
            run.offer(problem.feasible.decision(chosen[place]))
        if run.expired:
            return
    pool.tighten(others + margin)
    conclude(problem, run)


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
        When a search is needed, and the distances are not those of points on a line, or there are more than 20 million
        pairs of a client and a rank.
    """
    found = line_of(problem, run)
    if found is not None:
        begin(problem, run)
        choose(problem, found, run)
    elif not run.expired:
        raise InvalidProblem(_NO_LINE)  # a difference among the distances that had not been looked at before


@method(DispersionProblem, "branch-and-bound", kind="exact", constraints=True, pool=True, work=True)
@one_thread
def branch_and_bound(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: Annotated[float, AtLeast(0)] = DEFAULT_POLICY.products,
    moves: Annotated[int, AtLeast(0)] = DEFAULT_POLICY.tabu_moves,
    largest: Annotated[int, AtLeast(0)] = DEFAULT_POLICY.largest_tree,
    memory: Memory | None = None,
    threads: int = 1,
    symmetries: ArrayLike | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    r"""Prove optimality with concave relaxations on the slice and compiled first-order nodes.

    The objective is made concave on :math:`1^\top s = m` by one shift for all clients, later by multipliers of the
    semidefinite relaxation (`solvers.dispersion.relaxations.semidefinite`), certified in floating point
    (`solvers.dispersion.relaxations.slice_form`).
    A node takes some swaps of weight between clients (pairwise Frank-Wolfe with second-order choice, warm from its
    parent), and any point on the way gives a valid bound: the tangent's m largest entries. Reduced costs and dominance
    fix clients. A depth-first search uses up a fixed amount of work; what it leaves open goes to a queue by bound, and
    an open problem taken from there may get multipliers of its own, with :math:`s_i s_j \ge 0` imposed on the pairs
    that its parent's relaxation violates. Side constraints
    (`solvers.dispersion.tree.side_rows`) have prices in the answer (`solvers.Solution.prices`).

    Parameters
    ----------
    cuts : float
        Pairs held non-negative per free client, at most; 0 for none.
    moves : int
        Tabu moves made for the incumbent before the tree.
    largest : int
        With more clients only the root bound is computed; under side constraints it does not count.
    memory : Memory, optional
        Multipliers and selections of earlier problems over the same clients; this one's are added.
    threads : int
        Threads for the nodes with a doubly nonnegative bound; without a time limit the answer is the same for any
        number.
    symmetries : (k, n) array-like of int, optional
        Permutations of the clients (client i to ``symmetries[r][i]``) that change no distance and no cost: of the
        selections that they take into each other, one is enough.
    policy : Policy
        Tuning constants of the trees, for experiments.

    Raises
    ------
    InvalidOption
        When a permutation is none or changes the problem, permutations generate more than 20 000, there are side
        constraints beside them, or a pool is wanted and there are more than 2 000 clients.
    """
    if run.pool is not None:
        settings = {"cuts": cuts, "moves": moves, "largest": largest, "memory": memory, "threads": threads}
        solve_pool(problem, run, branch_and_bound, policy, **settings, symmetries=symmetries)
        return
    if problem.is_constrained:
        if symmetries is not None:
            raise InvalidOption(
                "symmetries are not used beside side constraints, which they would have to keep as well"
            )
        solve_constrained(problem, run, cuts=cuts, moves=moves, memory=memory, policy=policy)
        return
    group = None if symmetries is None else closure(problem, symmetries)
    if not solve_trivial(problem, run):
        search_trees(problem, run, cuts, moves, largest, memory, threads, group, policy)


def search_trees(
    problem: DispersionProblem,
    run: Run,
    cuts: float = DEFAULT_POLICY.products,
    moves: int = DEFAULT_POLICY.tabu_moves,
    largest: int = DEFAULT_POLICY.largest_tree,
    memory: Memory | None = None,
    threads: int = 1,
    group: NDArray[np.int64] | None = None,
    policy: Policy = DEFAULT_POLICY,
    known: CoreMultipliers | None = None,
    most: float = math.inf,
) -> None:
    """Bound, search and branch.

    With ``known``, multipliers of all clients, the root of the DNN tree starts from them. With ``most`` there are no
    DNN nodes, and the first-order tree ends after so many entries of the matrix.
    """
    if memory is not None:
        for x in memory.start(problem):
            run.offer(ascend(problem, x, run))
    search = HybridSearch(problem, run, policy)
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
        has_trees = problem.n <= largest and run.remaining > 2 * policy.seconds_of_dnn(problem.n)
        if not math.isfinite(most):
            search_on(problem, run, search, has_trees, policy)
        if problem.n > largest or run.expired:
            return
        tree = FirstOrderTree(problem, run, cuts, memory, policy)
        TreePortfolio(tree, search, threads, group, shifted, known).solve(most)
        run.recorded = tree.certificate()
    finally:
        if memory is not None:
            memory.keep(problem, run.x)


def search_on(problem: DispersionProblem, run: Run, search: HybridSearch, has_trees: bool, policy: Policy) -> None:
    """Search for better selections where a limited run is far from a proof: in half of the time if there are trees."""
    if (
        problem.n < policy.search_from
        or not run.is_limited
        or run.recording
        or run.bound is None
        or run.objective is None
    ):
        return
    if run.bound - run.objective <= policy.search_gap * abs(run.objective):
        return
    search.cross()
    with run.phase("search"):
        until = (1.0 - policy.search_time_share) * run.remaining if has_trees else 0.0
        while run.remaining > until and search.advance(policy.search_slice):
            pass
