"""Side constraints in the exact methods: selections for the first-order tree, prices in the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.memory import Memory
from solvers.dispersion.methods.fixing import fix_by_products, fix_clients
from solvers.dispersion.methods.tabu import Search
from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.subproblem import SubproblemRun
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.errors import InvalidProblem, NoSelection
from solvers.run import Run


def solve_constrained(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: float = DEFAULT_POLICY.products,
    moves: int = DEFAULT_POLICY.tabu_moves,
    memory: Memory | None = None,
    policy: Policy = DEFAULT_POLICY,
    fixes: bool = False,
) -> tuple[DispersionProblem, SubproblemRun] | None:
    """Prove optimality under side constraints by `FirstOrderTree`, from selections that swaps and the root find.

    With ``fixes`` the tree stops after `Policy.constrained_search` entries, once, for quadratic fixing with prices of
    the rows: where that leaves few clients, the problem over these and its run are returned, and not solved.

    Parameters
    ----------
    problem : DispersionProblem
        A problem with side constraints.
    run : Run
        Is given decisions, bounds, prices, or that there is no selection.
    cuts, moves, memory, policy
        As for ``branch-and-bound``.
    """
    run.tighten(problem.trivial_bound())
    if problem.size == 1 and not _choose_one(problem, run):
        return None
    if memory is not None:
        for x in memory.start(problem):
            if problem.violation(x) == 0:
                run.offer(ascend(problem, x, run))
    tree = FirstOrderTree(problem, run, cuts, policy=policy)
    try:
        # One shift for all clients takes milliseconds; relaxations come when the search has earned them.
        tree.start(relax=False)
        if not (run.proved or tree.is_contradictory()) and _begin(tree):
            search, root = Search(problem, run, policy=policy), tree.root
            while tree.open and not (run.expired or run.proved):
                moves -= _search(
                    search,
                    tree,
                    min(moves, policy.constrained_moves if tree.root is root and not tree.nodes else moves),
                )
                if tree.open and not run.proved:
                    tree.advance()
                if tree.root is not root:
                    root = tree.root
                    _round(tree)
                if fixes and tree.work.total >= policy.constrained_search:
                    fixes, part = False, _fixed(tree)
                    if part is not None:
                        return part
        while tree.open and not (run.expired or run.proved):
            tree.advance()
        tree.report()
    finally:
        if memory is not None:
            memory.keep(problem, run.x)
        note_prices(problem, run)
    return None


def note_prices(problem: DispersionProblem, run: Run) -> None:
    """Keep the prices of side constraints in the answer, unless the run is on a part, whose prices say nothing else."""
    if run.x is None or (isinstance(run, SubproblemRun) and run.is_part):
        return
    slack, each = 0.0, run
    while isinstance(each, SubproblemRun):  # another geometry, whose rounding is another
        slack, each = slack + each.slack + each.constant, each.whole
    run.details["prices"] = RowPrices(problem, run.x, slack)


def _fixed(tree: FirstOrderTree) -> tuple[DispersionProblem, SubproblemRun] | None:
    """Fix clients; return the problem that is left and its run, None where the tree goes on or there is a proof."""
    problem, run, policy, size = tree.problem, tree.run, tree.policy, tree.problem.size - tree.ones.size
    if not (policy.fixing_few <= tree.ids.size <= policy.fixing_largest) or run.x is None:
        return None
    with run.phase("quadratic fixing"):
        fixing = fix_clients(problem, run, policy)
        if fixing.ids.size > policy.constrained_left * tree.ids.size and tree.ids.size <= policy.fixing_ratio * size:
            fixing = fix_by_products(problem, run, policy, fixing)
        if not run.proved and fixing.is_contradictory:
            run.tighten(fixing.outside)
    tree.refresh_incumbent()
    run.details["fixed"] = run.details.get("fixed", 0) + tree.ids.size - fixing.ids.size
    if run.proved or run.expired or fixing.ids.size > policy.constrained_left * tree.ids.size:
        return None
    try:
        return fixing.part()
    except InvalidProblem:  # uses of a budget that are left may be too small for one
        return None


def bound_in_constraints(problem: DispersionProblem, run: Run, rounds: int) -> FirstOrderTree:
    """Bound by the root of the tree alone, and offer selections near its point; return the tree.

    Parameters
    ----------
    problem : DispersionProblem
        A problem with side constraints.
    run : Run
        Is given decisions, bounds, or that there is no selection.
    rounds : int
        Relaxations that hold the products non-negative which the one before violates, at most.
    """
    tree = FirstOrderTree(problem, run, 2.0)
    tree.start(relax=False)
    if tree.is_contradictory() or not _begin(tree):
        return tree
    for _ in range(1 + rounds):
        before = math.inf if tree.root is None else tree.root.value
        if run.proved or run.expired or not tree.improve_root():
            break
        _round(tree)
        assert tree.root is not None
        if before - tree.root.value <= 1e-5 * abs(before):
            break
    return tree


def _choose_one(problem: DispersionProblem, run: Run) -> bool:
    """Offer the cheapest client that keeps all constraints, which proves itself; say whether there is one."""
    one = np.ones(problem.n, dtype=bool)
    for row in problem.constraints.rows:
        used = row.dense(problem.n)
        one &= (row.low <= used) & (used <= row.high)
    for client in np.flatnonzero(one)[np.argsort(problem.costs[one], kind="stable")].tolist():
        x = problem.feasible.decision([client])
        if problem.violation(x) == 0:
            run.tighten(run.offer(x))
            return True
    run.infeasible()
    return False


def _begin(tree: FirstOrderTree) -> bool:
    """Offer a selection near the root's point, or else a greedy one; say whether there is one."""
    problem, run = tree.problem, tree.run
    _round(tree)
    try:
        if run.x is None:
            run.offer(ascend(problem, greedy_decision(problem), run))
            tree.refresh_incumbent()
    except NoSelection:
        run.note("neither a greedy choice nor its repair found a selection that keeps all constraints")
    return run.x is not None


