"""Method ``as-printed``: the case search of Eqs. 22-23 to the letter."""

from __future__ import annotations

import math

import numpy as np

from solvers.capping.problem import CappingProblem
from solvers.capping.water_level import TIE
from solvers.registry import method
from solvers.run import Run

__all__ = ["as_printed"]


@method(CappingProblem, "as-printed", kind="heuristic")
def as_printed(problem: CappingProblem, run: Run) -> None:
    r"""Search the cases of Eqs. 22-23 as the paper prints them; wrong for some weights when σ > 0.

    The printed sums split the clients by :math:`w_j \le \Psi_{i_v}` with :math:`\Psi_i = w_i / (1 - \sigma)`. A case is
    accepted when its own α satisfies :math:`\Psi_{i_v} \le \alpha < \Psi_{i_{v+1}}`; of several, the one with the
    largest α ("as large as possible", Claim 1). The right split compares Ψ with Ψ (``exact-search``); they differ when
    a weight lies in :math:`(w_{i_v}, w_{i_v} / (1 - \sigma)]`. Weights (5, 4, 1, 1, 1) with k = 3, σ = 0.2 then give
    the first client the "probability" 1.0136.

    An answer that is no feasible decision is not offered: ``stopped`` is ``"error"`` and ``raw`` has it.
    """
    if problem.mass == 0:
        run.offer(np.full(problem.n, problem.size / problem.n))
        return
    n, floor, room = problem.n, problem.floor, problem.room
    logs = problem.log_shares  # a common factor of the weights cancels everywhere below
    weights = np.exp(logs - logs.max())
    raw = floor + np.exp(logs)
    if raw.max() > 1 + TIE:
        ascending = np.sort(weights)
        psi = ascending / room
        below = np.searchsorted(ascending, psi * (1 + TIE), side="right")  # clients with w ≤ Ψ of case v
        total = np.concatenate([[0.0], np.cumsum(ascending)])[below]
        left = problem.mass - room * (n - below)
        alpha = np.divide(total, left, out=np.full(n, math.nan), where=left > 0)
        accepted = np.flatnonzero((psi <= alpha) & (alpha < np.append(psi[1:], 0.0)))
        largest = float(alpha[accepted].max(initial=0.0))
        if not largest > 0:
            run.stop("error", "no case of Eqs. 22-23 as printed passes its own test")
            return
        cut = np.minimum(weights, room * largest)
        raw = floor + problem.mass * cut / cut.sum()
        run.details["alpha"] = largest * math.exp(min(709.0, float(problem.logs.max())))
    run.details["raw"] = raw
    if problem.violation(raw) <= problem.tolerance:
        run.offer(np.minimum(raw, 1.0))
    else:
        run.stop("error", f"Eqs. 22-23 as printed give probabilities up to {raw.max():.6g} that sum to {raw.sum():.6g}")
