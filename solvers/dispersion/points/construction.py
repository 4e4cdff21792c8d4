"""First decisions between points: greedy in batches, among the clients that lie far out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.points.problem import PointDispersionProblem
from solvers.dispersion.points.sums import potentials
from solvers.run import Run

__all__ = ["candidates", "greedy_decision"]

#: Clients whose mean distance says how far out a client lies.
_SAMPLE = 64

#: Candidates, at least.
_CANDIDATES = 4_096

#: Batches in which clients are added.
_BATCHES = 512


def candidates(problem: PointDispersionProblem, run: Run) -> NDArray[np.intp]:
    """The clients that gain most beside a sample of the others: enough of them to choose from."""
    n, m = problem.n, problem.size
    number = max(4 * m, _CANDIDATES)
    if number >= n:
        return np.arange(n)
    c = problem.coordinates
    sample = np.sort(np.random.default_rng(run.seed).choice(n, size=min(n, _SAMPLE), replace=False))
    sums = potentials(c, np.ascontiguousarray(c[:, sample]), np.ones(sample.size), run)
    promise = 2 * problem.weight * (m - 1) / sample.size * sums - problem.costs
    return np.sort(np.argpartition(-promise, number)[:number])


def greedy_decision(problem: PointDispersionProblem, run: Run) -> NDArray[np.int64]:
    """Add the clients of largest marginal gain in up to 512 batches until ``size`` are chosen.

    Sources as in `solvers.dispersion.methods.greedy`; ties go to the lowest place.
    """
    some = candidates(problem, run)
    c = np.ascontiguousarray(problem.coordinates[:, some])
    g = -problem.costs[some]
    x = np.zeros(problem.n, dtype=np.int64)
    left, batch = problem.size, -(-problem.size // _BATCHES)
    while left > 0:
        count = min(batch, left)
        chosen = np.argpartition(-g, count - 1)[:count] if count > 1 else np.array([g.argmax()])
        x[some[chosen]] = 1
        left -= count
        if left > 0:
            centres = np.ascontiguousarray(c[:, chosen])
            g += 2 * problem.weight * potentials(c, centres, np.ones(count), run)
            g[chosen] = -np.inf
    return x
