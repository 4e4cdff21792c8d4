"""``with_certificate``: a certificate beside a solution, by the writer of its type of problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.certificates import Certificate, CertificateError, check
from solvers.problem import Problem
from solvers.solution import Solution


class CertificateWriter(Protocol):
    """Find a certificate of a solution's bound, or of a weaker one; None where there is none to be had in time.

    `CertificateError` says why none is written whatever the time.
    """

    def __call__(self, solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
        """Within so many seconds; ``relaxed``: prove what one relaxation proves, without a tree."""


_writers: dict[type[Any], CertificateWriter] = {}


#: Those whose certificates know side constraints.
_keeping: set[CertificateWriter] = set()


#: Those whose certificates list pools.
_pooling: set[CertificateWriter] = set()


def certificate_writer(
    problem: type[Any], *, constraints: bool = False, pool: bool = False
) -> Callable[[CertificateWriter], CertificateWriter]:
    """Register the certificate writer of a problem type; it holds for its subclasses too.

    Parameters
    ----------
    problem : type
        The problem type.
    constraints : bool
        Whether its certificates prove bounds under side constraints (`solvers.constraints`); without, none is written
        for a problem that has any.
    pool : bool
        Whether its certificates list the members of a pool and bound every other selection; without, none is written
        beside a pool.
    """

    def register(function: CertificateWriter) -> CertificateWriter:
        _writers[problem] = function
        if constraints:
            _keeping.add(function)
        if pool:
            _pooling.add(function)
        return function

    return register


def with_certificate(
    solution: Solution, time_limit: float = math.inf, *, relaxed: bool = False, recorded: Certificate | None = None
) -> Solution:
    """Return the same solution with a certificate of its bound, whatever method it comes from, where one is found.

    The certificate is read by `solvers.certificates.check` before it is kept, and claims what that verifies: the bound
    of the solution, or a weaker one where the rounding of its numbers, or the time, does not allow more. One that the
    search itself wrote down is kept unread; multipliers of rows (``rlt``) that prove less than the solution states are
    what the writer begins with, and kept where it finds nothing better.

    Parameters
    ----------
    solution : Solution
        An answer with a bound; or that there is no feasible decision, which a bound that any decision would exceed
        proves.
    time_limit : float
        Seconds for the certificate. Without a limit the effort is bounded all the same: a tree of a dispersion problem
        is given up after counted work, which takes relaxations of some ten seconds.
    relaxed : bool
        Prove what one relaxation proves, without a tree.
    recorded : Certificate, optional
        What the method wrote down itself.

    Returns
    -------
    Solution
        ``certificate_report`` says what became of it: ``seconds`` for the certificate, ``check_seconds`` (0 for one
        that the search wrote down, which is not read), the ``bound`` it claims and its ``distance`` to the solution's;
        or ``none`` alone, why there is no certificate. Where what was proved is tighter, it is the solution's bound
        from then on.
    """
    if recorded is not None and (recorded.kind != "rlt" or _is_near(solution, recorded.bound)):
        told = {"seconds": 0.0, "check_seconds": 0.0, "bound": recorded.bound}
        told["distance"] = abs(recorded.bound - float(solution.bound))  # type: ignore[arg-type]
        return replace(_told(solution, **told), certificate=recorded)
    begun = time.perf_counter()
    function = next((_writers[kind] for kind in type(solution.problem).__mro__ if kind in _writers), None)
    if function is None:
        return _told(solution, none=f"there is no form of certificate for a {type(solution.problem).__name__}")
    if solution.problem.is_constrained and function not in _keeping:
        named = type(solution.problem).__name__
        return _told(solution, none=f"bounds under side constraints have no certificate for a {named}")
    is_infeasible = solution.status == "infeasible" and function in _keeping
    if (solution.bound is None and not is_infeasible) or time_limit <= 0:
        return _told(solution, none="there is no bound to prove" if solution.bound is None else "no time was left")
    if solution.vetoed and not solution.pool:
        return _told(solution, none="a veto refuses every selection, and no certificate is about refused ones")
    if (solution.pool or solution.vetoed) and solution.details.get("pool") is not None and function not in _pooling:
        return _told(solution, none=f"certificates of pools are not written for a {type(solution.problem).__name__}")
    begin = {} if recorded is None else {"recorded": recorded}
    sign = 1.0 if solution.problem.sense == "max" else -1.0
    try:
        found = function(solution, time_limit, relaxed=relaxed, **begin)
        if recorded is not None and (found is None or sign * (found.bound - recorded.bound) > 0):
            found = recorded
        if found is None:
            return _told(solution, none="no certificate was found in the time that was left")
        seconds, begun = time.perf_counter() - begun, time.perf_counter()
        found, verified = _honest(solution.problem, found)
    except CertificateError as error:
        return _told(solution, none=f"none is kept: {error}")
    claim = found.bound if found.bound == solution.bound else verified  # the solution's own where that is proved
    if not is_infeasible and _tighter(solution, claim):
        solution = solution.with_bound(claim)
    told = {"seconds": seconds, "check_seconds": time.perf_counter() - begun, "bound": claim}
    told["distance"] = 0.0 if is_infeasible else abs(claim - float(solution.bound))  # type: ignore[arg-type]
    return replace(_told(solution, **told), certificate=replace(found, bound=claim))


def _is_near(solution: Solution, bound: float) -> bool:
    """Whether what a certificate proves is the bound of a solution, but for rounding or a thousandth of the gap."""
    assert solution.bound is not None
    gap = 0.0 if solution.objective is None or solution.status == "optimal" else solution.bound - solution.objective
    return abs(bound - solution.bound) <= max(1e-3 * abs(gap), 1e-6 * solution.problem.scale)


def _tighter(solution: Solution, claim: float) -> bool:
    """Whether what was proved says more than the solution does, and not by rounding alone."""
    assert solution.bound is not None
    sign = 1.0 if solution.problem.sense == "max" else -1.0
    least = 1e-9 * solution.problem.scale
    beyond = solution.objective is not None and sign * (claim - solution.objective) < 0
    return sign * (solution.bound - claim) > least and not beyond


def _honest(problem: Problem, found: Certificate) -> tuple[Certificate, float]:
    """A certificate that claims no more than it proves, and what the reader verifies."""
    try:
        return found, check(problem, found)
    except CertificateError:
        anything = math.copysign(1e308, 1 if problem.sense == "max" else -1)
        verified = check(problem, replace(found, bound=anything))
        return replace(found, bound=verified), verified


def whole_numbers(values: ArrayLike) -> tuple[int, NDArray[np.int64]]:
    """A grid g and the multiples of 2^g nearest to the values, which are at most 2^52 in size."""
    numbers = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    grid = math.frexp(largest)[1] - 52 if largest > 0 else 0
    return grid, np.rint(np.ldexp(numbers, -grid)).astype(np.int64)


def _told(solution: Solution, **words: object) -> Solution:
    return replace(solution, details={**solution.details, "certificate": words})
