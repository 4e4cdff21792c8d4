"""``check``: verify a certificate without trusting who wrote it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.certificates import check_certificate
from solvers.certificates.certificate import Certificate, problem_digest, problem_fields
from solvers.certificates.coverage import check_coverage
from solvers.certificates.exact.attainable import attainable
from solvers.certificates.exact.balance import check_balance
from solvers.certificates.exact.dispersion import by_client, check_dispersion
from solvers.certificates.exact.rlt import check_rlt
from solvers.certificates.schema import SCHEMAS, validated
from solvers.certificates.work import afford
from solvers.errors import CertificateError

#: The checkers of searches by the kind of certificate; `solvers.certificates.schema` says what each of them is given.
#: Other kinds, whose check takes milliseconds, are those of the one file alone.
CHECKERS: dict[str, Callable[[Any, int, Mapping[str, Any]], Fraction]] = {
    "dispersion": check_dispersion,
    "kinds": check_dispersion,
    "rlt": check_rlt,
    "balance": check_balance,
    "coverage": check_coverage,
}


def check(problem: Any, certificate: Certificate) -> float:
    """Verify a certificate with exact arithmetic, apart from all searches, and return the bound it proves.

    Parameters
    ----------
    problem : Problem
        The problem that it is about.
    certificate : Certificate
        The numbers that are said to prove the bound; of a solution, its own.

    Returns
    -------
    float
        The verified bound: at most ``certificate.bound`` for a maximisation (at least, for a minimisation), and
        rounded to the safe side. No decision is better of those that `Certificate.holds_for` names: every one, but for
        certificates of allocations in whole clients, which allocations in real numbers may beat.

    Raises
    ------
    CertificateError
        When it belongs to another problem, is not of the form that its kind has, or does not prove the bound it
        claims; for a tree the sentence names the node that fails.
    """
    if isinstance(problem, Certificate):  # a first guess at the order
        problem, certificate = certificate, problem
    if not isinstance(certificate, Certificate):
        found = getattr(certificate, "certificate", None)  # of a solution
        if not isinstance(found, Certificate):
            raise CertificateError(
                f"check takes a problem and a certificate; got a {type(certificate).__name__} without one "
                "(solve(..., certificate=True) keeps what proves its bound)"
            )
        certificate = found
    kind, claim = certificate.kind, certificate.bound
    if not isinstance(kind, str) or kind not in SCHEMAS:
        raise CertificateError(f"certificates of kind {kind!r:.80} are not known (known: {', '.join(SCHEMAS)})")
    # The very type, as a subclass may mean something else by the same fields.
    schema, named = SCHEMAS[kind], type(problem).__name__
    if named != schema.about or type(problem).__module__.partition(".")[0] != "solvers":
        raise CertificateError(f"a certificate of kind {kind!r} is about a {schema.about}, not about a {named}")
    if certificate.problem != problem_digest(problem):
        raise CertificateError(f"the certificate is about another problem than this {named}")
    if not isinstance(claim, float) or not math.isfinite(claim):
        raise CertificateError(f"the certificate claims the bound {claim!r:.80}, which is no number")
    arrays = validated(schema, problem, certificate.grid, certificate.arrays)
    if kind not in CHECKERS:
        return _by_one_file(problem, certificate, arrays)
    sign = 1 if problem.sense == "max" else -1
    read = by_client(problem) if kind == "kinds" else problem
    afford(kind, problem, arrays)
    try:
        proved = CHECKERS[kind](read, certificate.grid, arrays)
        if kind in ("dispersion", "kinds", "rlt") and proved > Fraction(claim):
            proved = attainable(read, proved)
        safe = _away(proved, sign)
    except ArithmeticError as error:
        raise CertificateError(f"the certificate's numbers leave the range of those computed with: {error}") from error
    except (MemoryError, RecursionError) as error:
        raise CertificateError("to read the certificate takes more memory than there is") from error
    if sign * proved > sign * Fraction(claim):
        raise CertificateError(f"the certificate claims the bound {claim!r}, but proves only {safe!r}")
    return safe


def _by_one_file(problem: Any, certificate: Certificate, arrays: Mapping[str, Any]) -> float:
    """Check a kind that takes milliseconds by the one file: its numbers as they would stand in files."""
    fields, scalars = problem_fields(problem)
    read = {
        name: (array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes(), array.ravel().tolist())
        for name, array in sorted(fields.items())
    }
    try:
        stated = check_certificate.problem_as_read(type(problem).__name__, json.loads(json.dumps(scalars)), read)
        lists = {name: array.tolist() for name, array in arrays.items()}
        found = certificate.kind, certificate.problem, certificate.bound, certificate.grid, lists
        return float(check_certificate.check(stated, *found))
    except check_certificate.Refused as error:
        raise CertificateError(str(error)) from error
    except (MemoryError, RecursionError) as error:
        raise CertificateError("to read the certificate takes more memory than there is") from error


def _away(value: Fraction, sign: int) -> float:
    """The double nearest to ``value`` that is not below it, for a sign of 1, or not above."""
    nearest = float(value)
    return nearest if sign * Fraction(nearest) >= sign * value else float(np.nextafter(nearest, sign * math.inf))
