"""The ledger: for every instance who found its best value and its best bound, when and how, and what proves the bound.

The bound counts as *certified* where a certificate lies beside it, in ``certificates/<name>.npz``; it is read with
`solvers.certificates.check`, which runs no search, or with the one-file checker.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from solvers.certificates import Certificate, CertificateError, check, check_pool, problem_digest
from solvers.errors import InvalidOption, InvalidProblem
from solvers.instances.library import FOLDER, best, info, load, names
from solvers.problem import Problem
from solvers.reading import Unreadable, is_json, read_json
from solvers.solution import FORMAT, Solution, proves

#: Share of a certified bound by which another must be better to count: searches that prove the same optimum end some
#: 1e-12 apart by rounding, and nobody wins by that.
BEYOND_ROUNDING = 1e-9

Tier = Literal["easy", "benchmark", "open"]


@dataclass(frozen=True)
class Found:
    """A value or a bound, and where it comes from.

    Attributes
    ----------
    number : float
        The objective of the decision, or the bound.
    who, when, version, method, command : str
        Who found it first and on which day (ISO), with which version and method, and the line that finds it again.
    seconds : float or None
        How long that took, where it was kept.
    """

    number: float
    who: str
    when: str
    version: str
    method: str
    command: str
    seconds: float | None = None


@dataclass(frozen=True)
class LedgerEntry:
    """One instance in the ledger.

    Attributes
    ----------
    name : str
        Of the instance.
    tier : {"easy", "benchmark", "open"}
        Proved under a time limit of one second; proved; not proved.
    problem : str
        `solvers.certificates.problem_digest` of the problem: what a certificate names it by.
    value, bound : Found
        The best known of each.
    certified : float or None
        What the certificate beside it was last seen to prove; None where there is none.
    """

    name: str
    tier: Tier
    problem: str
    value: Found
    bound: Found
    certified: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Verdict on a file: the ``sentence``, and whether it was ``accepted``; numbers where there are any.

    ``improves`` says of a submission whether the ledger would change.
    """

    accepted: bool
    sentence: str
    verified: float | None = None
    value: float | None = None
    improves: bool = False


def entries() -> dict[str, LedgerEntry]:
    """Return all entries by name."""
    return dict(_entries(FOLDER / "ledger.json"))


def entry(name: str) -> LedgerEntry:
    """Return the entry of one instance; raises `InvalidOption` for a name that is none, or not in the ledger yet."""
    known = info(name).name
    try:
        return _entries(FOLDER / "ledger.json")[known]
    except KeyError:
        raise InvalidOption(f"the ledger has no entry for the instance {name!r} yet") from None


def certificate(name: str) -> Certificate | None:
    """Return the certificate of an instance's bound.

    None where none is shipped, `CertificateError` for a damaged one.
    """
    path = FOLDER / "certificates" / f"{info(name).name}.npz"
    return Certificate.load(path) if path.is_file() else None


def of_digest(problem: str) -> str | None:
    """Return the name of the instance whose problem has this `solvers.certificates.problem_digest`."""
    return next((name for name, known in entries().items() if known.problem == problem), None)


def verify(name: str) -> Verdict:
    """Read the certificate of one instance, and evaluate its best decision again."""
    problem, known = load(name), entry(name)
    value = float(problem.objective(best(name)))
    if problem.violation(best(name)) > problem.tolerance or abs(value - known.value.number) > 1e-9 * problem.scale:
        return Verdict(False, f"the best decision is worth {value!r}, not {known.value.number!r}", value=value)
    found = certificate(name)
    if found is None:
        return Verdict(known.certified is None, "no certificate is shipped", value=value)
    return judged(problem, found, best(name))


def judged(problem: Problem, found: Certificate, x: Any = None) -> Verdict:
    """Return whether a certificate proves what it claims, and for which decisions; beside one, whether the two meet."""
    value = None if x is None else float(problem.objective(x))
    try:
        verified = check(problem, found)
    except CertificateError as error:
        return Verdict(False, str(error), value=value)
    said = f"the bound {verified!r} is proved"
    if found.is_of_whole:
        said += f" for {found.holds_for}"
    if value is not None and found.covers(problem.decision(x)) and proves(problem, value, verified):
        said += f", and {value!r} is optimal"
    if np.size(found.arrays.get("pool", ())) or np.size(found.arrays.get("vetoed", ())):
        proof = check_pool(problem, found)
        count = len(proof.members) + len(proof.vetoed)
        said += f"; every selection but the {count} that it lists is no better than {proof.bound!r}"
    return Verdict(True, said, verified, value)


