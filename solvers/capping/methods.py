"""Methods for capping problems: exact ones, the paper's case search as printed, and the common mistake."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.backends import clarabel_point, into_box
from solvers.capping.problem import TIE, CappingProblem, log_sum, tail_sums
from solvers.certificate_writers import certificate_writer, whole_numbers
from solvers.certificates import Certificate, problem_digest
from solvers.registry import method
from solvers.run import Run
from solvers.solution import Solution


def report(problem: CappingProblem, run: Run, capped: NDArray[np.bool_]) -> None:
    """Offer the probabilities that follow from (a subset of) the overflow set, with bound, duals and details."""
    x, multiplier, capped = problem.share_out(capped)
    run.offer(x)
    run.tighten(problem.dual_bound(multiplier))
    describe(problem, run, multiplier, capped)


def describe(problem: CappingProblem, run: Run, multiplier: float, capped: NDArray[np.bool_]) -> None:
    """Fill ``run.duals`` and ``run.details`` from the level and the overflow set.

    ``alpha`` is the paper's α_t (probability above the floor is w/α), ``cap`` the weight (1 − σ)α at which clients
    are capped; both are infinite when none is. Their logarithms are there too, for weights beyond 1e308.
    """
    if problem.mass == 0:
        upper = np.zeros(problem.n)
    else:
        upper = np.where(capped, problem.log_shares + multiplier - math.log(problem.room), 0.0)
        np.maximum(upper, 0.0, out=upper)
    log_alpha = math.inf
    if capped.any():
        log_alpha = problem.log_total - math.log(problem.mass) - multiplier
    log_cap = log_alpha + math.log(problem.room) if math.isfinite(log_alpha) else math.inf
    with np.errstate(over="ignore"):
        alpha, cap = float(np.exp(log_alpha)), float(np.exp(log_cap))
    run.duals = {"multiplier": multiplier, "upper": upper}
    run.details |= {
        "alpha": alpha,
        "log_alpha": log_alpha,
        "cap": cap,
        "log_cap": log_cap,
        "overflow": np.flatnonzero(capped),
    }


@method(CappingProblem, "exact-search", kind="exact")
def exact_search(problem: CappingProblem, run: Run) -> None:
    r"""Cap the m largest weights, m from sorted suffix sums in log space; O(K + k log k).

    m is the smallest number with :math:`(q - m(1 - \sigma))\, w_{(m+1)} \le (1 - \sigma) R_m`, where
    :math:`R_m = \sum_{j > m} w_{(j)}` over the weights in descending order; then :math:`\alpha = R_m / (q - m(1 -
    \sigma))`. Both are Eqs. 21-23 of the paper with the partition of Eqs. 22-23 corrected: the sums split where
    :math:`\Psi_j \le \Psi_{i_v}`, not where :math:`w_j \le \Psi_{i_v}` (the reading kept in ``as-printed``).
    """
    none = np.zeros(problem.n, dtype=bool)
    if problem.mass == 0 or problem.size == problem.n:
        report(problem, run, none)
        return
    # No more than q / (1 - σ) clients fit under the ceiling, so only that many need to be sorted.
    n, floor, room = problem.n, problem.floor, problem.room
    most = min(n, int(problem.mass / room) + 2)
    parted = np.partition(problem.log_shares, n - most)
    descending = np.sort(parted[n - most :])[::-1]
    tails = tail_sums(descending, parted[: n - most])
    m = np.arange(most)
    left = (problem.size - m) - (n - m) * floor
    holds = left * np.exp(descending - tails) <= room * (1 + TIE)
    first = int(holds.argmax()) if holds.any() else most - 1
    report(problem, run, problem.log_shares > descending[first])


@method(CappingProblem, "bisection", kind="exact")
def bisection(problem: CappingProblem, run: Run) -> None:
    r"""Bisect on μ in :math:`\sum_i \min(v_i e^\mu, 1 - \sigma) = q`, then finish in closed form.

    The left side grows with μ, from at most q at 0. What is capped at the lower end of the final interval is capped at
    the solution, and the closed form from there is exact; so is it when the time limit cuts the halving short.
    """
    if problem.mass == 0:
        report(problem, run, np.zeros(problem.n, dtype=bool))
        return
    t, top = problem.log_shares, math.log(problem.room)
    low, high = 0.0, max(0.0, top - float(t.min()))
    while low < (middle := (low + high) / 2) < high and not run.expired:
        if float(np.exp(np.minimum(t + middle, top)).sum()) < problem.mass:
            low = middle
        else:
            high = middle
    # Slightly below the lower end, so that rounding cannot cap a client too many.
    report(problem, run, t + low > top + 1e-9)


@method(CappingProblem, "cvxpy", kind="exact")
def convex(problem: CappingProblem, run: Run) -> None:
    """State the projection in CVXPY and solve it with Clarabel's exponential cone.

    The solver's point is moved back into the box and onto the sum, and the bound is the problem's own dual function at
    the solver's multiplier, valid however inaccurate that is. It can tell a tie at the ceiling from an overflow only
    to 1e-7.
    """
    with run.loading():
        import cvxpy as cp

    if problem.mass == 0 or problem.size == problem.n:
        report(problem, run, np.zeros(problem.n, dtype=bool))
        return
    with run.building():
        r = cp.Variable(problem.n)
        total = cp.sum(r) == problem.mass
        # Σ r log(r/v) with log v as data: shares that underflow need no special case.
        objective = cp.Minimize(-cp.sum(cp.entr(r)) - problem.log_shares @ r)
        model = cp.Problem(objective, [total, r <= problem.room])
    answer = clarabel_point(model, r, run, accuracy=1e-11)
    if answer is None:
        return
    # The solver's multiplier is that of Σ r log(r/v) without the −r: log(r/v) + 1 + y = 0 for clients not capped.
    y = float(np.asarray(total.dual_value))
    multiplier = -1.0 - y if math.isfinite(y) else 0.0
    run.tighten(problem.dual_bound(multiplier))
    # The point that the multiplier implies is more accurate than the solver's own, unless the multiplier is bad.
    level = problem.log_shares + multiplier
    implied, found = (
        into_box(point, 0.0, problem.room, problem.mass)
        for point in (np.exp(np.minimum(level, math.log(problem.room))), answer)
    )
    x, own = (np.where(inside >= problem.room, 1.0, problem.floor + inside) for inside in (implied, found))
    run.offer(own if problem.objective(own) < problem.objective(x) - 1e-12 * problem.scale else x)
    capped = level > math.log(problem.room) + 1e-7
    describe(problem, run, multiplier, capped)


@method(CappingProblem, "as-printed", kind="heuristic")
def as_printed(problem: CappingProblem, run: Run) -> None:
    r"""Search the cases of Eqs. 22-23 as the paper prints them; wrong for some weights when σ > 0.

    The printed sums split the clients by :math:`w_j \le \Psi_{i_v}` with :math:`\Psi_i = w_i / (1 - \sigma)`. A case is
    accepted when its own α satisfies :math:`\Psi_{i_v} \le \alpha < \Psi_{i_{v+1}}`; of several, the one with the
    largest α ("as large as possible", Claim 1). The right split compares Ψ with Ψ (``exact-search``); they differ when
    a weight lies in :math:`(w_{i_v}, w_{i_v} / (1 - \sigma)]`. Weights (5, 4, 1, 1, 1) with k = 3, σ = 0.2 then give
    the first client the "probability" 1.0136.

    An answer that is no feasible decision is not offered: ``stopped`` is ``"error"`` and ``raw`` has it. There is none
    where no case is accepted.
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


