"""Swap ascent for the coverage problem: the fast interchange of Whitaker, in blocks of candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.coverage.problem import CoverageProblem
from solvers.dispersion.kernels import load
from solvers.run import Run
from solvers.subsets import from_clients

#: Numbers in a block of candidates that is evaluated at once: 4 megabytes, which caches hold.
_BLOCK = 500_000


class Service(NamedTuple):
    """Place of each row's representative among the selected with its similarity, and those of the next best."""

    owner: NDArray[np.int64]
    first: NDArray[np.float64]
    runner: NDArray[np.int64]
    second: NDArray[np.float64]

    @classmethod
    def of(cls, rows: int) -> Service:
        """Make room for so many rows."""
        return cls(np.empty(rows, np.int64), np.empty(rows), np.empty(rows, np.int64), np.empty(rows))


def kernel(problem: CoverageProblem, run: Run, steps: float | None) -> Any:
    """Return the compiled inner loops, for the precision of the problem's similarities."""
    return load("coverage", run, precision=problem.similarity.dtype.name, steps=steps)


def ascend(problem: CoverageProblem, run: Run, clients: NDArray[np.int64], sweeps: int | None = None) -> None:
    r"""Improve a selection by swaps until none does; offer what it becomes where that is as good as the incumbent.

    A row i is worth :math:`d_i` now and :math:`e_i` without its representative. With candidate j for the selected r
    the objective changes by :math:`c_r - c_j + \sum_i \max(0, s_{ij} - d_i) - \sum_{i \to r} (d_i - \max(e_i,
    \min(s_{ij}, d_i)))`, c the costs: O(N) for j and all r together (Whitaker 1983; Resende and Werneck 2007).

    Parameters
    ----------
    problem : CoverageProblem
        The problem.
    run : Run
        Clock and incumbent.
    clients : (m,) ndarray of int
        The selection to begin with, which is not offered itself.
    sweeps : int, optional
        Passes over the candidates at most; until no swap improves by default.
    """
    similarity, m, n = problem.similarity, problem.size, problem.n
    chosen = np.array(clients)
    if m == n:
        return
    least = 1e-12 * problem.scale  # an improvement that is no rounding
    width = min(n, max(1, _BLOCK // similarity.shape[0]))
    starts = range(0, n, width)
    quiet, block, passes = 0, 0, 0
    inner = kernel(problem, run, steps=20.0 * similarity.size)
    service = Service.of(len(similarity))
    inner.serve(similarity, chosen, -1, *service)
    while quiet < len(starts) and not run.expired:
        start = starts[block]
        block = (block + 1) % len(starts)
        if block == 0:
            passes += 1
            if sweeps is not None and passes > sweeps:
                break
        quiet += 1
        gain = np.empty(min(width, n - start))
        loss = np.empty((m, gain.size))
        run.spend((2 * len(similarity) + m) * gain.size)
        inner.compare(similarity, start, service.owner, service.first, service.second, gain, loss)
        gain -= problem.costs[start : start + gain.size]
        loss -= problem.costs[chosen][:, None]
        gain[chosen[(chosen >= start) & (chosen < start + gain.size)] - start] = -np.inf
        loss -= gain
        if problem.is_constrained:
            places = np.arange(start, start + gain.size)
            loss[~problem.feasible.swaps(from_clients(chosen, n), chosen, places)] = np.inf
        out, into = np.unravel_index(int(loss.argmin()), loss.shape)
        if -loss[out, into] <= least:
            continue
        chosen[out] = start + into
        inner.serve(similarity, chosen, out, *service)
        quiet = 0
        value = float(service.first.sum()) - float(problem.costs[chosen].sum())
        if run.objective is None or value >= run.objective:
            run.offer(from_clients(chosen, n))


def perturb(problem: CoverageProblem, run: Run, kicks: int) -> None:
    """Improve the incumbent by iterated swap ascent: exchange three candidates at random, ascend, keep the better.

    Parameters
    ----------
    problem : CoverageProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    kicks : int
        Kicks without an improvement after which it ends.
    """
    assert run.x is not None
    exchanged = min(3, problem.size, problem.n - problem.size)
    failed = 0
    while failed < kicks and exchanged and not run.expired:
        best = run.objective
        ascend(problem, run, problem.feasible.exchanged(run.x, exchanged, run.rng))
        failed = 0 if run.objective != best else failed + 1
