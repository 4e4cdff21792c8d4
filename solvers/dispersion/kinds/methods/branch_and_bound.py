"""Method ``branch-and-bound`` between kinds: a tree over counts."""

from __future__ import annotations

from solvers.dispersion.kernels import load
from solvers.dispersion.kinds.counts import Counts
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.kinds.tree import Tree, filled
from solvers.dispersion.trivial import solve_trivial
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["branch_and_bound"]


@method(KindDispersionProblem, "branch-and-bound", kind="exact")
def branch_and_bound(problem: KindDispersionProblem, run: Run, *, nodes: int | None = None) -> None:
    r"""Prove optimality over the counts of the kinds, whatever the number of clients.

    Of each kind only the m cheapest clients can matter, the cheapest first, so that a decision is k whole numbers. A
    uniform shift makes the quadratic concave on the slice; what it takes off is given back at whole numbers, and a
    node replaces that and the costs by their concave envelope between its bounds. Moves of weight between two kinds
    lead to a tangent and a price per client; together they bound the node, and cut off counts by reduced costs.

    Parameters
    ----------
    problem : KindDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    nodes : int, optional
        Nodes to look at, at most (a few more where they are looked at many at a time).

    Raises
    ------
    InvalidOption
        When ``nodes`` is negative.
    """
    if nodes is not None and nodes < 0:
        raise InvalidOption(f"nodes must not be negative; got {nodes}")
    run.nodes = 0
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    form = Counts(problem)
    counts = filled(form, run)
    load("counts", run).ascend(form.q, form.start, form.steps, counts, 10 * problem.size, 1e-12 * problem.scale)
    run.offer(form.decision(counts))
    tree = Tree(form, run, counts)
    tree.advance(1)
    if tree.open and not run.proved:
        tree.probe()
    while tree.open and not (run.expired or run.proved) and (nodes is None or tree.nodes < nodes):
        before = tree.nodes
        tree.advance()
        if tree.open and tree.nodes == before:
            run.stop("iterations", "the tree over counts is deeper than the room there is for it")
            break
    run.nodes = tree.nodes
