"""Method ``dwave-tabu``: the tabu search that D-Wave ships for its annealers' problems, on the problem as a QUBO."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.formats import to_qubo
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["dwave_tabu"]

#: Milliseconds of the first read (D-Wave's own default), and of the longest: the search cannot be interrupted.
_FIRST, _LONGEST = 20, 1000

#: Restarts of the one read that is made without a time limit.
_RESTARTS = 2


@method(DispersionProblem, "dwave-tabu", kind="heuristic", requires=("dwave", "dimod"), install="dwave-samplers")
def dwave_tabu(problem: DispersionProblem, run: Run, *, formulation: str = "penalty") -> None:
    """Multistart tabu search over single flips (Palubeckis 2004), as ``dwave.samplers.TabuSampler`` has it.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, seed and incumbent.
    formulation : {"penalty", "centred"}
        ``"penalty"`` is the QUBO of `solvers.dispersion.to_qubo`, from a random start; selections of another size are
        lost. ``"centred"`` takes out of the distances what is a constant on the slice, so that a smaller penalty does,
        starts from the greedy selection, and brings samples of another size to ``size`` clients and to a local optimum.

    Raises
    ------
    InvalidOption
        When the formulation is unknown.
    """
    if formulation not in ("penalty", "centred"):
        raise InvalidOption(f"formulation must be penalty or centred; got {formulation!r}")
    with run.loading():
        import dimod
        from dwave.samplers import TabuSampler
    with run.building():
        centred = formulation == "centred"
        q = _centred(problem) if centred else to_qubo(problem)[0]
        model = dimod.BinaryQuadraticModel(2 * np.triu(q, 1) + np.diag(q.diagonal()), "BINARY")
    start: NDArray[np.int64] | None = None
    if centred:
        start = ascend(problem, greedy_decision(problem), run)
        run.offer(start)
    sampler, length = TabuSampler(), _FIRST
    while not run.expired:
        limited = run.time_limit is not None
        settings: dict[str, Any] = (
            {"timeout": max(int(1000 * min(run.remaining, length / 1000)), 1)} if limited else _unlimited()
        )
        if start is not None:
            settings["initial_states"] = start[None, :]
        found = sampler.sample(model, seed=int(run.rng.integers(2**31)), **settings)
        x = found.record.sample[0].astype(np.int64)
        if centred:
            x = ascend(problem, _of_size(problem, x), run)
        if x.sum() == problem.size:
            run.offer(x)
            start = run.x.astype(np.int64) if run.x is not None else x
        length = min(2 * length, _LONGEST)
        if not limited:
            break
    if run.x is None:
        run.stop("error", f"no sample had {problem.size} clients")


def _unlimited() -> dict[str, int]:
    """Settings that end by counting, so that the seed decides; the timeout is a day."""
    return {"num_restarts": _RESTARTS, "timeout": 86_400_000}


def _centred(problem: DispersionProblem) -> NDArray[np.float64]:
    r"""A QUBO whose pairs have rows of mean zero.

    On the slice :math:`\sum_{ij} (a_i + a_j) s_i s_j = 2 m \sum_i a_i s_i`.
    The penalty is the spread of the gains at the greedy selection: too small to forbid a selection of another size,
    large enough to keep it near.
    """
    normal = Normal.of(problem)
    n, m = problem.n, problem.size
    means = normal.quadratic.mean(axis=1)
    half = means - means.mean() / 2
    pair, linear = normal.quadratic - half - half[:, None], normal.linear + 2 * m * half
    linear = linear - linear.mean()
    gains = linear + 2 * pair @ greedy_decision(problem)
    penalty = max(float(np.ptp(gains)), 1e-9)
    q = penalty - pair
    q[np.arange(n), np.arange(n)] -= linear + 2 * m * penalty
    return q


def _of_size(problem: DispersionProblem, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """The selection with clients left out, or taken in, one by one where that costs least."""
    x = x.copy()
    gains = 2 * problem.weight * (problem.distances.astype(np.float64) @ x) - problem.costs
    while (excess := int(x.sum()) - problem.size) != 0:
        client = int(
            np.where(x == 1, gains, np.inf).argmin() if excess > 0 else np.where(x == 0, gains, -np.inf).argmax()
        )
        x[client] ^= 1
        gains += (2 * x[client] - 1) * 2 * problem.weight * problem.row(client)
    return x
