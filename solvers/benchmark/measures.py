r"""Measures of one solve, computed from its anytime trace.

Times are in seconds since the solve began; a trace is a sequence of ``(second, objective, bound)``, as on
`solvers.Solution`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.problem import tolerance_at
from solvers.solution import relative_gap

__all__ = [
    "Trace",
    "distance",
    "is_better",
    "primal_gap",
    "primal_integral",
    "slack",
    "time_to_incumbent",
    "time_to_proof",
]

Trace = Sequence[Sequence[float | None]]


def is_better(first: float, second: float, sense: str) -> bool:
    """Whether objective ``first`` is strictly better than ``second`` for ``sense`` "max" or "min"."""
    return first > second if sense == "max" else first < second


def slack(value: float, scale: float) -> float:
    """Difference at which two objectives count as one: rounding, 1e-9 · min(max(1, |value|), scale)."""
    return tolerance_at(value, scale, 1e-9)


def distance(objective: float, best: float) -> float:
    """Relative distance of an objective to the best one: |objective − best| / |best|, inf where only the best is 0.

    This is `solvers.relative_gap` of the best value. Both senses count away from the best value.
    """
    return relative_gap(best, objective)


def primal_gap(objective: float | None, best: float) -> float:
    """Primal gap γ ∈ [0, 1] of Berthold (2013), Eq. 2: |best − objective| / max(|best|, |objective|).

    1 without an objective and where the two have different signs, 0 where they are equal. It needs no sense, as it
    measures a distance to the best value; unlike `distance` it changes when a constant is added to the objective.
    """
    if objective is None:
        return 1.0
    if objective == best:
        return 0.0
    if objective * best < 0:
        return 1.0
    return abs(best - objective) / max(abs(best), abs(objective))


def primal_integral(trace: Trace, best: float, end: float) -> float:
    r"""Primal integral :math:`P(T) = \int_0^T p(t)\,dt` of Berthold (2013), in seconds.

    p(t) is `primal_gap` of the incumbent at t, and 1 before there is one: 0 for a method that holds the best known
    decision at once, T for one that finds nothing. A method that ends before T keeps its last incumbent.

    Parameters
    ----------
    trace : sequence of (second, objective, bound)
        The anytime trace.
    best : float
        Best known objective.
    end : float
        T in seconds: the time limit, or where there is none the length of the solve.

    References
    ----------
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41(6):611-614, 2013,
    doi:10.1016/j.orl.2013.08.007.
    """
    total, since, gap = 0.0, 0.0, 1.0
    for second, objective, _ in trace:
        assert second is not None
        now = min(max(second, since), end)
        total += gap * (now - since)
        since, gap = now, primal_gap(objective, best)
    return total + gap * (end - since)


def time_to_incumbent(trace: Trace) -> float:
    """Second at which the final objective was first held; NaN without one."""
    found, value = math.nan, None
    for second, objective, _ in trace:
        if objective is not None and objective != value:
            assert second is not None
            found, value = second, objective
    return found


def time_to_proof(trace: Trace, bound_gap: float) -> float:
    """Second at which objective and bound first lay within ``bound_gap`` of each other; NaN if never."""
    for second, objective, bound in trace:
        if objective is not None and bound is not None and abs(bound - objective) <= bound_gap:
            assert second is not None
            return second
    return math.nan
