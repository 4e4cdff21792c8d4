"""Method ``dnn``: the doubly nonnegative relaxation, first order, with a bound that does not trust it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.methods.constrained import bound_in_constraints
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.prelude import dispersion_method, one_thread
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.relaxations.stopping import StoppingRule, tighten
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.options import AtLeast
from solvers.run import Run
from solvers.solution import Stopped


@dispersion_method(DispersionProblem, "dnn", start="some", kind="relaxation", constraints=True, work=True)
@one_thread
def dnn(
    problem: DispersionProblem,
    run: Run,
    *,
    cuts: Annotated[float, AtLeast(0)] = 5.0,
    iterations: Annotated[int, AtLeast(1)] = 2_000,
) -> None:
    r"""Bound by the doubly nonnegative relaxation with cuts, and round its point.

    .. math:: \max \; \langle wH, X \rangle - c^\top \mathrm{diag}(X) \quad \text{s.t.} \quad
        \mathrm{tr}\, X = m,\; X 1 = m \, \mathrm{diag}(X),\; X \succeq 0,\; X \ge 0

    and inequalities that hold because selections are whole (`solvers.dispersion.relaxations.cuts`), as they are
    violated. An alternating direction method on the dual (`solvers.dispersion.relaxations.doubly_nonnegative`) gives
    multipliers, which a Cholesky factorisation turns into a bound that is valid in floating point. Where it converges
    it is mostly stronger than ``sdp``'s; stopped early it may be weaker.

    Under side constraints the multipliers of rows' products are those that ``sdp`` finds. With more than 3 000 clients,
    or too little time, the bound is that of one shift for all clients, or the trivial one where time is too short for
    that.

    Parameters
    ----------
    cuts : float
        Cuts added at a time, per client, at most; 0 for none.
    iterations : int
        Most iterations.
    """
    if problem.n > DEFAULT_POLICY.dnn_largest or run.remaining < DEFAULT_POLICY.least_dnn_seconds * problem.n**3:
        uniform_shift_bound(problem, run)
        reason: Stopped = "iterations" if problem.n > DEFAULT_POLICY.dnn_largest else "time-limit"
        run.stop(reason, "clients are too many, or time too short, for more than a uniform shift's bound")
        return
    for name in ("admm", "cuts"):
        load(name, run)  # iterations have no clock to stop
    if problem.is_constrained:
        _converge_in_constraints(problem, run, cuts, iterations)
        return
    scaled = ScaledProblem.of(problem)
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size)

    def certified(value: float) -> float:
        return scaled.certified(value + 2 * scaled.error)

    _converge(problem, run, relaxation, certified, lambda x: x, cuts, iterations, problem.scale * scaled.factor)
    run.duals = {"diagonal": relaxation.diagonal / scaled.factor}


def _converge_in_constraints(problem: DispersionProblem, run: Run, cuts: float, iterations: int) -> None:
    """Iterate over the clients that are not fixed, on the objective with the root's multipliers of rows' products."""
    tree = bound_in_constraints(problem, run, DEFAULT_POLICY.separations)
    root = tree.root
    if root is None or run.proved or not 2 <= root.form.size <= root.ids.size - 2:
        return
    quadratic, diagonal = root.form.exact.copy(), root.form.exact.diagonal().copy()
    np.fill_diagonal(quadratic, 0.0)
    relaxation = DNNRelaxation(quadratic, root.form.linear + diagonal, root.form.size)
    constant = root.constant + root.form.margin

    def lifted(x: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = np.zeros(problem.n)
        whole[root.ones], whole[root.ids] = 1.0, x
        return whole

    def certified(value: float) -> float:
        return tree.certified(value + constant)

    _converge(problem, run, relaxation, certified, lifted, cuts, iterations, problem.scale * tree.scaled.factor)


def _converge(
    problem: DispersionProblem,
    run: Run,
    relaxation: DNNRelaxation,
    certified: Callable[[float], float],
    lifted: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    cuts: float,
    iterations: int,
    scale: float,
) -> None:
    """Iterate until nothing moves any more, with a certified bound and a rounded point now and then.

    ``certified`` makes a relaxation's bound one of the problem, ``lifted`` its point one over all clients; ``scale`` is
    that of the relaxation's objective.
    """
    began = time.perf_counter()
    bounds = [relaxation.bound()]
    # Seconds of a certificate; where work is limited, the clock says nothing.
    cost = 0.0 if run.counts_work else time.perf_counter() - began
    run.tighten(certified(bounds[0]))
    rule = StoppingRule.of_bound(DEFAULT_POLICY, iterations, scale)

    def hurried() -> bool:
        run.spend(DEFAULT_POLICY.iteration_work(relaxation.n))
        return run.remaining <= 2 * cost

    for bound in tighten(relaxation, rule, bounds, hurried, int(cuts * problem.n), DEFAULT_POLICY.chunk):
        run.tighten(certified(bound))
        run.offer(ascend(problem, problem.feasible.round(lifted(relaxation.x)), run))
        if run.proved:
            break
    run.details["iterations"] = relaxation.iterations
    run.details["cuts"] = len(relaxation.cuts)
