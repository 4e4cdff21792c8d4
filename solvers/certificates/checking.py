"""``check``: verify a certificate without trusting who wrote it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import check_certificate
from solvers.certificates.certificate import Certificate, problem_digest, problem_fields
from solvers.certificates.coverage import check_coverage
from solvers.certificates.exact.attainable import attainable
from solvers.certificates.exact.balance import check_balance
from solvers.certificates.exact.concave import Rounded
from solvers.certificates.exact.dispersion import as_dispersion, by_client, check_dispersion
from solvers.certificates.exact.listed import Listed
from solvers.certificates.exact.rlt import check_rlt
from solvers.certificates.exact.sides import Sides
from solvers.certificates.schema import SCHEMAS, validated
from solvers.certificates.work import afford
from solvers.errors import CertificateError

#: The checkers of searches by the kind of certificate; `solvers.certificates.schema` says what each of them is given.
#: Other kinds, whose check takes milliseconds, are those of the one file alone.
CHECKERS: dict[str, Callable[[Any, int, Mapping[str, Any]], Fraction]] = {
    "dispersion": check_dispersion,
    "kinds": check_dispersion,
    "rlt": check_rlt,
    "quadratic": check_dispersion,
    "quadratic-rlt": check_rlt,
    "balance": check_balance,
    "coverage": check_coverage,
}


def check(problem: Any, certificate: Certificate) -> float:
    """Verify a certificate, without trust in rounding or a search, and return the bound it proves.

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
        When it belongs to another problem, is not of the form that its kind has, would take too long to check, or does
        not prove the bound it claims.
    """
    problem, certificate = _given(problem, certificate)
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
    try:
        read, units = _as_read(problem, kind)
        afford(kind, problem, arrays)
        found = CHECKERS[kind](read, certificate.grid, arrays)
        proved = units(found)
        if kind not in ("balance", "coverage") and sign * proved > sign * Fraction(claim):
            proved = units(attainable(read, found))
        safe = _away(proved, sign)
    except ArithmeticError as error:
        raise CertificateError(f"the certificate's numbers leave the range of those computed with: {error}") from error
    except (MemoryError, RecursionError) as error:
        raise CertificateError("to read the certificate takes more memory than there is") from error
    if sign * proved > sign * Fraction(claim):
        raise CertificateError(f"the certificate claims the bound {claim!r}, but proves only {safe!r}")
    return safe


class PoolProof(NamedTuple):
    """What a certificate proves of the selections that it lists, by `check_pool`.

    Attributes
    ----------
    members : tuple of (tuple of int, float)
        Ids and value of each member of the pool, best first; a value may be off by ``error``.
    vetoed : tuple of tuple of int
        Ids of the refused selections.
    bound : float
        No selection that is not listed is better; where members differ in ``diverse`` clients at least, none but those
        that differ in fewer from a member that is no worse.
    diverse : int
        1 where members are any distinct selections.
    error : float
        What rounding the problem to the certificate's whole numbers may have changed of a value.
    is_complete : bool
        Whether ``bound`` is better than the last member by no more than counts as optimal: the members are the best
        ones, of those that differ in ``diverse`` clients. False without members.
    """

    members: tuple[tuple[tuple[int, ...], float], ...]
    vetoed: tuple[tuple[int, ...], ...]
    bound: float
    diverse: int
    error: float
    is_complete: bool


def check_pool(
    problem: Any, certificate: Certificate, veto: Callable[[NDArray[np.int64]], object] | None = None
) -> PoolProof:
    """Verify a certificate that lists a pool, and return what it proves of the pool.

    Parameters
    ----------
    problem, certificate
        As for `check`, which is called first.
    veto : callable, optional
        What refused selections: it must refuse those that the certificate lists as refused, and no member.

    Raises
    ------
    CertificateError
        As for `check`; where it lists no selections, or where the veto says otherwise than the certificate.
    """
    problem, certificate = _given(problem, certificate)
    check(problem, certificate)
    arrays = validated(SCHEMAS[certificate.kind], problem, certificate.grid, certificate.arrays)
    if not arrays.get("pool", _NONE).size + arrays.get("vetoed", _NONE).size:
        raise CertificateError("the certificate lists no selections")
    sign = 1 if problem.sense == "max" else -1
    read, units = _as_read(problem, certificate.kind)
    data = Rounded.of(read, certificate.grid)
    listed = Listed(data, Sides(read), arrays)
    ids = np.arange(problem.n) if getattr(problem, "clients", None) is None else np.asarray(problem.clients)
    members = tuple(
        (tuple(ids[list(chosen)].tolist()), _away(units(value * data.unit), sign))
        for chosen, value in zip(listed.pool, listed.values, strict=True)
    )
    vetoed = tuple(tuple(ids[list(chosen)].tolist()) for chosen in sorted(listed.vetoed))
    for chosen, is_refused in [*((each, False) for each, _ in members), *((each, True) for each in vetoed)]:
        if veto is not None and bool(veto(np.array(chosen, dtype=np.int64))) != is_refused:
            said = "refused, which the veto does not refuse" if is_refused else "a member, which the veto refuses"
            raise CertificateError(f"the certificate lists the selection {list(chosen)} as {said}")
    goal = int(arrays["goal"][0])
    bound = _away(units(goal * data.unit + data.error), sign)
    last = members[-1][1] if members else -sign * math.inf
    is_complete = sign * (bound - last) <= problem.tolerance_at(last) if members else False
    return PoolProof(members, vetoed, bound, listed.diverse, float(data.error), bool(is_complete))


_NONE = np.zeros(0, dtype=np.int64)


def _given(problem: Any, certificate: Any) -> tuple[Any, Certificate]:
    """Return problem and certificate, in whatever order they were given, or a solution for the latter."""
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
    return problem, certificate


def _as_read(problem: Any, kind: str) -> tuple[Any, Callable[[Fraction], Fraction]]:
    """Return the problem as the checker of a search reads it, and what a bound of that says about the problem."""
    if kind == "kinds":
        return by_client(problem), _same
    return as_dispersion(problem) if kind in ("quadratic", "quadratic-rlt") else (problem, _same)


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


def _same(proved: Fraction) -> Fraction:
    """Return what is proved in the problem's own units."""
    return proved


def _away(value: Fraction, sign: int) -> float:
    """The double nearest to ``value`` that is not below it, for a sign of 1, or not above."""
    nearest = float(value)
    return nearest if sign * Fraction(nearest) >= sign * value else float(np.nextafter(nearest, sign * math.inf))