def submit(found: Solution | Certificate | str | os.PathLike[str]) -> tuple[str, Verdict]:
    """Judge a solution or a certificate of an instance of the library; nothing is entered.

    Parameters
    ----------
    found : Solution, Certificate or path-like
        What was found, or the file of it: of `solvers.Solution.save`, of ``--out`` or of ``--certificate``.

    Returns
    -------
    tuple of str and Verdict
        The instance's name, and what the file would change.

    Raises
    ------
    CertificateError
        When the file is neither, or a damaged certificate.
    InvalidOption
        When it is none of these, there is no such file, or it is about no instance of the library.
    """
    if isinstance(found, Solution):
        problem_hash, x, proof = problem_digest(found.problem), found.x, found.certificate
    elif isinstance(found, Certificate):
        problem_hash, x, proof = found.problem, None, found
    elif not isinstance(found, str | os.PathLike):
        kind = type(found).__name__
        raise InvalidOption(f"a submission is a Solution, a Certificate or the file of one; got a {kind}")
    elif Path(found).is_file():
        problem_hash, x, proof = _read(Path(found))
    else:
        raise InvalidOption(f"there is no file {found}")
    name = of_digest(problem_hash)
    if name is None:
        what = found if isinstance(found, str | os.PathLike) else "what is submitted"
        raise InvalidOption(f"{what} is about no instance of the library")
    problem, known = load(name), entry(name)
    sign = 1.0 if problem.sense == "max" else -1.0
    changes: list[str] = []
    value = None
    if x is not None:
        violation = problem.violation(problem.decision(x))
        if not violation <= problem.tolerance:
            return name, Verdict(False, f"its decision violates a constraint by {violation:.6g}")
        value = float(problem.objective(x))
        if sign * (value - known.value.number) > 1e-12 * problem.scale:
            changes.append(f"the best value becomes {value!r} (was {known.value.number!r})")
    verdict = Verdict(True, "", value=value)
    if proof is not None:
        verdict = judged(problem, proof, x)
        if not verdict.accepted:
            return name, verdict
        assert verdict.verified is not None
        if known.certified is None or sign * (known.certified - verdict.verified) > problem.tolerance_at(
            known.certified, BEYOND_ROUNDING
        ):
            changes.append(f"the certified bound becomes {verdict.verified!r} (was {known.certified!r})")
    worse = value is not None and sign * (known.value.number - value) > 1e-12 * problem.scale
    than = f"its value {value!r} is worse than the known {known.value.number!r}"
    equal = "the ledger knows as good a value and bound"
    said = "; ".join(changes) or f"it changes nothing: {than if worse else equal}"
    return name, Verdict(True, said, verdict.verified, value, bool(changes))


def _read(path: Path) -> tuple[str, Any, Certificate | None]:
    """Digest of the problem, decision and certificate of a file, each of the latter None where it has none."""
    try:
        found = Certificate.load(path)
        return found.problem, None, found
    except CertificateError as not_certificate:
        try:
            solution = Solution.load(path, _about(path) if is_json(path) else None)
        except (InvalidProblem, OSError) as error:
            if "not a certificate file" not in str(not_certificate):
                raise not_certificate from error
            reason = str(error).removeprefix(f"{path} is not a solution file ({FORMAT}): ")
            raise CertificateError(
                f"{path} holds no solution and no certificate ({reason}); a submission is what "
                "'fedselect solve NAME --out FILE' wrote (with --start IDS for a selection found elsewhere), or "
                "Solution.save, or --certificate"
            ) from error
        return problem_digest(solution.problem), solution.x, solution.certificate


def _about(path: Path) -> Problem:
    """Return the instance that a solution in JSON is about."""
    try:
        known = str(read_json(path)["problem"]["digest"])
    except (Unreadable, KeyError, TypeError) as error:
        raise InvalidProblem(f"{path} holds no solution: {error}") from error
    if (name := of_digest(known)) is None:
        raise InvalidOption(f"{path} is about no instance of the library")
    return load(name)


@cache
def _entries(path: Path) -> dict[str, LedgerEntry]:
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))
    found = [LedgerEntry(**{**row, "value": Found(**row["value"]), "bound": Found(**row["bound"])}) for row in rows]
    return {row.name: row for row in found if row.name in names()}
