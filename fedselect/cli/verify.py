"""``fedselect verify``: check certificates without trusting who wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedselect.cli.common import Ended, Format, check_format, print_table
from fedselect.cli.problems import problem_of
from fedselect.errors import ConfigError
from solvers import Problem, instances
from solvers.certificates import Certificate, CertificateError, problem_digest
from solvers.instances.ledger import Verdict, judged, of_digest
from solvers.instances.ledger import verify as verify_instance

__all__ = ["verify"]


def verify(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Certificates (.npz), or names in the library, whose certificates are shipped."),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(help="The problem they are about (file or name); by default the library's that they name."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All certificates of the library.")] = False,
    format: Format = "text",
) -> None:
    """Check certificates with exact arithmetic, apart from all solvers, and print what each proves.

    Exit codes: 0 every certificate proves what it claims; 2 bad input (no such file, or no problem to check against);
    3 at least one was refused, with the reason printed. solvers/certificates/check_certificate.py does the same in one
    file of Python's standard library, to be mailed with problem and certificate.
    """
    check_format(format)
    given = list(files or [])
    if everything:
        given += [name for name, entry in instances.ledger.entries().items() if entry.certified is not None]
    if not given:
        raise ConfigError("name at least one certificate or instance, or give --all")
    about = None if problem is None else problem_of(problem)[0]
    rows: list[tuple[str, Verdict]] = [(text, _verdict(text, about)) for text in given]
    if format == "json":
        print(
            json.dumps(
                [
                    {"file": text, "verified": found.accepted, "bound": found.verified, "why": found.sentence}
                    for text, found in rows
                ],
                indent=1,
            )
        )
    else:
        words = [(text, "verified" if found.accepted else "REFUSED", found.sentence) for text, found in rows]
        print_table(("file", "verdict", "what was found"), words)
    if not all(found.accepted for _, found in rows):
        raise Ended(3)


def _verdict(text: str, about: Problem | None) -> Verdict:
    if text in instances.names():
        return verify_instance(text)
    if not Path(text).is_file():
        raise ConfigError(f"there is no file {text}, and no instance of that name in the library")
    try:
        found = Certificate.load(text)
    except CertificateError as error:
        return Verdict(False, str(error))
    if about is None:
        name = of_digest(found.problem)
        if name is None:
            raise ConfigError(f"{text} is about a problem that the library does not have: give it with --problem")
        about = instances.load(name)
    elif problem_digest(about) != found.problem:
        return Verdict(False, "the certificate is about another problem than the one given")
    return judged(about, found)
