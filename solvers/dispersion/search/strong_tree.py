"""A tree of few strong nodes, for problems that many cheap nodes do not finish."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.search.neighbourhood import ascend
from solvers.dispersion.search.strong import CHUNK, Node, Outcome, Setting, examine
from solvers.dispersion.search.tree import Tree

__all__ = ["StrongTree"]

#: Nodes looked at before their results are merged, whatever the number of threads: so the answer is the same for all.
_BATCH = 4


class StrongTree:
    """Open problems bounded by the doubly nonnegative relaxation, best bound first.

    Parameters
    ----------
    tree : Tree
        The first-order tree over the same problem: whose incumbent and tolerance count.
    threads : int
        Threads that look at nodes.
    group : (g, n) ndarray of int, optional
        The problem's symmetries; see `solvers.dispersion.search.symmetry`.
    """

    def __init__(self, tree: Tree, threads: int = 1, group: NDArray[np.int64] | None = None) -> None:
        self.tree, self.run, self.threads = tree, tree.run, threads
        normal = tree.normal
        pairs = np.zeros((0, 2), dtype=np.int64)
        if group is None:  # an order among equals and an orbit of them must not both be used
            pairs = tree.order.pairs
        self.setting = Setting(normal, pairs, group)
        self.open: list[tuple[float, int, Node]] = []
        self.count = itertools.count()
        self.nodes = self.iterations = 0
        self.stopping = False
        self.slice = math.inf  # looks at the clock after which to leave the root for a while
        for name in ("admm", "cuts"):
            load(name, self.run)  # here, where the clock can be stopped
        self.slowest = 3e-10  # seconds per free client cubed of an iteration, to know when to stop

    @property
    def target(self) -> float:
        """Selections of at most this value are of no interest."""
        return self.tree.incumbent + self.tree.tolerance

    @property
    def bound(self) -> float:
        """What no selection exceeds, in the units of `Normal`."""
        value = self.tree.incumbent + self.tree.settled
        return max(value, -self.open[0][0]) if self.open else value

    def plant(self) -> None:
        """Open the root."""
        n = self.setting.normal.linear.size
        self._push(Node(np.arange(n), np.zeros(0, dtype=np.int64), math.inf))

    def start(self) -> None:
        """Bound the root and split it."""
        self.plant()
        self.advance()

    def advance(self, iterations: float = math.inf) -> None:
        """Look at the most promising open problems; the root is left open after so many iterations, to be continued."""
        self.slice = iterations * (1 + 1 / CHUNK)  # the clock is looked at once an iteration, and once a chunk
        batch: list[Node] = []
        while self.open and len(batch) < _BATCH:
            bound, _, node = heapq.heappop(self.open)
            if -bound > self.target:
                batch.append(node)
        if not batch:
            return
        target, nodes = self.target, self.nodes
        for node, outcome in zip(batch, self._examined(batch, target), strict=True):
            self.nodes += all(child.ids.size < node.ids.size for child in outcome.children)  # else it is not done
            self.iterations += outcome.iterations
            for selection in outcome.selections:
                self._offer(selection)
            for child in outcome.children:
                self._push(replace(child, bound=min(child.bound, node.bound)))
        self.tree.look()
        self.run.nodes = (self.run.nodes or 0) + self.nodes - nodes

    def report(self) -> None:
        """Hand the tree's bound to the run."""
        self.run.tighten(self.tree.certified(self.bound))

    def _examined(self, batch: list[Node], target: float) -> list[Outcome]:
        def look(node: Node) -> Outcome:
            # What is left must suffice for the iteration at hand and for a certificate.
            began, reserve = time.perf_counter(), 3 * self.slowest * node.ids.size**3
            if self.stopping or self.run.remaining <= reserve:
                return Outcome(node.bound, [node])  # for want of time even for a certificate
            root = node.warm is None
            looks = itertools.count()

            def expired() -> bool:
                return self.stopping or self.run.remaining <= reserve or (root and next(looks) >= self.slice)

            progress = self._root if root else (lambda bound: None)
            outcome = examine(self.setting, node, target, expired, progress)
            if outcome.iterations:
                each = (time.perf_counter() - began) / outcome.iterations
                self.slowest = max(self.slowest, each / node.ids.size**3) if node.ids.size > 200 else self.slowest
            return outcome

        if self.threads == 1 or len(batch) == 1:
            return [look(node) for node in batch]
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                return list(pool.map(look, batch))
            except BaseException:
                self.stopping = True  # an interruption need not wait for the other nodes
                raise

    def _root(self, bound: float) -> None:
        """Report the root's bound while it is being made: at a thousand clients that takes a while."""
        self.run.tighten(self.tree.certified(max(bound, self.tree.incumbent + self.tree.settled)))

    def _offer(self, selection: NDArray[np.int64]) -> None:
        x = np.zeros(self.setting.normal.linear.size, dtype=np.int64)
        x[selection] = 1
        self.run.offer(ascend(self.tree.problem, x, self.run))
        self.tree.look()

    def _push(self, node: Node) -> None:
        if node.bound > self.target:
            heapq.heappush(self.open, (-node.bound, next(self.count), node))
