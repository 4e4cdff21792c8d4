"""Problems over counts: the cheapest clients of each kind, a quadratic that is concave on the slice, and a tree."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import KindDispersionProblem
from solvers.dispersion.relaxations.slice_form import certified_excess
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue
from solvers.run import Run
from solvers.search import NodeOutcome, add_outcomes
from solvers.solution import OPTIMALITY_GAP

_EPS = float(np.finfo(np.float64).eps)


class Counts:
    r"""Maximise ``nᵀQn + Σ_a T_a(n_a)`` over counts: the objective, in the same units.

    :math:`Q = w (D - \mathrm{Diag}(\sigma))` is certainly negative semidefinite on :math:`1^\top z = 0`, for a uniform
    σ near the smallest of which that can be shown. It may be negative, where D is strictly of negative type; what σ
    takes off, :math:`w \sigma n_a^2`, is given back by T_a at whole numbers.

    Attributes
    ----------
    q : (k, k) ndarray
        Q.
    start : (k + 1,) ndarray of int
        Where each kind's steps begin.
    steps : ndarray
        What one more client of a kind adds to T_a.
    order : ndarray of int
        The clients behind the steps: of each kind the m cheapest at most, the cheapest first.
    margin : float
        What rounding can have taken from a bound.
    enough : float
        Largest slope at which a climb to a better point ends.
    """

    def __init__(self, problem: KindDispersionProblem, matrix: NDArray[np.float64] | None = None) -> None:
        self.problem = problem
        w, m, k = problem.weight, problem.size, problem.k
        self.start, self.order = cheapest_of_each(problem.kinds, problem.costs, k, m)
        sigma = 0.0
        if w > 0 and problem.diameter > 0:
            sigma = negative_type_excess(problem.distances)
        self.q = w * problem.distances
        index = np.arange(k)
        self.q[index, index] -= w * sigma
        height = np.arange(self.order.size) - np.repeat(self.start[:-1], np.diff(self.start))
        own = np.repeat(problem.distances.diagonal(), np.diff(self.start))
        self.steps = w * sigma * (2 * height + 1) - w * own - problem.costs[self.order]
        largest = w * (problem.diameter + abs(sigma)) * m + float(np.abs(problem.costs[self.order]).max())
        self.margin = 8 * (k + m + 32) * _EPS * 4 * m * largest
        self.enough = 1e-10 * max(problem.scale, 1e-300) / m

    def decision(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cheapest clients in these numbers, as a decision."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        for first, count in zip(self.start[:-1].tolist(), counts.tolist(), strict=True):
            x[self.order[first : first + count]] = 1
        return x

    def counts(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of each kind a decision takes."""
        return np.bincount(self.problem.kinds[x == 1], minlength=self.problem.k).astype(np.int64)


def negative_type_excess(distances: NDArray[np.float64]) -> float:
    """A number σ, near the smallest, for which ``D − σI`` is certainly negative semidefinite on ``1ᵀz = 0``."""
    k = len(distances)
    if k == 1:
        return 0.0
    unit = 2.0 ** -math.frexp(float(distances.max()))[1]
    d = distances * unit
    guess = top_eigenvalue(d, 1e-9)
    guess += 1e-12 * max(1.0, abs(guess)) * k
    return (guess + certified_excess(d, np.full(k, guess))) / unit


def cheapest_of_each(
    kinds: NDArray[np.int64], costs: NDArray[np.float64], k: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each kind the ``most`` cheapest clients, the cheapest first; ties go to the lower place.

    Returns
    -------
    (k + 1,) ndarray, ndarray
        Where each kind begins in the second array, and the clients.
    """
    if k > DEFAULT_POLICY.kinds_sorted_apart:
        every = np.lexsort((costs, kinds))
        ends = np.cumsum(np.bincount(kinds, minlength=k))
        rank = np.arange(kinds.size) - np.repeat(np.concatenate([[0], ends[:-1]]), np.diff(ends, prepend=0))
        order = every[rank < most]
        return np.concatenate([[0], np.cumsum(np.minimum(np.diff(ends, prepend=0), most))]), order
    # Sorting small integers is linear; only those that can matter are sorted by cost.
    grouped = np.argsort(kinds.astype(np.int16), kind="stable")
    parts, first = [], 0
    for count in np.bincount(kinds, minlength=k).tolist():
        members = grouped[first : first + count]
        first += count
        own = costs[members]
        if count > most:
            limit = np.partition(own, most - 1)[most - 1]
            near = own <= limit
            members, own = members[near], own[near]
        parts.append(members[np.argsort(own, kind="stable")[:most]])
    return np.concatenate([[0], np.cumsum([part.size for part in parts])]), np.concatenate(parts)


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


class CountsTree:
    """Open nodes over counts, the last one looked at first.

    Parameters
    ----------
    form : Counts
        The problem over counts.
    run : Run
        Clock and incumbent; there must be one.
    counts : (k,) ndarray of int
        Its counts.
    policy : Policy
        Tuning constants.
    """

    def __init__(self, form: Counts, run: Run, counts: NDArray[np.int64], policy: Policy = DEFAULT_POLICY) -> None:
        self.form, self.run, self.policy = form, run, policy
        k = form.problem.k
        self.kernels = load("counts", run)
        capacity = policy.kinds_stack
        self.lowers, self.uppers = np.zeros((capacity, k), np.int64), np.zeros((capacity, k), np.int64)
        self.points, self.bounds = np.zeros((capacity, k)), np.zeros(capacity)
        self.uppers[0] = np.diff(form.start)
        self.points[0], self.bounds[0] = counts, np.inf
        self.open, self.nodes, self.spell, self.tolerance = 1, 0, 50, 0.0

    def advance(self, nodes: int | None = None) -> None:
        """Look at some nodes, by default for some 50 ms; tell the run about better decisions and the bound."""
        start, nodes = time.perf_counter(), self.spell if nodes is None else nodes
        done, self.open = self._explore(self.lowers, self.uppers, self.points, self.bounds, self.open, nodes)
        self.run.spend(done * self.policy.kinds_node_work * self.lowers.shape[1])
        if self.run.counts_work:
            self.spell = self.policy.kinds_spell
        else:
            self.spell = max(
                10, int(done * min(4.0, self.policy.kinds_seconds / max(time.perf_counter() - start, 1e-6)))
            )
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
        next.
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
        _, left = self._explore(lowers, uppers, points, bounds, 1, 1)
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
        known, outcomes = run.objective, np.zeros(len(NodeOutcome), dtype=np.int64)
        self.tolerance = problem.tolerance_at(known, 0.4 * OPTIMALITY_GAP)
        done, left, value = self.kernels.explore(
            *(form.q, form.start, form.steps, problem.size, lowers, uppers, points, bounds, count),
            *(known, self.tolerance, form.margin, form.enough, best, nodes, outcomes),
        )
        self.nodes += done
        run.nodes = (run.nodes or 0) + done
        add_outcomes(run.details, outcomes.tolist())
        if value > known:
            run.offer(form.decision(best))
            # What was dropped against the kernel's value was worth no more than that; rounding is in the margin.
            self.tolerance += max(0.0, value - run.objective)
        return done, left
