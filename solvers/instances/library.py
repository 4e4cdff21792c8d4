"""The shipped instances by name: what is known about each, and the problem itself."""

from __future__ import annotations

import io
import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import did_you_mean
from solvers.problem import Problem, assembled, digest, families, parts
from solvers.reading import expand, parse_json, read_arrays

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
        which fewer may have been available.
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
    """Return names of the instances, sorted.

    Parameters
    ----------
    family : str, optional
        Only those of one family, a module below `solvers`: "dispersion", say. Deadlines have none.

    Raises
    ------
    InvalidOption
        When there is no such family.
    """
    if family is not None and family not in (known := families()):
        raise InvalidOption(
            f"there is no family {family!r}{did_you_mean(family, known, 0.5)} (known: {', '.join(known)})"
        )
    return sorted(name for name, known in _index().items() if family in (None, known.family))


def info(name: str) -> InstanceInfo:
    """Return the facts about one instance; raises `InvalidOption` where there is none of that name."""
    try:
        return _index()[name]
    except (KeyError, TypeError):  # a list has no hash
        raise InvalidOption(
            f"the library has no instance {name!r}{did_you_mean(name, _index(), 0.5)} ({len(_index())} are known: "
            "solvers.instances.names() or 'fedselect instances list')"
        ) from None


def load(name: str) -> Problem:
    """Load one instance of the library, to the bits it was recorded with.

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
    """Return the decision with the best known value of one instance; errors as for `load`, or where none is known."""
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


_VALUES, _PLACES, _BEST = ".values", ".places", "best decision"


def pack(problem: Problem, best: NDArray[Any] | None = None) -> bytes:
    """Return the content of an instance's file: an LZMA-compressed ``.npz`` archive that `unpack` reads.

    Parameters
    ----------
    problem : Problem
        The problem.
    best : ndarray, optional
        The best decision known.

    Returns
    -------
    bytes
    """
    header, arrays = parts(problem)
    stored: dict[str, Any] = {"header": np.array(json.dumps(header))}
    for name, array in arrays.items():
        stored |= _coded(name, array)
    if best is not None:
        stored[_BEST] = best
    stream = io.BytesIO()
    np.savez(stream, **stored)
    return lzma.compress(stream.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes, path: str) -> tuple[Problem, NDArray[Any] | None]:
    """Read what `pack` made.

    Parameters
    ----------
    data : bytes
        The file's content.
    path : str
        Where it is from, for messages.

    Returns
    -------
    (Problem, ndarray or None)
        The problem and the best decision known.

    Raises
    ------
    InvalidProblem
        When the data are of another kind or damaged.
    """
    try:
        stored = read_arrays(expand(data, "xz"))
        header, best = parse_json(str(stored.pop("header", ""))), stored.pop(_BEST, None)
        arrays = {name.removesuffix(_VALUES): _decoded(name, stored) for name in stored if not name.endswith(_PLACES)}
    except (ValueError, LookupError) as error:
        raise InvalidProblem(f"{path} is not an instance of the library: {error}") from error
    return assembled(header, arrays, path), best


def _coded(name: str, array: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays that stand for one: itself, or the distinct entries of a symmetric matrix and their places."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.dtype.kind != "f":
        return {name: array}
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")  # as integers, so that -0.0 is not 0.0
    if bits.diagonal().any() or not np.array_equal(bits, bits.T):
        return {name: array}
    values, places = np.unique(bits[np.triu_indices(len(bits), 1)], return_inverse=True)
    return {
        name + _VALUES: values.view(array.dtype),
        name + _PLACES: places.astype(np.min_scalar_type(max(values.size - 1, 0))),
    }


def _decoded(name: str, stored: dict[str, NDArray[Any]]) -> NDArray[Any]:
    if not name.endswith(_VALUES):
        return stored[name]
    places = stored[name.removesuffix(_VALUES) + _PLACES]
    n = (1 + round((1 + 8 * places.size) ** 0.5)) // 2  # places.size = n (n - 1) / 2
    matrix = np.zeros((n, n), dtype=stored[name].dtype)
    rows, columns = np.triu_indices(n, 1)
    matrix[rows, columns] = matrix[columns, rows] = stored[name][places]
    return matrix
