"""``prove``: a certificate beside a solution, by whatever proves bounds of its kind of problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from solvers.certificates import Certificate, CertificateError, check
from solvers.problem import Problem
from solvers.solution import Solution

__all__ = ["Prover", "prove", "prover"]


class Prover(Protocol):
    """Find a certificate of a solution's bound, or of a weaker one; None where there is none to be had in time."""

    def __call__(self, solution: Solution, expired: Callable[[], bool], *, relaxed: bool) -> Certificate | None:
        """Give up when ``expired`` says so; ``relaxed``: prove what one relaxation proves, without a tree."""


_provers: dict[type[Problem], Prover] = {}


def prover(problem: type[Problem]) -> Callable[[Prover], Prover]:
    """Register what proves bounds of a problem type; it holds for its subclasses too."""

    def register(function: Prover) -> Prover:
        _provers[problem] = function
        return function

    return register


def prove(solution: Solution, time_limit: float = math.inf, *, relaxed: bool = False) -> Solution:
    """The same solution with a certificate of its bound, whatever method it comes from.

    The certificate is read by `solvers.certificates.check` before it is kept, and claims what that verifies: the bound
    of the solution, or a weaker one where the rounding of the proof, or the time, does not allow more.

    Parameters
    ----------
    solution : Solution
        An answer with a bound.
    time_limit : float
        Seconds for the proof.
    relaxed : bool
        Prove what one relaxation proves, without a tree.

    Returns
    -------
    Solution
        ``details["certificate"]`` says what became of it: ``seconds`` for the proof, ``check_seconds``, and either the
        ``bound`` it claims and the ``distance`` to the solution's, or why there is no certificate.
    """
    begun = time.perf_counter()
    function = next((_provers[kind] for kind in type(solution.problem).__mro__ if kind in _provers), None)
    if function is None:
        return _told(solution, none=f"there is no form of certificate for a {type(solution.problem).__name__}")
    if solution.bound is None or time_limit <= 0:
        return _told(solution, none="there is no bound to prove" if solution.bound is None else "no time was left")
    try:
        found = function(solution, lambda: time.perf_counter() - begun > time_limit, relaxed=relaxed)
        if found is None:
            return _told(solution, none="no proof was found in the time that was left")
        seconds, begun = time.perf_counter() - begun, time.perf_counter()
        verified = check(solution.problem, found)
    except CertificateError as error:
        return _told(solution, none=f"its numbers do not allow one: {error}")
    claim = found.bound if found.bound == solution.bound else verified
    told = {"seconds": seconds, "check_seconds": time.perf_counter() - begun, "bound": claim}
    told["distance"] = abs(claim - solution.bound)
    return replace(_told(solution, **told), certificate=replace(found, bound=claim))


def _told(solution: Solution, **words: object) -> Solution:
    return replace(solution, details={**solution.details, "certificate": words})
