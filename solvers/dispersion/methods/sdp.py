"""Method ``sdp``: the semidefinite relaxation, with a bound that does not trust its solver."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.methods.constrained import bound_in_constraints
from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.prelude import one_thread, solve_trivial
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.semidefinite import most_negative_products, relax
from solvers.dispersion.relaxations.slice_form import ScaledProblem, SliceForm
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.feasible_set import Hypersimplex
from solvers.options import Above
from solvers.registry import method
from solvers.run import Run


@method(DispersionProblem, "sdp", kind="relaxation", constraints=True, work=True)
@one_thread
def sdp(
    problem: DispersionProblem,
    run: Run,
    *,
    strength: Literal["basic", "nonnegative"] = "nonnegative",
    accuracy: Annotated[float, Above(0)] = 1e-6,
) -> None:
    r"""Bound by the semidefinite relaxation and round its point.

    .. math:: \max \; \langle wH, X \rangle - c^\top x \quad \text{s.t.} \quad
        \mathrm{diag}(X) = x,\; 1^\top x = m,\; X 1 = m x,\; X \succeq x x^\top

    The multipliers of `solvers.dispersion.relaxations.semidefinite` give a function that agrees with the objective on
    selections (or exceeds it) and is concave on the slice; concavity is certified by a Cholesky factorisation with
    its rounding accounted for, what is missing is added to the diagonal, and the tangent at the fractional solution is
    the bound. Multipliers that are stopped early make it weaker, never wrong. Where the time allows no semidefinite
    solve, the bound is that of one shift for all clients, or the trivial one.

    Under side constraints it leaves out the clients that are fixed, and holds products of what each row leaves
    with what it uses (`solvers.dispersion.relaxations.row_products`), which keep the rows themselves, too.

    Parameters
    ----------
    strength : {"basic", "nonnegative"}
        * ``"basic"``: the relaxation above;
        * ``"nonnegative"``: with :math:`X_{ij} \ge 0`, separated in at most four rounds.
    accuracy : float
        Duality gap at which it stops, relative to the objective's scale; without side constraints.
    """
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    if problem.is_constrained:
        bound_in_constraints(problem, run, rounds=0 if strength == "basic" else DEFAULT_POLICY.separations)
        return
    run.offer(ascend(problem, greedy_decision(problem), run))
    if run.remaining < DEFAULT_POLICY.least_sdp_seconds * problem.n**3:
        uniform_shift_bound(problem, run)  # the weakest multipliers of the relaxation, the same for every client
        run.stop("time-limit", "the time allows a uniform shift by the largest eigenvalue, no semidefinite solve")
        return
    scaled = ScaledProblem.of(problem)
    tolerance = accuracy * problem.scale * scaled.factor
    pairs = np.zeros((0, 2), dtype=np.int64)
    best = np.inf
    for _ in range(1 if strength == "basic" else 1 + DEFAULT_POLICY.separations):
        found = relax(
            scaled.quadratic,
            scaled.linear,
            scaled.size,
            nonnegative=pairs,
            tolerance=tolerance,
            run=run,
        )
        raised = np.zeros_like(scaled.quadratic)
        np.add.at(raised, (pairs[:, 0], pairs[:, 1]), found.nonnegative)
        value = _bound(run, scaled, found.diagonal, raised, scaled.linear, found.x)
        run.duals = {"diagonal": found.diagonal / scaled.factor}
        _round(problem, run, found.x)
        if run.proved or run.expired or best - value < 10 * tolerance:
            return
        best = value
        kept = pairs[found.nonnegative > 1e-4 * found.nonnegative.max(initial=0)]
        pairs = _separate(found.products, kept)
        if len(pairs) == len(kept):
            return


def _bound(
    run: Run,
    scaled: ScaledProblem,
    diagonal: NDArray[np.float64],
    raised: NDArray[np.float64],
    linear: NDArray[np.float64],
    x: NDArray[np.float64],
) -> float:
    """Report the tangent at ``x`` of the objective plus terms that are never negative on selections."""
    run.spend(DEFAULT_POLICY.shift_work * x.size**3)
    quadratic = scaled.quadratic + (raised + raised.T) / 2
    form = SliceForm.build(quadratic, linear, scaled.size, diagonal)
    value = form.tangent(Hypersimplex(x.size, scaled.size).project(x)) + scaled.error
    run.tighten(scaled.certified(value))
    return value


def _round(problem: DispersionProblem, run: Run, point: NDArray[np.float64]) -> None:
    """Offer the decision nearest to a fractional point, improved by swaps."""
    run.offer(ascend(problem, problem.feasible.round(point), run))


def _separate(products: NDArray[np.float64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the most violated pairs to those at work."""
    most = DEFAULT_POLICY.separated_pairs * len(products)
    return np.concatenate([kept, most_negative_products(products, kept, most)])
