"""Method ``local-search`` between kinds: exchanges between two kinds, from the greedy counts and from random ones."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.kernels import load
from solvers.dispersion.kinds.counts import Counts
from solvers.dispersion.kinds.problem import KindDispersionProblem
from solvers.dispersion.kinds.tree import filled
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["local_search"]


@method(KindDispersionProblem, "local-search", kind="heuristic")
def local_search(problem: KindDispersionProblem, run: Run, *, restarts: int = 20) -> None:
    """Exchange clients of two kinds, the best exchange first; the best local optimum wins.

    Parameters
    ----------
    problem : KindDispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    restarts : int
        Random selections to ascend from, beside ``start`` or the greedy one.

    Raises
    ------
    InvalidOption
        When ``restarts`` is negative.
    """
    if restarts < 0:
        raise InvalidOption(f"restarts must not be negative; got {restarts}")
    form = Counts(problem)
    kernels = load("counts", run)
    counts = filled(form, run)
    room = np.diff(form.start)
    for attempt in range(restarts + 1):
        if run.expired:
            return
        if attempt > 0:
            counts = run.rng.multivariate_hypergeometric(room, problem.size).astype(np.int64)
        kernels.ascend(form.q, form.start, form.steps, counts, 10 * problem.size, 1e-12 * problem.scale)
        run.offer(form.decision(counts))
