"""The branch and bound over counts, and what the methods for kinds share."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.kinds.counts import Counts
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

__all__ = ["Tree", "filled"]

#: Seconds between two looks at the clock.
_SPELL = 0.05

#: Open nodes, at most: with depth first there are about as many as a branch is deep.
_STACK = 5_000


def filled(form: Counts, run: Run) -> NDArray[np.int64]:
    """The counts of the run's decision; of the greedy one, which is offered, where there is none."""
    kernels = load("counts", run)
    if run.x is not None:
        return form.counts(run.x)
    counts = np.zeros(form.problem.k, dtype=np.int64)
    kernels.fill(form.q, form.start, form.steps, counts, form.problem.size)
    run.offer(form.decision(counts))
    return counts


@dataclass
class Box:
    """Bounds on the counts of every decision that may be better, a point between them, and a bound."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    point: NDArray[np.float64]
    bound: float


class Tree:
    """Open nodes over counts, the last one looked at first.

    Parameters
    ----------
    form : Counts
        The problem over counts.
    run : Run
        Clock and incumbent; there must be one.
    counts : (k,) ndarray of int
        Its counts.
    """

    def __init__(self, form: Counts, run: Run, counts: NDArray[np.int64]) -> None:
        self.form, self.run = form, run
        k = form.problem.k
        self.kernels = load("counts", run)
        self.lowers, self.uppers = np.zeros((_STACK, k), np.int64), np.zeros((_STACK, k), np.int64)
        self.points, self.bounds = np.zeros((_STACK, k)), np.zeros(_STACK)
        self.uppers[0] = np.diff(form.start)
        self.points[0], self.bounds[0] = counts, np.inf
        self.open, self.nodes, self.spell, self.tolerance = 1, 0, 50, 0.0

    def advance(self, nodes: int | None = None) -> None:
        """Look at some nodes, by default for some 50 ms; tell the run about better decisions and the bound."""
        start, nodes = time.perf_counter(), self.spell if nodes is None else nodes
        done, self.open = self._explore(self.lowers, self.uppers, self.points, self.bounds, self.open, nodes)
        self.nodes += done
        self.spell = max(10, int(done * min(4.0, _SPELL / max(time.perf_counter() - start, 1e-6))))
        if self.open:
            self.settle(float(self.bounds[: self.open].max()))
        else:
            self.settle(-np.inf)

    def settle(self, open_bound: float) -> None:
        """Tell the run the bound: of the open nodes, or what the others were dropped for."""
        run, form = self.run, self.form
        assert run.objective is not None
        bound = max(run.objective + self.tolerance, open_bound) + form.margin
        if np.isfinite(bound):
            run.tighten(bound + form.problem.rounding)

    def probe(self, passes: int = 8) -> None:
        """Cut off, kind by kind, the largest counts that a node of their own shows to be worth nothing.

        Where distances within kinds keep the quadratic from being concave, its envelope is as wide as the counts may
        become, and this is what makes it tight. Kinds are often alike: the limit of one is the first guess for the
        next. Every cut makes all later bounds tighter, so that several passes pay.
        """
        first = slice(0, self.open)
        box = Box(
            self.lowers[first].min(axis=0),
            self.uppers[first].max(axis=0),
            self.points[0].copy(),
            float(self.bounds[first].max()),
        )
        for _ in range(passes):
            width, guess = int((box.upper - box.lower).sum()), 0
            for kind in np.argsort(box.lower - box.upper, kind="stable").tolist():
                guess = self._limit(box, kind, guess)
                if self.run.expired:
                    break
            if int((box.upper - box.lower).sum()) > 0.95 * width:
                break
        self.lowers[0], self.uppers[0], self.points[0], self.bounds[0] = box.lower, box.upper, box.point, box.bound
        self.open = 1

    def _limit(self, box: Box, kind: int, guess: int) -> int:
        """Lower one kind's largest count; ``guess`` may be the limit. Return the limit found."""
        base = max(int(np.ceil(box.point[kind])), int(box.lower[kind]))
        middle = guess + 1 if base < guess + 1 <= box.upper[kind] else (base + int(box.upper[kind])) // 2 + 1
        while base < box.upper[kind] and not self.run.expired:
            left = self._worth(box, kind, middle)
            if left < middle and middle == guess + 1:
                box.upper[kind] = guess
                break
            box.upper[kind] = min(int(box.upper[kind]), max(left, middle - 1))
            if left >= middle:
                base = middle
            middle = (base + int(box.upper[kind])) // 2 + 1
        return int(box.upper[kind])

    def _worth(self, box: Box, kind: int, count: int) -> int:
        """The largest count of a kind that may be worth something among those from ``count`` on; less if none is."""
        lowers, uppers = np.tile(box.lower, (4, 1)), np.tile(box.upper, (4, 1))
        lowers[0, kind] = count
        points, bounds = np.tile(box.point, (4, 1)), np.full(4, box.bound)
        done, left = self._explore(lowers, uppers, points, bounds, 1, 1)
        self.nodes += done
        return int(uppers[:left, kind].max()) if left else count - 1

    def _explore(
        self,
        lowers: NDArray[np.int64],
        uppers: NDArray[np.int64],
        points: NDArray[np.float64],
        bounds: NDArray[np.float64],
        count: int,
        nodes: int,
    ) -> tuple[int, int]:
        """Nodes looked at, and how many are left open; a better decision goes to the run."""
        form, run, problem = self.form, self.run, self.form.problem
        assert run.objective is not None
        best = np.zeros(problem.k, dtype=np.int64)
        known = run.objective
        self.tolerance = problem.tolerance_at(known, 0.4 * OPTIMALITY_GAP)
        done, left, value = self.kernels.explore(
            *(form.q, form.start, form.steps, problem.size, lowers, uppers, points, bounds, count),
            *(known, self.tolerance, form.margin, form.enough, best, nodes),
        )
        if value > known:
            run.offer(form.decision(best))
            # What was dropped against the kernel's value was worth no more than that; rounding is in the margin.
            self.tolerance += max(0.0, value - run.objective)
        return done, left
