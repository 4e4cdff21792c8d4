"""Method ``ca-fed``: the two greedy passes of CA-Fed's Algorithm 1."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.exclusion.problem import ExclusionProblem

__all__ = ["ca_fed"]


@method(ExclusionProblem, "ca-fed", kind="heuristic")
def ca_fed(
    problem: ExclusionProblem,
    run: Run,
    *,
    order: Literal["signed", "absolute"] = "signed",
    ties: Literal["exclude", "keep"] = "exclude",
) -> None:
    r"""Exclude clients one by one, most correlated first, then least available first (Algorithm 1).

    Each pass examines every client once and excludes it where that lowers the estimate by at least τ. With
    :math:`\bar e` the mean loss gap of the kept, a their importance and m = 1 − a, excluding j lowers it by
    :math:`\alpha_j (e_j - \bar e) / (a - \alpha_j) - \alpha_j (2m + \alpha_j) \Gamma'`: one step costs O(1). Equal
    keys are examined by client id. The last client is never excluded (the authors' code has this guard, the paper's
    pseudo-code would divide zero by zero).

    Parameters
    ----------
    problem : ExclusionProblem
        The problem.
    run : Run
        Clock and incumbent.
    order : {"signed", "absolute"}
        First pass by descending λ, as Algorithm 1 says, or by descending \|λ\|, as the authors' code does. They
        differ for clients with λ < 0, whose state alternates and who are never away for long: examined last here.
    ties : {"exclude", "keep"}
        At τ = 0, whether an exclusion that changes nothing is made. Algorithm 1's ``≥ τ`` makes it, with the
        consequence that *all* loss gaps zero (the first round under the running minimum of Sec. IV-B) leave a single
        client; ``"keep"`` asks for a strict improvement.

    Raises
    ------
    InvalidOption
        When an option is not one of those.
    """
    if order not in ("signed", "absolute"):
        raise InvalidOption(f"order must be 'signed' or 'absolute'; got {order!r}")
    if ties not in ("exclude", "keep"):
        raise InvalidOption(f"ties must be 'exclude' or 'keep'; got {ties!r}")
    run.offer(passes(problem, order, strict=ties == "keep"))


def passes(problem: ExclusionProblem, order: str = "signed", strict: bool = False) -> NDArray[np.bool_]:
    """The clients that both passes keep."""
    correlation = problem.correlation if order == "signed" else np.abs(problem.correlation)
    first = np.argsort(-correlation, kind="stable")
    second = np.argsort(problem.availability, kind="stable")
    importance, gaps = problem.importance.tolist(), problem.loss_gaps.tolist()
    gamma, threshold = problem.gamma, problem.threshold
    kept = [True] * problem.n
    count = problem.n
    mass = exact = math.fsum(importance)
    loss = math.fsum(a * e for a, e in zip(importance, gaps, strict=True))
    excluded = 0.0
    for k in (*first.tolist(), *second.tolist()):
        if not kept[k]:
            continue
        if count == 1:
            break
        a = importance[k]
        rest = mass - a
        if rest <= 1e-3 * exact:
            # Subtracting has left rounding behind: sum afresh before it matters beside what is left.
            others = [j for j in range(problem.n) if kept[j] and j != k]
            rest = math.fsum(importance[j] for j in others)
            mass = exact = rest + a
            loss = math.fsum(importance[j] * gaps[j] for j in others) + a * gaps[k]
        gain = a * ((gaps[k] - loss / mass) / rest - (2.0 * excluded + a) * gamma)
        if gain > threshold or (gain == threshold and not strict):
            kept[k] = False
            count -= 1
            mass = rest
            loss -= a * gaps[k]
            excluded += a
    return np.array(kept)
