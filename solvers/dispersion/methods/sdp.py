"""Method ``sdp``: the semidefinite relaxation, with a bound that does not trust its solver."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.methods.constrained import bound_in_constraints
from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.prelude import one_thread, solve_trivial
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.semidefinite import relax
from solvers.dispersion.relaxations.slice_form import Normal, SliceForm
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.errors import InvalidOption, MissingBackend
from solvers.feasible_set import Hypersimplex
from solvers.options import Above
from solvers.registry import method
from solvers.run import Run

__all__ = ["ENGINES", "STRENGTHS", "sdp"]

STRENGTHS = ("basic", "nonnegative", "triangle")
ENGINES = ("own", "cvxpy")

#: Seconds below which not even some steps of our own solver and the certificate fit, in units of n³.
_LEAST = 3e-9

#: Pairs per client that one round of separation adds, and rounds.
_PAIRS, _ROUNDS = 2, 4


@method(DispersionProblem, "sdp", kind="relaxation", constraints=True)
@one_thread
def sdp(
    problem: DispersionProblem,
    run: Run,
    *,
    strength: Literal["basic", "nonnegative", "triangle"] = "nonnegative",
    engine: Literal["own", "cvxpy"] = "own",
    solver: str | None = None,
    accuracy: Annotated[float, Above(0)] = 1e-6,
) -> None:
    r"""Bound by the semidefinite relaxation and round its point.

    .. math:: \max \; \langle wH, X \rangle - c^\top x \quad \text{s.t.} \quad
        \mathrm{diag}(X) = x,\; 1^\top x = m,\; X 1 = m x,\; X \succeq x x^\top

    The bound reported is never the solver's own. Its multipliers give a function that agrees with the objective on
    selections (or exceeds it) and is concave on the slice; concavity is certified by a Cholesky factorisation with
    its rounding accounted for, what is missing is added to the diagonal, and the tangent at the fractional solution is
    the bound. A solver that stops early or is inaccurate makes it weaker, never wrong.

    Under side constraints ``"own"`` leaves out the clients that are fixed, and holds products of what each row leaves
    with what it uses (`solvers.dispersion.relaxations.row_products`), which keep the rows themselves, too.

    Parameters
    ----------
    strength : {"basic", "nonnegative", "triangle"}
        * ``"basic"``: the relaxation above;
        * ``"nonnegative"``: with :math:`X_{ij} \ge 0`, separated in rounds by ``"own"``, all at once by ``"cvxpy"``;
        * ``"triangle"`` (``"cvxpy"`` only): also the most violated
          :math:`X_{ik} + X_{jk} \le x_k + X_{ij}`.
    engine : {"own", "cvxpy"}
        The interior-point method of `solvers.dispersion.relaxations.semidefinite`, or CVXPY.
    solver : str, optional
        CVXPY's solver, SCS by default.
    accuracy : float
        Duality gap at which ``"own"`` stops, relative to the objective's scale.
    """
    if strength == "triangle" and engine == "own":
        raise InvalidOption("strength 'triangle' needs engine='cvxpy'")
    if problem.is_constrained and engine != "own":
        raise InvalidOption("side constraints need engine='own'")
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    if problem.is_constrained:
        bound_in_constraints(problem, run, rounds=0 if strength == "basic" else _ROUNDS)
        return
    run.offer(ascend(problem, greedy_decision(problem), run))
    if engine == "own" and run.remaining < _LEAST * problem.n**3:
        uniform_shift_bound(problem, run)  # the weakest multipliers of the relaxation, the same for every client
        run.stop("time-limit", "the time allows a uniform shift by the largest eigenvalue, no semidefinite solve")
    elif engine == "own":
        _own(problem, run, strength, accuracy)
    else:
        _cvxpy(problem, run, strength, solver)


def _own(problem: DispersionProblem, run: Run, strength: str, accuracy: float) -> None:
    normal = Normal.of(problem)
    tolerance = accuracy * problem.scale * normal.factor
    pairs = np.zeros((0, 2), dtype=np.int64)
    best = np.inf
    for _ in range(1 if strength == "basic" else 1 + _ROUNDS):
        found = relax(
            normal.quadratic,
            normal.linear,
            normal.size,
            nonnegative=pairs,
            tolerance=tolerance,
            run=run,
        )
        raised = np.zeros_like(normal.quadratic)
        np.add.at(raised, (pairs[:, 0], pairs[:, 1]), found.nonnegative)
        value = _bound(run, normal, found.diagonal, raised, normal.linear, found.x)
        run.duals = {"diagonal": found.diagonal / normal.factor}
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
    normal: Normal,
    diagonal: NDArray[np.float64],
    raised: NDArray[np.float64],
    linear: NDArray[np.float64],
    x: NDArray[np.float64],
) -> float:
    """Report the tangent at ``x`` of the objective plus terms that are never negative on selections."""
    quadratic = normal.quadratic + (raised + raised.T) / 2
    form = SliceForm.build(quadratic, linear, normal.size, diagonal)
    value = form.tangent(Hypersimplex(x.size, normal.size).project(x)) + normal.error
    run.tighten(normal.certified(value))
    return value


def _round(problem: DispersionProblem, run: Run, point: NDArray[np.float64]) -> None:
    """Offer the decision nearest to a fractional point, improved by swaps."""
    run.offer(ascend(problem, problem.feasible.round(point), run))


def _separate(products: NDArray[np.float64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the most violated pairs to those at work."""
    n = len(products)
    values = products.copy()
    values[kept[:, 0], kept[:, 1]] = 0.0
    upper = np.column_stack(np.triu_indices(n, 1))
    flat = values[upper[:, 0], upper[:, 1]]
    worst = np.argsort(flat, kind="stable")[: _PAIRS * n]
    return np.concatenate([kept, upper[worst[flat[worst] < -1e-5]]])


