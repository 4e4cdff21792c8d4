"""``check``: read a certificate without trusting who wrote it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.certificates.certificate import Certificate, problem_digest
from solvers.certificates.dispersion import check_dispersion
from solvers.errors import CertificateError

__all__ = ["check"]


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
    if certificate.kind != "dispersion":
        raise CertificateError(f"certificates of kind {certificate.kind!r} are not known (known: dispersion)")
    try:
        proved = check_dispersion(problem, certificate.grid, certificate.arrays)
    except KeyError as error:
        raise CertificateError(f"the certificate lacks the array {error}") from error
    if proved > Fraction(certificate.bound):
        raise CertificateError(
            f"the certificate claims the bound {certificate.bound!r}, but proves only {_upwards(proved)!r}"
        )
    return _upwards(proved)


def _upwards(value: Fraction) -> float:
    """The smallest double that is not below ``value``."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else float(np.nextafter(nearest, math.inf))
