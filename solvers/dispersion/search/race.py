"""Two trees over one problem, and who gets the time.

The first-order tree looks at thousands of cheap nodes, the strong one at few that cost a hundred times as much. Rounds
of federated learning are finished by the first in a tenth of a second; where it stalls, only the second gets on. So the
first begins, alone, until its open problems become more instead of fewer; from then on the shares of the two are as the
squares of each other's gaps, and the strong tree has half at least until its root is done: so a race never takes much
more than twice as long as the first-order tree alone. Where the gap is wide the strong root comes first, alone. Tabu
search has a share of the time throughout, a smaller one where it has long been in vain.

Time is counted in work, so that a search without a limit is the same every time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.search.strong_tree import StrongTree
from solvers.dispersion.search.tree import SHARE, Tree

__all__ = ["Race"]

#: A gap, in units of the problem's scale and of (100 / n)², that leaves cheap nodes no hope.
_WIDE = 0.02

#: The first-order tree does not get on once it has so many times the open problems that its first spell has left.
_MORE = 1.5

#: Seconds that the first strong bound takes, in units of n³.
_FIRST = 6e-9

#: A gap so many times the other's counts as no more than that.
_FAR = 100.0

#: Share of tabu search, once the first-order tree has done so much work: some 0.2 seconds.
_TABU, _EARLY = 0.2, 20_000_000

#: Its share where half of all work, and so much at least, has not brought a better selection.
_FADED, _HOPE = 0.1, 200_000_000

#: What is done before another's turn: iterations of a strong root, tabu moves.
_SLICE, _MOVES = 40, 500

#: What an iteration counts as, in units of n³ and n² updates; what a tabu move does, in units of n.
_CUBIC, _SQUARE, _MOVE = 0.02, 4.0, 2


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
        The search for better selections that goes on beside them.
    threads : int
        Threads for strong nodes.
    group : (g, n) ndarray of int, optional
        Symmetries of the problem; only the strong tree knows how to use them, and it gets all of the time.
    known : bool
        Whether the run's bound is as good as one shift for all clients makes it.
    """

    def __init__(
        self,
        tree: Tree,
        search: Search,
        threads: int = 1,
        group: NDArray[np.int64] | None = None,
        known: bool = False,
    ) -> None:
        self.tree, self.search, self.run, self.group = tree, search, tree.run, group
        self.threads = threads
        n = tree.problem.n
        self.iteration = _CUBIC * n**3 + _SQUARE * n**2
        self.moved = 0.0  # tabu search's work, less its share of the others'
        self.done = self.improved = 0.0  # the others' work, and how much that was at the last better selection
        self.best = self.run.objective
        self.known = known

    def run_to_the_end(self) -> None:
        """Prove, or come as close as the time allows."""
        run, tree = self.run, self.tree
        with run.phase("first-order tree"):
            tree.start(self._relaxes())
            # A search that is written down goes on to its end: leaves left open would prove nothing.
            while tree.open and not (run.expired or (run.proved and not run.recording) or self._due()):
                self._cheap()
            tree.report()
        if not tree.open or run.expired or run.proved:
            return
        strong = StrongTree(tree, self.threads, self.group)
        with run.phase("doubly nonnegative tree"):
            self._alternate(strong)
        run.details["nodes"] = {"first-order": int(run.nodes or 0) - strong.nodes, "doubly-nonnegative": strong.nodes}
        run.details["iterations"] = strong.iterations
        run.details["open"] = len(strong.open)

    def _relaxes(self) -> bool:
        """Whether the first-order tree's root is relaxed at once: where nodes with one shift for all have no hope."""
        tree = self.tree
        return tree.small and tree.affordable(tree.problem.n, SHARE) and (self._wide() or not self.known)

    def _wide(self) -> bool:
        """Whether bound and incumbent are too far apart for cheap nodes: the more clients, the sooner."""
        run, problem = self.run, self.tree.problem
        gap = abs(run.bound - run.objective)  # type: ignore[operator]  # both are known
        return (self.known or self.tree.left > 0) and gap * problem.n**2 > 1e4 * _WIDE * problem.scale

    def _due(self) -> bool:
        """Whether the strong tree is to join."""
        tree = self.tree
        if self.run.remaining <= _FIRST * tree.problem.n**3:
            return False
        # Where the tree gets on, its open problems become fewer from the first spell on.
        # A search that is written down is a certificate at no cost, which strong nodes are not: it gets twice the room.
        more = 2 * _MORE if self.run.recording else _MORE
        stalls = tree.left > 0 and len(tree.open) >= more * tree.left
        return self.group is not None or stalls or self._wide()

    def _alternate(self, strong: StrongTree) -> None:
        """Let both work, until one of them has nothing left to do."""
        run, tree = self.run, self.tree
        strong.plant()
        told, hopeless = False, self._wide()
        while tree.open and strong.open and not run.expired and not run.proved:
            old, new = (max(bound - tree.incumbent, tree.settled) for bound in (tree.bound, strong.bound))
            if new <= old and not told:
                told, unit = True, max(abs(run.objective or 0.0), 1e-300) * tree.normal.factor
                old_gap, new_gap = old / unit, new / unit
                run.note(
                    f"a gap of {old_gap:.2g} after first-order nodes; doubly nonnegative ones make it {new_gap:.2g}"
                )
            share = min(old / new, _FAR) ** 2 if strong.nodes else max(1.0, min(old / new, _FAR) ** 2)
            alone = self.group is not None or (hopeless and strong.nodes == 0)
            if alone or (strong.iterations + _SLICE) * self.iteration <= share * tree.work.total:
                made = strong.iterations
                strong.advance(_SLICE)
                strong.report()
                self._tabu(max(strong.iterations - made, 1) * self.iteration)
            else:
                self._cheap()

    def _cheap(self) -> None:
        """A spell of the first-order tree."""
        before = self.tree.work.total
        self.tree.advance()
        if self.tree.open and self.tree.work.total > _EARLY:
            self._tabu(self.tree.work.total - before)

    def _tabu(self, work: float) -> None:
        """As many moves as are its share of what the others have just done."""
        self.done += work
        if self.run.objective != self.best:
            self.best, self.improved = self.run.objective, self.done
        share = _TABU if self.done <= max(2 * self.improved, _HOPE) else _FADED
        self.moved -= share / (1 - share) * work
        each = _MOVE * self.tree.problem.n
        while self.moved < 0 and not self.run.expired and (done := self.search.advance(_MOVES)):
            self.moved += done * each
        self.tree.look()
