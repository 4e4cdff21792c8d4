"""Certificates of dispersion problems: the bound of a solution, proved again in whole numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solvers.certificate_writers import certificate_writer
from solvers.certificates import Certificate, problem_digest
from solvers.certificates.schema import POINT
from solvers.dispersion.methods.constrained_points import solve_by_prices
from solvers.dispersion.methods.points import relaxed as climbed
from solvers.dispersion.prelude import single_threaded_blas
from solvers.dispersion.problem import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.relaxations.attainable import Attainable
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.tree.certificate import MOST_WORK, CertificateTree, row_prices
from solvers.dispersion.tree.record import on_grain
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP, Solution

#: Clients of a problem between kinds that get a row each.
_MOST_EXPANDED = 1_000

#: Bits of the largest number where a certificate says that there is no selection.
_COARSE = 8

#: The parts of the time after which a tree is given up, to leave some for a certificate of one leaf, and after which
#: that is cut short, to leave some for reading it. Reading a tree takes a third of the time it took to write.
_SHARE, _SHARE_LEAF = 0.55, 0.8


@certificate_writer(KindDispersionProblem, constraints=True)
def write_kinds_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """A tree over the clients, of which those of a kind come in the order of their costs; None where they are many."""
    problem = solution.problem
    assert isinstance(problem, KindDispersionProblem)
    if problem.n > _MOST_EXPANDED:
        return None
    found = write_certificate(replace(solution, problem=problem.expanded()), time_limit, relaxed=relaxed)
    return None if found is None else replace(found, kind="kinds", problem=problem_digest(problem))


@certificate_writer(DispersionProblem, constraints=True)
def write_certificate(
    solution: Solution,
    time_limit: float,
    *,
    relaxed: bool,
    recorded: Certificate | None = None,
    most_work: float = MOST_WORK,
) -> Certificate | None:
    """A tree that proves the bound, or where time does not allow it (or ``relaxed``) the root's tangent alone.

    Where the bound rests on the values that a selection can have at all (`solvers.dispersion.relaxations.attainable`),
    the tree proves that none is better than the next of them, and the checker lists them itself. ``recorded`` is one of
    kind ``rlt``: the tree has the clients that its multipliers leave.
    """
    problem = solution.problem
    assert isinstance(problem, DispersionProblem)
    begun = time.perf_counter()

    def expired(share: float = _SHARE) -> bool:
        return time.perf_counter() - begun > share * time_limit

    if solution.status == "infeasible":
        return _without_selection(problem, expired)
    assert solution.bound is not None
    if problem.size in (1, problem.n - 1, problem.n):
        tree = CertificateTree(problem, solution.bound, expired)
        tree.enumerated()
        return tree.certificate(_within(problem, solution))
    with single_threaded_blas(problem):
        if not relaxed:
            claim = _within(problem, solution)
            for target in _targets(problem, solution, claim):
                # Without a time limit a tree that took far longer than the solve would end only when it is written.
                work = math.inf if math.isfinite(time_limit) else most_work
                tree = CertificateTree(problem, target, expired, most_work=work, stages=recorded)
                if tree.tree():
                    return tree.certificate(claim)
        tree = CertificateTree(problem, solution.bound, lambda: expired(_SHARE_LEAF))
        left = _SHARE_LEAF * time_limit - (time.perf_counter() - begun)
        return tree.certificate(tree.root(left))


def _without_selection(problem: DispersionProblem, expired: Callable[[], bool]) -> Certificate | None:
    """A certificate of a bound that any m clients would exceed: that no selection keeps the constraints."""
    least = -float(np.sort(problem.costs)[-problem.size :].sum()) - problem.scale
    # Numbers are coarse, so that prices of rows are large beside them.
    tree = CertificateTree(problem, least, expired, bits=_COARSE)
    if problem.size in (1, problem.n - 1, problem.n):
        tree.enumerated()
    elif not tree.contradiction():
        return None
    return tree.certificate(least)


def _within(problem: DispersionProblem, solution: Solution) -> float:
    """The bound, or the objective with half of what counts as optimal where the bound is nearer than rounding."""
    if solution.objective is None:
        return float(solution.bound)  # type: ignore[arg-type]
    unit = min(max(1.0, abs(solution.objective)), problem.scale)
    return max(float(solution.bound), solution.objective + 0.5 * OPTIMALITY_GAP * unit)  # type: ignore[arg-type]


def _targets(problem: DispersionProblem, solution: Solution, claim: float) -> list[float]:
    """Return the bounds a tree may aim at: below the next attainable value where they are known, else the claim."""
    normal = Normal.of(problem)
    attainable = Attainable(normal)
    if solution.objective is None or not attainable.known or claim - solution.objective > 1e-3 * problem.scale:
        return [claim]
    above = normal.original(attainable.above(normal.value(solution.objective)) - 3 * attainable.error)
    ceiling = problem.trivial_bound()
    return [max(claim, min(above, ceiling) - 1e-9 * problem.scale)]


#: Bits of the largest price of a row.
_PRICE_BITS = 39

#: Distances that a certificate is read with; some microseconds each.
_MOST_DISTANCES = 20_000_000


@certificate_writer(PointDispersionProblem, constraints=True)
def write_points_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """The tangent at the relaxation's point; None for other metrics, and where reading it would take minutes.

    Under side constraints there are prices of all rows; a problem that has no selection gets none.
    """
    problem = solution.problem
    assert isinstance(problem, PointDispersionProblem)
    if problem.metric != "euclidean" or problem.n * problem.size > _MOST_DISTANCES or solution.bound is None:
        return None
    y, gradient = _point(problem, solution, time_limit)
    whole = on_grain(y, problem.size, POINT)
    clients = np.flatnonzero(whole)
    arrays, grid = {"clients": clients.astype(np.int64), "shares": whole[clients]}, 0
    if (prices := row_prices(problem, gradient)).any():
        grid = math.frexp(float(prices.max()))[1] - _PRICE_BITS
        arrays["price"] = np.rint(np.ldexp(prices, -grid)).astype(np.int64)
    return Certificate("points", problem_digest(problem), float(solution.bound), grid, arrays)


def _point(problem: PointDispersionProblem, solution: Solution, time_limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Point and gradient of the relaxation in half of the time, from the solution's decision."""
    run = Run(problem, "tangent", None if math.isinf(time_limit) else 0.5 * time_limit, 0)
    if solution.x is not None:
        run.offer(solution.x)
    if problem.size == problem.n:
        return np.ones(problem.n), np.zeros(problem.n)
    relaxation = solve_by_prices(problem, run) if problem.is_constrained else climbed(problem, run)
    return relaxation.y, relaxation.g