def _search(search: Search, tree: FirstOrderTree, moves: int) -> int:
    """Make so many tabu moves, fewer where the bound is met; return how many."""
    made, run = 0, tree.run
    while (
        made < moves
        and not (run.expired or run.proved)
        and (done := search.advance(min(moves - made, tree.policy.constrained_moves)))
    ):
        made += done
    tree.refresh_incumbent()
    return made or moves


def _round(tree: FirstOrderTree) -> None:
    """Offer the selection nearest to the root's point, improved by swaps."""
    root, problem, run = tree.root, tree.problem, tree.run
    if root is None or not math.isfinite(root.value) or run.expired or run.proved:
        return
    point = np.zeros(problem.n)
    point[root.ones], point[root.ids] = 1.0, root.x[: root.ids.size]
    near = problem.feasible.core.best(point)  # type: ignore[attr-defined]  # there are constraints
    if problem.violation(near) == 0:
        run.offer(ascend(problem, near, run))
        tree.refresh_incumbent()


class RowPrices(Mapping[str, float]):
    """Prices of side constraints, computed when they are first looked at: a relaxation of the root.

    Parameters
    ----------
    problem : DispersionProblem
        A problem with side constraints.
    x : (n,) ndarray of int
        A selection.
    slack : float
        What a decision may be worth more than it is here, where the problem is another statement of the one solved.
    """

    def __init__(self, problem: DispersionProblem, x: NDArray[np.int64], slack: float = 0.0) -> None:
        self.problem, self.x, self.slack = problem, x, slack

    @cached_property
    def _found(self) -> tuple[dict[str, float], float]:
        run = Run(self.problem, "prices", None, 0)
        run.offer(self.x)
        return FirstOrderTree(self.problem, run, 0.0).prices() or ({}, math.inf)

    @property
    def bound(self) -> float:
        """The bound that they are multipliers of, in units of the objective."""
        return self._found[1] if self.slack == 0 else math.nextafter(self._found[1] + self.slack, math.inf)

    def __getitem__(self, name: str) -> float:
        return self._found[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found[0])

    def __len__(self) -> int:
        return len(self._found[0])
