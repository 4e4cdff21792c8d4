"""The shipped instances by name: what is known about each, and the problem itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from solvers.errors import InvalidOption, InvalidProblem
from solvers.instances.coding import digest, unpack
from solvers.options import did_you_mean
from solvers.problem import FAMILIES, Problem

__all__ = ["FOLDER", "InstanceInfo", "best", "info", "load", "names"]

#: Where the library lies: ``index.json``, and ``data/<name>.xz`` for each instance.
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class InstanceInfo:
    """Facts about an instance.

    Attributes
    ----------
    name : str
        Its name in the library.
    family, type : str
        Module below ``solvers`` and class of the problem.
    n : int
        Clients (groups, for an allocation problem) to decide about. The name says how many the federation has, of
        whom fewer may have been available.
    best_known : float or None
        The best objective known: that of the decision that `best` returns.
    bound : float or None
        The best bound known: no feasible decision has a better value.
    proved : bool
        Whether bound and best known value meet (`solvers.solution.proves`).
    method : str
        What found the best known value and the bound.
    source : str
        Federation, round, selector and equation it was recorded from.
    command : str
        The command that records it again.
    digest : str
        SHA-256 of the problem's bits; see `solvers.instances.digest`.
    bytes : int
        Size of its file.
    """

    name: str
    family: str
    type: str
    n: int
    best_known: float | None
    bound: float | None
    proved: bool
    method: str
    source: str
    command: str
    digest: str
    bytes: int


def names(family: str | None = None) -> list[str]:
    """Names of the instances, sorted.

    Parameters
    ----------
    family : str, optional
        Only those of one family: "dispersion", "weighting", "capping", "allocation" or "participation".

    Raises
    ------
    InvalidOption
        When there is no such family.
    """
    if family is not None and family not in FAMILIES:
        raise InvalidOption(
            f"there is no family {family!r}{did_you_mean(family, FAMILIES, 0.5)} (known: {', '.join(FAMILIES)})"
        )
    return sorted(name for name, known in _index().items() if family in (None, known.family))


def info(name: str) -> InstanceInfo:
    """Return the facts about one instance; raises `InvalidOption` where there is none of that name."""
    try:
        return _index()[name]
    except KeyError:
        raise InvalidOption(
            f"the library has no instance {name!r}{did_you_mean(name, _index(), 0.5)} ({len(_index())} are known: "
            "solvers.instances.names() or 'fedselect instances list')"
        ) from None


def load(name: str) -> Problem:
    """One instance of the library, to the bits it was recorded with.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Problem

    Raises
    ------
    InvalidOption
        When there is no such instance.
    InvalidProblem
        When its file is missing or damaged, or its digest is not that of the index.
    """
    return _read(name)[0]


def best(name: str) -> NDArray[Any]:
    """The decision with the best known value of one instance; errors as for `load`."""
    decision = _read(name)[1]
    if decision is None:
        raise InvalidProblem(f"no decision is known for the instance {name!r}")
    return decision


def _read(name: str) -> tuple[Problem, NDArray[Any] | None]:
    known = info(name)
    path = FOLDER / "data" / f"{name}.xz"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidProblem(f"cannot read the instance {name!r}: {error}") from error
    problem, decision = unpack(data, str(path))
    if (found := digest(problem)) != known.digest:
        raise InvalidProblem(
            f"the instance {name!r} has digest {found[:12]}, the index says {known.digest[:12]}; reinstall the package"
        )
    return problem, decision


@cache
def _index() -> dict[str, InstanceInfo]:
    entries = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    return {entry["name"]: InstanceInfo(**entry) for entry in entries}
