"""Method ``branch-and-bound``: our own exact method, over the slice ``1ᵀs = m``."""

from __future__ import annotations

from typing import Annotated

from numpy.typing import ArrayLike

from solvers.dispersion.methods.memetic import Relay
from solvers.dispersion.prelude import solve_trivial
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.dispersion.search.first_order import FirstOrderTree
from solvers.dispersion.search.memory import Memory
from solvers.dispersion.search.neighbourhood import ascend
from solvers.dispersion.search.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.search.portfolio import TreePortfolio
from solvers.dispersion.search.symmetry import closure
from solvers.dispersion.search.threads import one_thread
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run

__all__ = ["branch_and_bound"]


@method(DispersionProblem, "branch-and-bound", kind="exact")
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
    that its parent's relaxation violates.

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
    group = None if symmetries is None else closure(problem, symmetries)
    if solve_trivial(problem, run):
        return
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
            uniform_shift_bound(problem, run)
        while moves > 0 and not (run.expired or run.proved) and (done := search.advance(moves)):
            moves -= done
        if run.expired or (run.proved and not (shifted and run.recording)):
            return
        if problem.n > largest:
            uniform_shift_bound(problem, run)
            return
        tree = FirstOrderTree(problem, run, cuts, memory, policy)
        TreePortfolio(tree, search, threads, group, shifted).solve()
        run.recorded = tree.certificate()
    finally:
        if memory is not None:
            memory.keep(problem, run.x)