def _cvxpy(problem: DispersionProblem, run: Run, strength: str, solver: str | None) -> None:
    try:
        with run.loading():
            import cvxpy as cp
    except ImportError as error:
        raise MissingBackend("engine 'cvxpy' needs cvxpy, which is not installed: pip install cvxpy") from error
    normal = Normal.of(problem)
    n, m = problem.n, problem.size
    with run.building():
        moments = cp.Variable((n + 1, n + 1), PSD=True)  # of (1, s)
        x, products = moments[0, 1:], moments[1:, 1:]
        diagonal = cp.diag(products) == x
        constraints: list[Any] = [moments[0, 0] == 1, diagonal, cp.sum(x) == m, products @ np.ones(n) == m * x]
        held = products >= 0
        if strength != "basic":
            constraints.append(held)
        objective = cp.Maximize(cp.sum(cp.multiply(normal.quadratic, products)) + normal.linear @ x)
    triangles: list[tuple[Any, NDArray[np.int64]]] = []
    for _ in range(1 + _ROUNDS if strength == "triangle" else 1):
        options: dict[str, Any] = {"solver": solver or "SCS"}
        if run.time_limit is not None:
            options |= {"time_limit_secs": max(run.remaining, 0.01)} if options["solver"] == "SCS" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate answer is repaired below
            try:
                cp.Problem(objective, constraints).solve(**options)
            except cp.error.SolverError as error:
                run.stop("error", str(error))
                return
        if moments.value is None or diagonal.dual_value is None:
            return
        run.message = str(options["solver"])
        point = np.asarray(moments.value)
        raised, linear = np.zeros((n, n)), normal.linear.copy()
        if strength != "basic":
            raised += np.maximum(np.asarray(held.dual_value), 0.0)
            raised[np.arange(n), np.arange(n)] = 0.0
        for row, (i, j, k) in ((row, indices.T) for row, indices in triangles):
            weight = np.maximum(np.asarray(row.dual_value), 0.0)
            np.add.at(raised, (i, j), weight)
            np.add.at(raised, (i, k), -weight)
            np.add.at(raised, (j, k), -weight)
            np.add.at(linear, k, weight)
        for sign in (-1.0, 1.0):  # backends disagree on the sign of an equality's multiplier
            _bound(run, normal, sign * np.asarray(diagonal.dual_value), raised, linear, point[0, 1:])
        _round(problem, run, point[0, 1:])
        fresh = _triangles(point) if strength == "triangle" else np.zeros((0, 3), dtype=np.int64)
        if run.expired or run.proved or len(fresh) == 0:
            return
        i, j, k = fresh.T
        row = products[i, k] + products[j, k] <= x[k] + products[i, j]
        constraints.append(row)
        triangles.append((row, fresh))


def _triangles(point: NDArray[np.float64]) -> NDArray[np.int64]:
    """The (i, j, k), i < j, that most violate ``X_ik + X_jk ≤ x_k + X_ij``."""
    x, products = point[0, 1:], point[1:, 1:]
    n = x.size
    found = []
    for k in range(n):
        row = products[k]
        excess = np.triu(row[:, None] + row - x[k] - products, 1)
        excess[k, :] = excess[:, k] = 0.0
        i, j = np.nonzero(excess > 1e-4)
        found.append(np.column_stack([excess[i, j], i, j, np.full(i.size, k)]))
    rows = np.concatenate(found)
    worst = np.argsort(-rows[:, 0], kind="stable")[: _PAIRS * n]
    return rows[worst, 1:].astype(np.int64)
