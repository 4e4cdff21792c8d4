"""Method ``corollary``: FedAU's rule for the cutoff."""

from __future__ import annotations

import math

from solvers.participation.problem import CutoffProblem
from solvers.registry import method
from solvers.run import Run


@method(CutoffProblem, "corollary", kind="heuristic")
def corollary(problem: CutoffProblem, run: Run) -> None:
    r"""Corollary 4's rule, :math:`K = \lceil \ln T / (-2 \ln(1 - p_{\min})) \rceil`, at least 1.

    The smallest K for which every client's bias :math:`(1 - p)^{2K}` is at most 1/T.
    """
    run.offer(corollary_cutoff(problem))


def corollary_cutoff(problem: CutoffProblem) -> int:
    """The cutoff of Corollary 4; a quotient within rounding of an integer counts as that integer."""
    slowest = float(problem.rates.min())
    if slowest == 1.0:
        return 1
    quotient = math.log(problem.horizon) / (-2.0 * math.log1p(-slowest))
    return max(1, math.ceil(quotient * (1.0 - 1e-12)))
