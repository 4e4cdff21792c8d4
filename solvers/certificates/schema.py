"""The form of every kind of certificate, tested before any checker runs: which numbers it holds, and in which ranges.

A checker computes with what this module returns: one-dimensional arrays of int64 whose lengths fit each other and whose
entries lie in the ranges below. The ranges are what its sums rest on; where a sum of them could leave 64 bits, the
checker proves that it does not, or adds in Python's integers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import CertificateError

Integers = NDArray[np.int64]

#: Most clients of a dispersion problem; with the ranges below no sum of the checkers leaves 64 bits.
CLIENTS = 1 << 16

#: Multipliers of a form are smaller, and what its diagonal is raised by.
MULTIPLIER, ROOM = 1 << 40, 1 << 44

#: Factors of clients in cuts are no larger, and no cut has more members.
FACTOR, WIDTH = 1 << 10, 64

#: Shares of points are multiples of 1 / POINT, or of a part of it.
POINT = 1 << 20

#: Factors of squares that raise an objective are no larger, and squares are divided by two so often at most.
ROOT, HALVINGS = 1 << 26, 40

#: Levels of clients are no higher: turns are at most 2^31 before, and one in each round.
LEVEL = 1 << 33

#: Most entries of an array: what is read is tested in minutes.
ENTRIES = 1 << 23

#: Any whole number whose negative is kept in 64 bits too, and one whose double is as well.
_ANY, _WIDE = (1 << 63) - 1, (1 << 62) - 1


@dataclass(frozen=True)
class Array:
    """Entries from ``least`` to ``most`` (``"last"``: the last client; ``"last form"``: the last form).

    ``length`` is a number, ``"clients"``, ``"forms"``, ``"stages"``, or the name of an array of the same length. Where
    ``parts`` is given, the array holds one part after the other, each of which is a whole number of groups of ``group``
    entries; part k has the entries from ``<name>_start[k]`` to ``<name>_start[k + 1]``. There is one part for each
    of ``parts`` (``"forms"``, as many as ``form_ids`` has, or ``"stages"``, as many as ``stage_ids``), and it is as
    long as that of the array ``like``. What is ``optional`` may be left out, where every part of it is empty.
    """

    least: int
    most: int | str
    length: int | str | None = None
    parts: str | None = None
    group: int = 1
    like: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Schema:
    """The type of problem that a kind of certificate is about, the arrays it holds, and the range of its grid.

    ``clients`` is the problem's field with one entry for each client, by default the first that is an array.
    """

    about: str
    arrays: Mapping[str, Array]
    grid: tuple[int, int]
    clients: str | None = None


#: Doubles, the smallest of which is 2^-1074, as multiples of 2^grid with 52 or 60 bits.
_DOUBLES = (-1200, 1200)

_SEARCH = {
    "order": Array(0, "last", "clients"),
    "form_ones": Array(0, "last", parts="forms"),
    "form_ids": Array(0, "last", parts="forms"),
    "form_diagonal": Array(1 - MULTIPLIER, MULTIPLIER - 1, parts="forms", like="form_ids"),
    "form_nonnegative": Array(0, MULTIPLIER - 1, parts="forms", group=3),
    "form_dominated": Array(1 - MULTIPLIER, MULTIPLIER - 1, parts="forms", group=3),
    "form_room": Array(0, ROOM - 1, "forms"),
    "form_cut": Array(-POINT, MULTIPLIER - 1, parts="forms", group=3, optional=True),
    "form_cut_member": Array(-FACTOR, CLIENTS, parts="forms", group=2, optional=True),
    "form_better": Array(0, "last", parts="forms", group=2),
    "form_row": Array(0, MULTIPLIER - 1, parts="forms", group=3, optional=True),
    "goal": Array(-_WIDE, _WIDE, 1),
    "grain": Array(1, POINT, 1),
    "origin": Array(-1, 2 * ENTRIES, "form"),
    "client": Array(-1, "last", "form"),
    "form": Array(-1, "last form"),
    "point": Array(0, POINT),
    "price": Array(0, MULTIPLIER - 1, optional=True),
    "pool": Array(0, "last", optional=True),
    "vetoed": Array(0, "last", optional=True),
    "diverse": Array(1, CLIENTS, optional=True),
    "curved": Array(0, "last form", optional=True),
}

_STAGES = {
    "stage_ids": Array(0, "last", parts="stages"),
    "stage_price": Array(1 - MULTIPLIER, MULTIPLIER - 1, parts="stages", like="stage_ids"),
    "stage_core": Array(0, "last", parts="stages"),
    "stage_factor": Array(-ROOT, ROOT, parts="stages"),
    "stage_moved": Array(1 - MULTIPLIER, MULTIPLIER - 1, parts="stages", group=3),
    "stage_halvings": Array(0, HALVINGS, "stages"),
}

SCHEMAS: dict[str, Schema] = {
    "dispersion": Schema("DispersionProblem", _SEARCH, (-900, 900)),
    "kinds": Schema("KindDispersionProblem", _SEARCH, (-900, 900), "kinds"),
    "rlt": Schema("DispersionProblem", _SEARCH | _STAGES, (-900, 900)),
    "quadratic": Schema("QuadraticProblem", _SEARCH, (-900, 900)),
    "quadratic-rlt": Schema("QuadraticProblem", _SEARCH | _STAGES, (-900, 900)),
    "points": Schema(
        "PointDispersionProblem",
        {
            "clients": Array(0, "last", "shares"),
            "shares": Array(0, POINT),
            "price": Array(0, MULTIPLIER - 1, optional=True),
        },
        (-900, 900),
    ),
    "balance": Schema(
        "BalanceProblem",
        {**_SEARCH, "level": Array(0, MULTIPLIER - 1), "fine": Array(0, 60, "level")},
        (-900, 900),
    ),
    "coverage": Schema(
        "CoverageProblem",
        {
            "goal": Array(-_WIDE, _WIDE, 1),
            "origin": Array(-1, 2 * ENTRIES, "client"),
            "client": Array(-1, ENTRIES),
            "looks": Array(0, ENTRIES, "client"),
            "multiplier": Array(-_WIDE, _WIDE),
        },
        (-900, 900),
    ),
    "schedule": Schema("ScheduleProblem", {"level": Array(-1, LEVEL, "clients")}, (0, 0), "counts"),
    "allocation": Schema("AllocationProblem", {"price": Array(0, _ANY, 1), "whole": Array(0, 1, 1)}, _DOUBLES),
    "exclusion": Schema("ExclusionProblem", {"target": Array(-_ANY, _ANY, 1), "tree": Array(-_ANY, _ANY)}, _DOUBLES),
    "optimization-error": Schema("OptimizationErrorProblem", {"q": Array(0, _ANY, "clients")}, _DOUBLES),
    "total-error": Schema(
        "TotalErrorProblem", {"q": Array(0, _ANY, "clients"), "multiplier": Array(0, _ANY, 1)}, _DOUBLES
    ),
    "capping": Schema("CappingProblem", {"multiplier": Array(-_ANY, _ANY, 1)}, _DOUBLES),
    "cutoff": Schema("CutoffProblem", {"cutoff": Array(1, 10**12, 1)}, (0, 0)),
}


def validated(schema: Schema, problem: Any, grid: Any, arrays: Any) -> dict[str, Integers]:
    """Return a certificate's arrays as int64, or raise `CertificateError` with the rule that is broken.

    Parameters
    ----------
    schema : Schema
        Of the certificate's kind.
    problem : Problem
        Of the type that the schema names.
    grid : object
        The certificate's; a Python int in the schema's range passes.
    arrays : object
        The certificate's; a mapping of names to arrays of integers passes.
    """
    least, most = schema.grid
    if type(grid) is not int or not least <= grid <= most:
        raise CertificateError(f"the grid must be a whole number from {least} to {most}; got {grid!r:.40}")
    if not isinstance(arrays, Mapping):
        raise CertificateError(f"a certificate's arrays must be a mapping of names; got a {type(arrays).__name__}")
    wanted = dict(schema.arrays)
    for name, array in schema.arrays.items():
        if array.parts is not None:
            wanted[f"{name}_start"] = Array(0, ENTRIES)
    if strange := sorted(map(repr, set(arrays) - set(wanted))):
        raise CertificateError(f"the certificate holds arrays that none of its kind has: {', '.join(strange):.80}")
    found: dict[str, Integers] = {}
    for name in wanted:
        rule = wanted[name.removesuffix("_start")]
        if rule.optional and not {name, f"{name}_start", name.removesuffix("_start")} & set(arrays):
            found[name] = np.zeros(found["form_ids_start"].size if name.endswith("_start") else 0, dtype=np.int64)
            continue
        if name not in arrays:
            raise CertificateError(f"the certificate lacks the array {name!r}")
        found[name] = _integers(name, arrays[name])
    n = len(getattr(problem, schema.clients)) if schema.clients is not None else _clients(problem)
    counts = {"clients": n} | {f"{name}s": _parts(found, f"{name}_ids") for name in ("form", "stage")}
    lasts = {"last": n - 1, "last form": counts["forms"] - 1}
    for name, array in wanted.items():
        most = lasts[array.most] if isinstance(array.most, str) else array.most
        _in_range(name, found[name], array.least, most)
        if array.length is not None:
            _of_length(name, found[name].size, _length(array.length, counts, found))
    for name, array in schema.arrays.items():
        if array.parts is not None:
            _in_parts(name, array, found, _length(array.parts, counts, found))
    return found


def _clients(problem: Any) -> int:
    """Number of clients (groups, for an allocation), by the field of the problem that has one entry for each."""
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if isinstance(value, np.ndarray):
            return len(value)
    raise CertificateError(f"a {type(problem).__name__} holds no array")


def _integers(name: str, array: Any) -> Integers:
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray) or array.dtype.kind not in "iu":
        got = array.dtype if type(array) is np.ndarray else type(array).__name__
        raise CertificateError(f"array {name!r} of the certificate must hold whole numbers, not {got}")
    if array.ndim != 1 or array.size > ENTRIES:
        raise CertificateError(
            f"array {name!r} of the certificate must have one dimension and at most {ENTRIES} entries; "
            f"its shape is {array.shape}"
        )
    if array.dtype.kind == "u" and array.size and int(array.max()) > _ANY:
        raise CertificateError(f"array {name!r} of the certificate holds {int(array.max())}, which 64 bits do not")
    return array.astype(np.int64)


def _in_range(name: str, values: Integers, least: int, most: int) -> None:
    # Not by absolute values: that of -2^63 is negative.
    if values.size and (int(values.min()) < least or int(values.max()) > most):
        wrong = int(values.min()) if int(values.min()) < least else int(values.max())
        raise CertificateError(f"the entries of {name!r} must lie between {least} and {most}; one is {wrong}")


def _length(rule: int | str, counts: Mapping[str, int], found: Mapping[str, Integers]) -> int:
    if isinstance(rule, int):
        return rule
    return counts[rule] if rule in counts else found[rule].size


def _of_length(name: str, size: int, wanted: int) -> None:
    if size != wanted:
        raise CertificateError(f"array {name!r} of the certificate must have {wanted} entries; it has {size}")


def _parts(found: Mapping[str, Integers], name: str) -> int:
    return max(found[f"{name}_start"].size - 1, 0) if name in found else 0


def _in_parts(name: str, array: Array, found: Mapping[str, Integers], count: int) -> None:
    starts, size = found[f"{name}_start"], found[name].size
    _of_length(f"{name}_start", starts.size, count + 1)
    sizes = np.diff(starts)  # of numbers from 0 to ENTRIES
    if starts[0] != 0 or starts[-1] != size or (sizes < 0).any() or (sizes % array.group != 0).any():
        raise CertificateError(f"the parts of {name!r} must follow each other, in groups of {array.group}")
    if array.like is not None and not np.array_equal(starts, found[f"{array.like}_start"]):
        raise CertificateError(f"the parts of {name!r} must be as long as those of {array.like!r}")
