"""Method ``tabu`` between kinds: tabu search among the clients nearest to the local optimum's counts."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.kernels import load
from solvers.dispersion.kinds.counts import Counts
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.kinds.tree import filled
from solvers.dispersion.methods.tabu import tabu as tabu_with_matrix
from solvers.dispersion.problem import DispersionProblem
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["tabu"]

#: Clients of the small problem, about.
_SMALL = 600


@method(KindDispersionProblem, "tabu", kind="heuristic")
def tabu(problem: KindDispersionProblem, run: Run, *, moves: int = 20_000) -> None:
    """Exchanges between kinds, then tabu search over the clients who are the next to leave or to come, of each kind.

    Parameters
    ----------
    problem : KindDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    moves : int
        Swaps made in the search.

    Raises
    ------
    InvalidOption
        When ``moves`` is negative.
    """
    if moves < 0:
        raise InvalidOption(f"moves must not be negative; got {moves}")
    form = Counts(problem)
    counts = filled(form, run)
    least = 1e-12 * problem.scale
    load("counts", run).ascend(form.q, form.start, form.steps, counts, 10 * problem.size, least)
    run.offer(form.decision(counts))
    reach = max(1, _SMALL // (2 * problem.k))
    room = np.diff(form.start)
    held = np.maximum(counts - reach, 0)
    some = np.concatenate(
        [form.order[a + low : a + high] for a, low, high in _ranges(form.start, held, counts + reach, room)]
    )
    d, kinds = problem.distances, problem.kinds[some]
    h = d[np.ix_(kinds, kinds)]
    np.fill_diagonal(h, 0.0)
    costs = problem.costs[some] - 2 * problem.weight * (d @ held)[kinds]
    size = problem.size - int(held.sum())
    small = DispersionProblem(h, costs, size=size, weight=problem.weight)
    inner = Run(small, run.method, run.remaining if run.time_limit is not None else None, run.seed)
    x = form.decision(counts)
    inner.offer(x[some])
    tabu_with_matrix(small, inner, moves=moves)
    if inner.x is not None:
        x[some] = inner.x
        run.offer(x)


def _ranges(start: np.ndarray, low: np.ndarray, high: np.ndarray, room: np.ndarray) -> list[tuple[int, int, int]]:
    """Where each kind's steps begin, and which of them are in the small problem."""
    return list(zip(start[:-1].tolist(), low.tolist(), np.minimum(high, room).tolist(), strict=True))
