"""Method ``branch-and-bound``: our own exact method, over the slice ``1ᵀs = m``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.bounds.uniform_shift import bound_many
from solvers.dispersion.methods.tabu import Search
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.neighbourhood import ascend
from solvers.dispersion.search.strong_tree import StrongTree
from solvers.dispersion.search.symmetry import closure
from solvers.dispersion.search.threads import one_thread
from solvers.dispersion.search.tree import Tree
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["branch_and_bound"]

#: Tabu moves between two spells of the tree: a few milliseconds.
_BETWEEN = 500

#: Work of the first-order tree, some seconds, after which a strong node is tried where the gap is small.
_PATIENCE = 200_000_000

#: A strong root takes over if it leaves less than this part of the first-order tree's gap.
_PROMISE = 0.6

#: Seconds that the first strong bound takes, in units of n³.
_STRONG = 6e-9


@method(DispersionProblem, "branch-and-bound", kind="exact")
@one_thread
def branch_and_bound(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: float = 3.0,
    moves: int = 3_000,
    largest: int = 2_000,
    memory: Memory | None = None,
    workers: int = 1,
    symmetries: ArrayLike | None = None,
) -> None:
    r"""Prove optimality with concave relaxations on the slice and compiled first-order nodes.

    The objective is made concave on :math:`1^\top s = m` by multipliers of the semidefinite relaxation
    (`solvers.dispersion.bounds.semidefinite`), certified in floating point (`solvers.dispersion.bounds.slice_form`).
    A node takes some swaps of weight between clients (pairwise Frank-Wolfe with second-order choice, warm from its
    parent), and any point on the way gives a valid bound: the tangent's m largest entries. Reduced costs and dominance
    fix clients. A depth-first search uses up a fixed amount of work; what it leaves open goes to a queue by bound, and
    an open problem taken from there gets multipliers of its own, with :math:`s_i s_j \ge 0` imposed on the pairs
    that its parent's relaxation violates. Until the kernels are compiled, on a machine's first use, the same tree is
    searched without them (`solvers.dispersion.search.plain_tree`).

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    cuts : float
        Pairs held non-negative per free client, at most; 0 for none.
    moves : int
        Tabu moves made for the incumbent before the tree.
    largest : int
        With more clients only the root bound is computed.
    memory : Memory, optional
        Multipliers and selections of earlier problems over the same clients; this one's are added.
    workers : int
        Threads for the nodes with a doubly nonnegative bound; the answer is the same for any number.
    symmetries : (k, n) array-like of int, optional
        Permutations of the clients (client i to ``symmetries[r][i]``) that change no distance and no cost: of the
        selections that they take into each other, one is looked at.

    Raises
    ------
    InvalidOption
        When an option is negative, or a permutation is none or changes the problem.
    """
    for name, value in (("cuts", cuts), ("moves", moves), ("largest", largest)):
        if not value >= 0:
            raise InvalidOption(f"{name} must not be negative; got {value}")
    if isinstance(workers, bool) or not hasattr(workers, "__index__") or workers < 1:
        raise InvalidOption(f"workers must be a positive integer; got {workers!r}")
    group = None if symmetries is None else closure(problem, symmetries)
    if run.bound is None:
        run.tighten(problem.trivial_bound())
    if marginal(problem, run):
        return
    if memory is not None:
        for x in memory.start(problem):
            run.offer(ascend(problem, x, run))
    search = Search.started(problem, run, wait=False)
    while moves > 0 and not run.expired and (done := search.advance(moves)):
        moves -= done
    try:
        if run.expired or run.proved:
            return
        if problem.n > largest:
            bound_many(problem, run)
            return
        _prove(Tree(problem, run, cuts, memory), search, workers, group)
    finally:
        if memory is not None:
            memory.keep(problem, run.x)


def _prove(tree: Tree, search: Search, workers: int, group: NDArray[np.int64] | None) -> None:
    """Search the first-order tree; the strong one as soon as it promises more, or at once where there is a symmetry."""
    run = tree.run
    strong: StrongTree | None = None
    with run.phase("first-order tree"):
        tree.start()
        patience = 0.0 if group is not None else _patience(tree)
        while tree.open and not run.expired:
            if tree.work >= patience and run.remaining > _STRONG * tree.problem.n**3:
                patience = 4 * max(tree.work, _PATIENCE // 4)
                strong = _tried(strong, tree, workers, group)
                if group is not None or strong.bound - tree.incumbent <= _PROMISE * (tree.bound - tree.incumbent):
                    break
                continue
            tree.advance()
            if tree.open:
                search.advance(_BETWEEN)
                tree.look()
        tree.report()
    if strong is None:
        return
    cheap = int(run.nodes or 0) - strong.nodes
    if tree.open and not run.expired:
        with run.phase("doubly nonnegative tree"):
            while strong.open and not run.expired and not run.proved:
                strong.advance()
                search.advance(_BETWEEN)
                tree.look()
                strong.report()
            strong.report()
    run.details["nodes"] = {"first-order": cheap, "doubly-nonnegative": strong.nodes}
    run.details["iterations"] = strong.iterations
    run.details["open"] = len(strong.open)


def _tried(strong: StrongTree | None, tree: Tree, workers: int, group: NDArray[np.int64] | None) -> StrongTree:
    """The strong tree after another look at its most promising nodes, or at its root."""
    if strong is None:
        strong = StrongTree(tree, workers, group)
        strong.start()
    else:
        strong.advance()
    strong.report()
    unit = max(abs(tree.run.objective or 0.0), 1e-300) * tree.normal.factor
    before, after = (max(bound - tree.incumbent, 0.0) / unit for bound in (tree.bound, strong.bound))
    tree.run.note(f"a gap of {before:.2g} after first-order nodes; doubly nonnegative ones make it {after:.2g}")
    return strong


def _patience(tree: Tree) -> float:
    """Work after which a strong node is tried: the sooner, the larger the gap that the root left."""
    gap = (tree.bound - tree.incumbent) / (tree.problem.scale * tree.normal.factor)
    return _PATIENCE * min(1.0, (0.01 / max(gap, 1e-9)) ** 2)


def marginal(problem: DispersionProblem, run: Run) -> bool:
    """Solve the problem if it chooses one client, all, or all but one; or has nothing to choose by; False if not."""
    n, m = problem.n, problem.size
    if m not in (1, n - 1, n) and problem.scale > 0:
        return False
    x = np.zeros(n, dtype=np.int64)
    if problem.scale == 0:
        x[:m] = 1
    elif m == 1:
        x[problem.costs.argmin()] = 1
    else:
        x[:] = 1
        if m < n:
            reach = problem.distances.sum(axis=1, dtype=np.float64)
            x[(2 * problem.weight * reach - problem.costs).argmin()] = 0
    # One value is known to its rounding; the least of n gains, each a difference, to that of all of them.
    run.tighten(run.offer(x) + (1 if m == n else 2 * n) * problem.rounding)
    return True