@method(CappingProblem, "one-pass", kind="heuristic")
def one_pass(problem: CappingProblem, run: Run) -> None:
    """Allot in proportion and cut off at 1, once: where that cuts, the probabilities sum to less than k.

    A public implementation of E3CS does this. When nothing exceeds 1 the answer is right and is offered. Otherwise it
    is no feasible decision and is not offered: ``stopped`` is ``"error"``, and ``Solution.x`` is ``None`` unless there
    was a start. The vector is in ``raw``, and what it lacks in ``details["shortfall"]``.
    """
    share = np.exp(problem.log_shares) if problem.mass else np.zeros(problem.n)
    raw = np.minimum(problem.floor + share, 1.0)
    shortfall = problem.size - float(raw.sum())
    run.details |= {"raw": raw, "shortfall": shortfall}
    if problem.violation(raw) <= problem.tolerance:
        run.offer(raw)
    else:
        run.stop(
            "error",
            f"one pass allots {raw.sum():.6g} of {problem.size}: what was cut off at 1 is not shared out again "
            "(raw has the vector)",
        )


@method(CappingProblem, "auto", kind="exact")
def auto(problem: CappingProblem, run: Run) -> None:
    """``exact-search``: exact, and fast at every size."""
    exact_search(problem, run)


@certificate_writer(CappingProblem)
def write_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The logarithm of probability over share of a client that is not capped, or the largest cap over share."""
    problem, x = solution.problem, solution.x
    assert isinstance(problem, CappingProblem)
    assert solution.bound is not None
    mass = problem.size - problem.n * problem.floor
    multiplier = 0.0
    if x is not None and mass > 0:
        logs = problem.log_weights
        if logs is None:
            logs = np.log(problem.weights)  # type: ignore[arg-type]  # one of the two is given
        shares = np.log(mass) + logs - float(log_sum(logs))
        residual, cap = x - problem.floor, 1.0 - problem.floor
        inside = (residual < cap * (1 - 1e-12)) & (residual > 0)
        if inside.any():
            largest = int(np.where(inside, residual, -1.0).argmax())
            multiplier = float(np.log(residual[largest]) - shares[largest])
        elif cap > 0:
            multiplier = float((np.log(cap) - shares).max())
    grid, numbers = whole_numbers([multiplier])
    arrays = {"multiplier": numbers}
    return Certificate("capping", problem_digest(problem), float(solution.bound), grid, arrays)
