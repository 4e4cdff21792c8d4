"""Swap ascent for the coverage problem: the fast interchange of Whitaker, in blocks of candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.coverage.problem import CoverageProblem
from solvers.run import Run
from solvers.subsets import from_clients

__all__ = ["ascend", "perturb"]

#: Numbers in a block of candidates that is evaluated at once: 4 megabytes, which caches hold.
_BLOCK = 500_000


def ascend(problem: CoverageProblem, run: Run, clients: NDArray[np.int64], sweeps: int | None = None) -> None:
    r"""Improve a selection by swaps until none does, and offer it.

    A row i is worth :math:`d_i` now and :math:`e_i` without its representative. With candidate j for the selected r
    the objective changes by :math:`\sum_i \max(0, s_{ij} - d_i) - \sum_{i \to r} (d_i - \max(e_i, \min(s_{ij},
    d_i)))`: O(N) for j and all r together (Whitaker 1983; Resende and Werneck 2007).

    Parameters
    ----------
    problem : CoverageProblem
        The problem.
    run : Run
        Clock and incumbent.
    clients : (m,) ndarray of int
        The selection to begin with; it has been offered.
    sweeps : int, optional
        Passes over the candidates at most; until no swap improves by default.
    """
    similarity, m = problem.similarity, problem.size
    chosen = np.array(clients)
    if m == problem.n:
        return
    least = 1e-12 * problem.scale  # an improvement that is no rounding
    per_block = max(1, _BLOCK // similarity.shape[0])
    blocks = [np.arange(start, min(start + per_block, problem.n)) for start in range(0, problem.n, per_block)]
    quiet, block, passes = 0, 0, 0
    owner, first, second = _served(similarity, chosen)
    while quiet < len(blocks) and not run.expired:
        candidates = np.setdiff1d(blocks[block], chosen)
        block = (block + 1) % len(blocks)
        if block == 0:
            passes += 1
            if sweeps is not None and passes > sweeps:
                return
        quiet += 1
        if not candidates.size:
            continue
        offered = similarity[:, candidates].astype(np.float64)
        gain = np.maximum(offered - first[:, None], 0.0).sum(axis=0)
        order = np.argsort(owner, kind="stable")
        held, starts = np.unique(owner[order], return_index=True)
        lost = (first[:, None] - np.clip(offered, second[:, None], first[:, None]))[order]
        loss = np.zeros((m, candidates.size))  # of each selected, which may represent nobody
        loss[held] = np.add.reduceat(lost, starts, axis=0)
        out, into = np.unravel_index(int((gain - loss).argmax()), loss.shape)
        if gain[into] - loss[out, into] <= least:
            continue
        chosen[out] = candidates[into]
        run.offer(from_clients(chosen, problem.n))
        owner, first, second = _served(similarity, chosen)
        quiet = 0


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
        clients = np.flatnonzero(run.x)
        outside = np.flatnonzero(run.x == 0)
        places = run.rng.choice(problem.size, exchanged, replace=False)
        clients[places] = run.rng.choice(outside, exchanged, replace=False)
        ascend(problem, run, clients)
        failed = 0 if run.objective != best else failed + 1


def _served(
    similarity: NDArray[np.floating], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Place of each row's representative among the selected, its similarity, and that of the next best."""
    served = similarity[:, chosen].astype(np.float64)
    owner = served.argmax(axis=1)
    rows = np.arange(served.shape[0])
    first = served[rows, owner].copy()
    served[rows, owner] = -np.inf
    second = served.max(axis=1) if chosen.size > 1 else np.full(rows.size, -np.inf)
    return owner, first, second
