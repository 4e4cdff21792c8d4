"""The tree over staircases, the node of the largest bound first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.circle.form import Form
from solvers.dispersion.kernels import load
from solvers.run import Run

__all__ = ["Tree"]

#: Selections that make the point of a relaxation, at most.
_ATOMS = 40

#: Longest paths for a node, at most; and entries of the table filled at a time, some 50 ms, where those are fewer.
_STEPS, _WORK = 60, 30_000_000


@dataclass
class Node:
    """Ranks and an interval of sums; selections with weights from the relaxation of the node above."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    sums: NDArray[np.float64]
    atoms: NDArray[np.int64]
    weights: NDArray[np.float64]
    x: NDArray[np.float64]

    def child(self, chosen: NDArray[np.intp]) -> Node:
        """A node to narrow, with the selections that count."""
        return Node(
            self.lower.copy(), self.upper.copy(), self.sums.copy(), self.atoms[chosen], self.weights[chosen], self.x
        )


class Tree:
    """Open nodes by bound.

    Parameters
    ----------
    form : Form
        The problem.
    run : Run
        Clock and incumbent.
    """

    def __init__(self, form: Form, run: Run) -> None:
        self.form, self.run = form, run
        self.kernels = load("circle", run)
        n, m = form.problem.n, form.problem.size
        self.table = np.empty(form.entries)
        self.numbers = (form.shape.at, form.cosine, form.sine, form.linear, form.scale, form.curve, form.shape.chords)
        self.steps = max(3, min(_STEPS, _WORK // self.table.size))
        self.best, self.found = np.zeros(m, dtype=np.int64), np.zeros(2)
        run.nodes = 0
        self.left = -np.inf  # the bound of nodes that neither branch nor fall
        reach = m * (1.0 + float(np.abs(form.shape.at).max()))
        ranks = np.arange(n + 1)
        root = Node(
            *(np.maximum(0, ranks - (n - m)), np.minimum(ranks, m), np.array([-reach, reach])),
            *(np.zeros((0, m), np.int64), np.zeros(0), np.full(n, m / n)),
        )
        self.open: list[tuple[float, int, Node]] = [(-np.inf, 0, root)]
        self.pushed = 0

    @property
    def tolerance(self) -> float:
        """How far below a bound the incumbent may stay, in the problem's units: rounding, where that is possible."""
        objective, form = self.run.objective, self.form
        optimal = form.problem.tolerance_at(objective or 0.0)
        return min(0.4 * optimal, 2 * form.margin)

    def advance(self) -> None:
        """Look at the node with the largest bound."""
        form, run = self.form, self.run
        _, _, node = heapq.heappop(self.open)
        run.nodes = (run.nodes or 0) + 1
        atoms, weights = np.zeros((_ATOMS, form.problem.size), np.int64), np.zeros(_ATOMS)
        atoms[: len(node.weights)], weights[: len(node.weights)] = node.atoms, node.weights
        node.atoms, node.weights, node.x = atoms, weights, node.x.copy()
        end, bound, place, rank = self.kernels.look(
            *self.numbers,
            *(node.lower, node.upper, node.sums, atoms, weights, node.x),
            *(self._least(), self.steps, self.table, self.best, self.found),
        )
        if self.found[0] > -np.inf and (run.objective is None or self.found[0] > form.value(run.objective)):
            run.offer(form.decision(self.best))
        if end == self.kernels.LEAF:
            width = node.upper - node.lower
            place = int(width.argmax())
            if width[place] and bound > self._provable():
                # The point is whole by chance, or its relaxation is not at its end: any rank that is open will do.
                self._branch(node, bound, place, int(node.lower[place] + node.upper[place]) // 2)
            else:
                self.left = max(self.left, bound)
        elif end != self.kernels.DROPPED and bound > self._least():
            self._branch(node, bound, place, rank)
        self._settle()

    def _least(self) -> float:
        """Nodes of no larger bound are dropped."""
        objective = self.run.objective
        return -np.inf if objective is None else self.form.value(objective + self.tolerance)

    def _provable(self) -> float:
        """Nodes of no larger bound do not keep the incumbent from being proved."""
        objective = self.run.objective
        if objective is None:
            return -np.inf
        return self.form.value(objective + 0.4 * self.form.problem.tolerance_at(objective))

    def _branch(self, node: Node, bound: float, place: int, rank: int) -> None:
        """Push both children: fewer or more clients before a place, or less or more than a sum."""
        chosen = np.flatnonzero(node.weights)
        first, second = node.child(chosen), node.child(chosen)
        if place:
            first.upper[place], second.lower[place] = rank, rank + 1
        else:
            first.sums[1] = second.sums[0] = self.found[1]
        for child in (first, second):
            self.pushed += 1
            heapq.heappush(self.open, (-bound, self.pushed, child))

    def _settle(self) -> None:
        """Drop what is not worth looking at, and tell the run the bound."""
        run, form = self.run, self.form
        if self.open and -self.open[0][0] <= self._least():
            self.open.clear()  # the largest bound comes first
        highest = max(-self.open[0][0] if self.open else -np.inf, self.left)
        if run.objective is not None:
            known = run.objective + self.tolerance
            run.tighten(max(known, form.original(highest) if np.isfinite(highest) else -np.inf) + form.margin)
