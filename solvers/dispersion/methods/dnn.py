"""Method ``dnn``: the doubly nonnegative relaxation, first order, with a bound that does not trust it."""

from __future__ import annotations

import time
from typing import Annotated

from solvers.dispersion.kernels import load
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.prelude import dispersion_method, one_thread
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.doubly_nonnegative import Relaxation
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.options import AtLeast
from solvers.run import Run
from solvers.solution import Stopped

__all__ = ["dnn"]

#: Iterations between two certified bounds.
_CHUNK = 20

#: It ends when a hundred iterations lower the bound by less than this part of the objective's scale.
_LEAST = 1e-6

#: Seconds that a certificate takes, in units of n³, until it has been measured.
_CERTIFICATE = 4e-10

#: Seconds below which a uniform shift gives the better bound, in units of n³: some 25 iterations.
_LEAST_TIME = 5e-9

#: Most clients; an iteration takes some n³ / 5e9 seconds.
_LARGEST = 3_000


@dispersion_method(DispersionProblem, "dnn", start="some", kind="relaxation")
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
    multipliers after any number of iterations; a Cholesky factorisation turns them into a bound that is valid in
    floating point. It is stronger than ``sdp`` and first order: the longer it runs, the tighter the bound.

    Parameters
    ----------
    cuts : float
        Cuts added at a time, per client, at most; 0 for none.
    iterations : int
        Most iterations.
    """
    if problem.n > _LARGEST or run.remaining < _LEAST_TIME * problem.n**3:
        uniform_shift_bound(problem, run)
        reason: Stopped = "iterations" if problem.n > _LARGEST else "time-limit"
        run.stop(reason, "clients are too many, or time too short, for more than a uniform shift's bound")
        return
    normal = Normal.of(problem)
    _converge(problem, run, normal, cuts, iterations)


def _converge(problem: DispersionProblem, run: Run, normal: Normal, cuts: float, iterations: int) -> None:
    """Iterate until nothing moves any more, with a certified bound and a rounded point now and then."""
    for name in ("admm", "cuts"):
        load(name, run)  # iterations have no clock to stop
    relaxation = Relaxation(normal.quadratic, normal.linear, normal.size)
    values: list[float] = []
    cost = _CERTIFICATE * problem.n**3  # seconds of a certificate

    def hurried() -> bool:
        return run.remaining <= 2 * cost

    while relaxation.iterations < iterations and not hurried():
        relaxation.iterate(min(_CHUNK, iterations - relaxation.iterations), hurried)
        began = time.perf_counter()
        value = relaxation.bound() + 2 * normal.error
        cost = time.perf_counter() - began
        values.append(min([value, *values[-1:]]))
        run.tighten(normal.certified(values[-1]))
        run.offer(ascend(problem, problem.feasible.round(relaxation.x), run))
        if run.proved:
            break
        fresh = relaxation.separate(int(cuts * problem.n)) if cuts > 0 and len(values) % 2 == 0 else 0
        settled = len(values) > 5 and values[-6] - values[-1] < _LEAST * problem.scale * normal.factor
        if settled and fresh <= problem.n // 20:
            break
    run.details["iterations"] = relaxation.iterations
    run.details["cuts"] = len(relaxation.cuts)
    run.duals = {"diagonal": relaxation.diagonal / normal.factor}
