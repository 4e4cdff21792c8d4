"""``check``: read a certificate without trusting who wrote it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.certificates.allocation import check_allocation
from solvers.certificates.attainable import attainable
from solvers.certificates.certificate import Certificate, problem_digest
from solvers.certificates.decimals import check_capping, check_cutoff
from solvers.certificates.dispersion import check_dispersion
from solvers.certificates.exclusion import check_exclusion
from solvers.certificates.points import check_points
from solvers.certificates.search import check_search
from solvers.certificates.weighting import check_optimization_error, check_total_error
from solvers.errors import CertificateError

__all__ = ["READERS", "check"]

#: The readers by the kind of certificate, and whether its problems are maximised or minimised.
READERS: dict[str, tuple[Callable[[Any, int, Mapping[str, Any]], Fraction], str]] = {
    "dispersion": (check_dispersion, "max"),
    "dispersion-search": (check_search, "max"),
    "points": (check_points, "max"),
    "allocation": (check_allocation, "min"),
    "exclusion": (check_exclusion, "min"),
    "optimization-error": (check_optimization_error, "min"),
    "total-error": (check_total_error, "min"),
    "capping": (check_capping, "min"),
    "cutoff": (check_cutoff, "min"),
}


def check(problem: Any, certificate: Certificate) -> float:
    """Verify a certificate with exact arithmetic, apart from all solvers, and return the bound it proves.

    Parameters
    ----------
    problem : Problem
        The problem that it is about.
    certificate : Certificate
        What is said to prove the bound.

    Returns
    -------
    float
        The verified bound: at most ``certificate.bound`` for a maximisation (at least, for a minimisation), and
        rounded to the safe side. No decision of the problem is better.

    Raises
    ------
    CertificateError
        When it belongs to another problem, cannot be read, or does not prove the bound it claims; for a tree the
        sentence names the node that fails.
    """
    if certificate.problem != problem_digest(problem):
        raise CertificateError(f"the certificate is about another problem than this {type(problem).__name__}")
    if not math.isfinite(certificate.bound):
        raise CertificateError(f"the certificate claims the bound {certificate.bound}, which is no number")
    for name, array in certificate.arrays.items():
        if array.dtype.kind not in "iu":
            raise CertificateError(f"array {name!r} of the certificate must hold whole numbers, not {array.dtype}")
    if certificate.kind not in READERS:
        known = ", ".join(READERS)
        raise CertificateError(f"certificates of kind {certificate.kind!r} are not known (known: {known})")
    reader, sense = READERS[certificate.kind]
    if getattr(problem, "sense", None) != sense:
        raise CertificateError(f"a certificate of kind {certificate.kind!r} is about a {sense}imisation")
    try:
        proved = reader(problem, certificate.grid, certificate.arrays)
        sign = 1 if sense == "max" else -1
        if certificate.kind in ("dispersion", "dispersion-search") and proved > Fraction(certificate.bound):
            proved = attainable(problem, proved)
    except KeyError as error:
        raise CertificateError(f"the certificate lacks the array {error}") from error
    except (AttributeError, ValueError, ArithmeticError) as error:
        raise CertificateError(f"the certificate cannot be read as one of its kind: {error}") from error
    safe = _away(proved, sign)
    if sign * proved > sign * Fraction(certificate.bound):
        raise CertificateError(f"the certificate claims the bound {certificate.bound!r}, but proves only {safe!r}")
    return safe


def _away(value: Fraction, sign: int) -> float:
    """The double nearest to ``value`` that is not below it, for a sign of 1, or not above."""
    nearest = float(value)
    return nearest if sign * Fraction(nearest) >= sign * value else float(np.nextafter(nearest, sign * math.inf))
