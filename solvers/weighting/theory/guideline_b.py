"""CA-Fed's guideline B, exactly: leave out the most correlated clients, in at most n convex problems."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidOption, InvalidProblem
from solvers.run import Run
from solvers.solution import Solution
from solvers.solving import solve
from solvers.weighting.checks import non_negative, per_client
from solvers.weighting.total_error.problem import TotalErrorProblem

__all__ = ["CorrelationSweep", "sweep_correlation"]


@dataclass(frozen=True, eq=False)
class CorrelationSweep:
    """The answer of `sweep_correlation`.

    Attributes
    ----------
    x : (n,) ndarray
        The best weights q over all clients, 0 on those left out.
    objective : float
        Their total error, with the constant of the correlation they leave.
    bound : float
        A valid lower bound over all weights and all thresholds.
    threshold : float
        Largest λ that was kept.
    thresholds, objectives : (m,) ndarray
        Every threshold that was solved, ascending, and the total error at it; thresholds that cannot win are absent.
    solution : Solution
        The answer of the winning convex problem, over the kept clients.
    """

    x: NDArray[np.float64]
    objective: float
    bound: float
    threshold: float
    thresholds: NDArray[np.float64]
    objectives: NDArray[np.float64]
    solution: Solution


def sweep_correlation(
    problem: TotalErrorProblem,
    correlation: ArrayLike,
    phi: float,
    *,
    method: str = "auto",
    time_limit: float | None = None,
) -> CorrelationSweep:
    r"""Minimise the total error where leaving clients out also lowers the correlation (guideline B).

    Of independent clients only those with q > 0 shape the chain, so that
    :math:`C = \psi + \phi / \ln(1/\lambda(P'))` with :math:`\lambda(P') = (\max_{q_k > 0} \lambda_k + 1)/2` (Rodio
    et al., INFOCOM 2023, Sec. III-D) depends on the *support* of q, but only through its largest λ. For each
    distinct λ the problem over the clients of at most that λ is convex; the best of them is the optimum. They are
    solved from the largest λ down: the rest of the error only grows as clients leave, so a threshold whose constant
    plus that rest cannot win is skipped. (φ, C_P, T_P and M would shrink with the support too; like the paper's
    guideline this keeps them.)

    Parameters
    ----------
    problem : TotalErrorProblem
        With ``bias="tv"`` (χ² is infinite as soon as a client is left out) and ``constant`` ψ alone.
    correlation : (n,) array-like
        λ_k in [-1, 1) of each client. The chain's rate needs λ(P') > 0, which holds for every λ > -1.
    phi : float
        φ ≥ 0 of Theorem 2.
    method : str
        Method of the convex problems.
    time_limit : float, optional
        Seconds for the whole sweep; the best so far comes back, with a bound that covers what was not solved.

    Returns
    -------
    CorrelationSweep

    Raises
    ------
    InvalidProblem
        When the bias is χ² or the correlation is out of range.
    InvalidOption
        When the time limit is not positive.
    """
    if problem.bias != "tv":
        raise InvalidProblem("guideline B needs bias='tv': χ² is infinite as soon as a client is left out")
    lam = per_client(correlation, "correlation", problem.n)
    if (wrong := (lam <= -1) | (lam >= 1)).any():
        k = int(np.flatnonzero(wrong)[0])
        raise InvalidProblem(f"correlation must lie strictly between -1 and 1; client {k} has {lam[k]:g}")
    if time_limit is not None and not (time_limit > 0 and math.isfinite(time_limit)):
        raise InvalidOption(f"time_limit must be a positive number of seconds or None; got {time_limit!r}")
    phi = non_negative(phi, "phi")
    clock = Run(problem, "sweep", time_limit, 0)
    solved: list[tuple[float, float, Solution]] = []
    rest = -math.inf  # lower bound on the total error without the correlation's constant, growing as clients leave
    best = bound = math.inf
    for threshold in np.unique(lam)[::-1]:
        constant = phi / math.log(2.0 / (float(threshold) + 1.0))
        if rest + constant >= best:
            continue
        kept = lam <= threshold
        part = problem.restricted(kept)
        if solved and clock.expired:
            # Constants only shrink from here on; the smallest λ has the smallest.
            bound = min(bound, rest + phi / math.log(2.0 / (float(lam.min()) + 1.0)))
            break
        answer = solve(part, method, time_limit=max(clock.remaining, 1e-3) if time_limit is not None else None)
        assert answer.objective is not None
        if answer.bound is not None:
            rest = max(rest, answer.bound)
        solved.append((float(threshold), answer.objective + constant, answer))
        bound = min(bound, rest + constant)
        best = min(best, answer.objective + constant)
    threshold, objective, solution = min(solved, key=lambda entry: entry[1])
    x = np.zeros(problem.n)
    x[lam <= threshold] = solution.x
    return CorrelationSweep(
        x=x,
        objective=objective,
        bound=min(bound, objective),
        threshold=threshold,
        thresholds=np.array([entry[0] for entry in reversed(solved)]),
        objectives=np.array([entry[1] for entry in reversed(solved)]),
        solution=solution,
    )
