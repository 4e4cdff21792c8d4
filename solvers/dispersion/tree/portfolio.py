"""Portfolio of two branch-and-bound trees and a heuristic over one problem, with work-based sharing of the time.

The first-order tree (`first_order`) processes thousands of cheap nodes, the DNN tree (`dnn_tree`) few that cost
many times as much. The first is enough for most rounds of a hundred clients; where it stalls, the second often gets
on. See docs/mathematics/dispersion_search.md, *Search: two trees*. ::

    first-order tree alone, until it is done, or stalls, or its gap is too wide for cheap nodes
    then, until one tree is done:
        share ← (gap of the first-order tree / gap of the DNN tree)², at most ``largest_gap_ratio``²;
                at least 1 until the DNN root is done
        advance the DNN tree where its work is at most share · that of the first-order tree, else the latter
        advance the heuristic, until its work is its share of the two trees'

A tree that has come twice as near gets four times the work, and the other is not stopped. The DNN root has half of the
work at least, and all at a gap that is too wide for cheap nodes; with symmetries the DNN tree has all. Work, and not
time, is counted, so that a search without a limit can be repeated.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.tree.dnn_tree import DNNTree
from solvers.dispersion.tree.first_order import FirstOrderTree


class Heuristic(Protocol):
    """A search for better selections that can be continued."""

    def advance(self, moves: int) -> int:
        """Make at most so many moves; return how many were made, 0 where there is nothing to do."""


class TreePortfolio:
    """Advance both trees and the heuristic until a tree is done or the time is over.

    Parameters
    ----------
    tree : FirstOrderTree
        The first-order tree; not started.
    heuristic : Heuristic
        Improves the incumbent beside the trees.
    threads : int
        Threads for DNN nodes.
    group : (g, n) ndarray of int, optional
        Symmetries of the problem; only the DNN tree uses them, and it gets all of the time where that allows a bound.
    is_shift_bounded : bool
        Whether the uniform-shift bound has been computed, so that relaxing the root first is not needed to get a bound.
    known : CoreMultipliers, optional
        Multipliers that the DNN tree's root starts from.
    """

    def __init__(
        self,
        tree: FirstOrderTree,
        heuristic: Heuristic,
        threads: int = 1,
        group: NDArray[np.int64] | None = None,
        is_shift_bounded: bool = False,
        known: CoreMultipliers | None = None,
    ) -> None:
        self.known = known
        self.tree, self.heuristic, self.run, self.policy = tree, heuristic, tree.run, tree.policy
        self.group, self.threads, self.is_shift_bounded = group, threads, is_shift_bounded
        self.heuristic_debt = 0.0  # work that the heuristic may still do: its share of the trees', less its own
        self.done = self.done_at_improvement = 0.0  # work of the trees
        self.best = self.run.objective

    def solve(self, most: float = math.inf) -> None:
        """Prove the incumbent optimal, or come as close as the time allows, or so much work of the first-order tree."""
        run, tree = self.run, self.tree
        with run.phase("first-order tree"):
            tree.start(self._relaxes_root())
            # A search that is written down goes on to its end: leaves left open would prove nothing.
            while tree.open and not (
                run.expired
                or (run.proved and not run.recording)
                or tree.work.total >= most
                or self._should_start_dnn_tree()
            ):
                self._expand_first_order()
            tree.report()
        if not tree.open or run.expired or run.proved or math.isfinite(most):
            return
        dnn_tree = DNNTree(tree, self.threads, self.group)
        with run.phase("doubly nonnegative tree"):
            self._alternate(dnn_tree)
        run.details["nodes"] = {"first-order": tree.nodes, "doubly-nonnegative": dnn_tree.nodes}
        run.details["iterations"] = dnn_tree.iterations
        run.details["open"] = len(dnn_tree.open)

    # -- who begins ----------------------------------------------------------------------------------------------------

    def _relaxes_root(self) -> bool:
        """Whether the first-order root is relaxed at once: there is time, and one shift for all clients is too weak."""
        tree, share = self.tree, self.policy.root_time_share
        is_weak = self._gap_is_wide() or not self.is_shift_bounded
        return tree.is_small and tree.is_affordable(tree.problem.n, share) and is_weak

    def _gap_is_wide(self) -> bool:
        """Whether bound and incumbent are too far apart for cheap nodes: the more clients, the sooner."""
        run, tree, problem = self.run, self.tree, self.tree.problem
        gap = abs(run.bound - run.objective)  # type: ignore[operator]  # both are known
        has_bound = self.is_shift_bounded or tree.open_after_first_spell > 0
        return has_bound and gap * problem.n**2 > 1e4 * self.policy.wide_gap * problem.scale

    def _has_stalled(self) -> bool:
        """Whether the first-order tree's open problems become more instead of fewer."""
        tree, policy = self.tree, self.policy
        # A search log is a certificate at no cost, which DNN nodes are not: with one the tree has twice as long.
        growth = (2.0 if self.run.recording else 1.0) * policy.stall_growth
        return tree.open_after_first_spell > 0 and len(tree.open) >= growth * tree.open_after_first_spell

    def _should_start_dnn_tree(self) -> bool:
        """Whether there is time for a DNN bound, and a reason: symmetries, a stalled tree, a wide gap."""
        if self.run.remaining <= self.policy.seconds_of_dnn(self.tree.problem.n):
            return False
        return self.group is not None or self._has_stalled() or self._gap_is_wide()

    # -- who goes on ---------------------------------------------------------------------------------------------------

    def _alternate(self, dnn_tree: DNNTree) -> None:
        """Advance the tree whose turn it is, until one of them has nothing left to do."""
        run, tree, policy = self.run, self.tree, self.policy
        dnn_tree.open_root(self.known)
        each, is_noted, is_hopeless = policy.iteration_work(tree.problem.n), False, self._gap_is_wide()
        while tree.open and dnn_tree.open and not run.expired and not run.proved:
            old = max(tree.bound - tree.incumbent, tree.fathom_margin)
            new = max(dnn_tree.bound - tree.incumbent, tree.fathom_margin)
            if new <= old and not is_noted:
                is_noted = True
                self._note_gaps(old, new)
            share = min(old / new, policy.largest_gap_ratio) ** 2
            if dnn_tree.nodes == 0:
                share = max(1.0, share)
            is_alone = self.group is not None or (is_hopeless and dnn_tree.nodes == 0)
            if is_alone or (dnn_tree.iterations + policy.dnn_slice) * each <= share * tree.work.total:
                made = dnn_tree.iterations
                dnn_tree.advance(policy.dnn_slice)
                dnn_tree.report()
                self._improve(max(dnn_tree.iterations - made, 1) * each)
            else:
                self._expand_first_order()

    def _note_gaps(self, old: float, new: float) -> None:
        unit = max(abs(self.run.objective or 0.0), 1e-300) * self.tree.scaled.factor
        self.run.note(
            f"a gap of {old / unit:.2g} after first-order nodes; doubly nonnegative ones make it {new / unit:.2g}"
        )

    def _expand_first_order(self) -> None:
        """Advance the first-order tree by a spell."""
        before = self.tree.work.total
        self.tree.advance()
        if self.tree.open and self.tree.work.total > self.policy.heuristic_from:
            self._improve(self.tree.work.total - before)

    def _improve(self, work: float) -> None:
        """Advance the heuristic by its share of the work that the trees have just done."""
        policy = self.policy
        self.done += work
        if self.run.objective != self.best:
            self.best, self.done_at_improvement = self.run.objective, self.done
        is_idle = self.done > max(2 * self.done_at_improvement, policy.idle_heuristic_from)
        share = policy.idle_heuristic_share if is_idle else policy.heuristic_share
        self.heuristic_debt += share / (1 - share) * work
        each = policy.move_work * self.tree.problem.n
        while self.heuristic_debt > 0 and not self.run.expired:
            moves = self.heuristic.advance(policy.heuristic_slice)
            if moves == 0:
                break
            self.heuristic_debt -= moves * each
        self.tree.refresh_incumbent()
