"""Two trees over one problem, and who gets the time.

The first-order tree looks at thousands of cheap nodes, the strong one at few that cost a hundred times as much. Rounds
of federated learning are finished by the first in a tenth of a second; where it stalls, only the second gets on. A wide
gap at the root says so at once. Otherwise it shows late, so both are kept: after a while, or a share of the time limit,
the strong root is worked on as well; whoever has the better bound gets most of the time, and the other is left behind
only when it has had its chance. The better bound of the two counts. Tabu search has a share of the time throughout.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.uniform_shift import bound_many
from solvers.dispersion.search.strong_tree import StrongTree
from solvers.dispersion.search.tree import Tree

__all__ = ["Race"]

#: Tabu moves made at a time: a few milliseconds.
_MOVES = 500

#: Work of the first-order tree, some 0.2 seconds, before tabu search gets its share of the time; and the share.
_EARLY, _POLISH = 40_000_000, 0.15

#: Work of the first-order tree, some seconds, after which the strong root is worked on where the gap is small.
_PATIENCE = 200_000_000

#: The same as a share of the time limit; where no client dominates another, which is what cheap nodes thrive on.
_WAIT, _WAIT_UNORDERED = 0.4, 0.1

#: A root's gap, in units of the problem's scale, with which the strong root is worked on at once.
_WIDE = 0.02

#: The strong tree is ahead if it leaves less than this part of the first-order tree's gap.
_PROMISE = 0.6

#: Seconds that the first strong bound takes, in units of n³.
_STRONG = 6e-9

#: Work that the one who is ahead does for each of the other's.
_AHEAD = 3.0

#: Iterations of a strong root at a time; what one counts as, in units of n³ and n² updates.
_SLICE, _CUBIC, _SQUARE = 40, 0.02, 4.0

#: Updates that a tabu move counts as, for each client.
_MOVE = 2

#: Share of the time limit, and most seconds, for tabu search before the first strong node.
_BURST, _LONGEST = 0.15, 5.0


class Search(Protocol):
    """What improves the incumbent beside the trees."""

    def advance(self, moves: int) -> int:
        """Make at most so many moves; return how many were made, 0 where there is nothing to do."""


class Race:
    """Search both trees until one is done or the time is over.

    Parameters
    ----------
    tree : Tree
        The first-order tree; not started.
    search : Search
        The tabu search that goes on beside them.
    workers : int
        Threads for strong nodes.
    group : (g, n) ndarray of int, optional
        Symmetries of the problem; only the strong tree knows how to use them, and it gets all of the time.
    """

    def __init__(self, tree: Tree, search: Search, workers: int = 1, group: NDArray[np.int64] | None = None) -> None:
        self.tree, self.search, self.run, self.group = tree, search, tree.run, group
        self.workers = workers
        self.first = False  # the strong root comes first

    def run_to_the_end(self) -> None:
        """Prove, or come as close as the time allows."""
        run, tree = self.run, self.tree
        with run.phase("first-order tree"):
            tree.start()
            self.first = self._gap() > _WIDE
            looked = tree.relaxed
            while tree.open and not run.expired and not self._due():
                self._cheap()
                if tree.open and not looked:
                    bound_many(tree.problem, run)  # one shift for all, but the best tangent
                    looked = True
            tree.report()
        if not tree.open or run.expired:
            return
        strong = StrongTree(tree, self.workers, self.group)
        with run.phase("doubly nonnegative tree"):
            self._alternate(strong)
        run.details["nodes"] = {"first-order": int(run.nodes or 0) - strong.nodes, "doubly-nonnegative": strong.nodes}
        run.details["iterations"] = strong.iterations
        run.details["open"] = len(strong.open)

    def _gap(self) -> float:
        """What the first-order tree leaves open, in units of the problem's scale."""
        return (self.tree.bound - self.tree.incumbent) / (self.tree.problem.scale * self.tree.normal.factor)

    def _due(self) -> bool:
        """Whether the strong root is to be worked on: the sooner, the larger the gap."""
        run, tree = self.run, self.tree
        if run.remaining <= _STRONG * tree.problem.n**3:
            return False
        if self.group is not None or self.first:
            return True
        if run.time_limit is not None and not tree.order.pairs.size and run.seconds > _WAIT_UNORDERED * run.time_limit:
            self.first = tree.work > 0
        late = run.time_limit is not None and run.seconds > _WAIT * run.time_limit
        return self.first or late or tree.work >= _PATIENCE * min(1.0, (0.01 / max(self._gap(), 1e-9)) ** 2)

    def _alternate(self, strong: StrongTree) -> None:
        """Let both work, until one of them has nothing left to do."""
        run, tree = self.run, self.tree
        strong.plant()
        if run.time_limit is not None:
            until = run.seconds + min(_BURST * run.time_limit, _LONGEST)
            while run.seconds < until and self.search.advance(_MOVES):
                pass
        before, each, told = tree.work, _CUBIC * tree.problem.n**3 + _SQUARE * tree.problem.n**2, False
        while tree.open and strong.open and not run.expired and not run.proved:
            ahead = strong.bound - tree.incumbent <= _PROMISE * (tree.bound - tree.incumbent)
            if ahead and not told:
                told = True
                unit = max(abs(run.objective or 0.0), 1e-300) * tree.normal.factor
                old, new = (max(bound - tree.incumbent, 0.0) / unit for bound in (tree.bound, strong.bound))
                run.note(f"a gap of {old:.2g} after first-order nodes; doubly nonnegative ones make it {new:.2g}")
            share = _AHEAD if ahead or self.first else 1 / _AHEAD
            alone = self.group is not None or (ahead and tree.work >= _PATIENCE) or (self.first and strong.nodes == 0)
            if alone or strong.iterations * each <= share * (tree.work - before):
                made = strong.iterations
                strong.advance(_SLICE)
                strong.report()
                self._tabu(max(strong.iterations - made, 1) * each)
            else:
                self._cheap()

    def _cheap(self) -> None:
        """A spell of the first-order tree."""
        before = self.tree.work
        self.tree.advance()
        if self.tree.open:
            self._tabu(self.tree.work - before if self.tree.work > _EARLY else 0.0)

    def _tabu(self, work: float) -> None:
        """A few moves at least, and as many as its share of what the others have just done."""
        moves = max(_MOVES, int(_POLISH * work / (_MOVE * self.tree.problem.n)))
        while moves > 0 and not self.run.expired and (done := self.search.advance(moves)):
            moves -= done
        self.tree.look()
