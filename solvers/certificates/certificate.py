"""Certificates: the numbers that prove a bound, as a value and as a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solvers.errors import CertificateError
from solvers.files import appearing_whole
from solvers.reading import Unreadable, parse_json, read_arrays

FORMAT = "solvers-certificate/1"

#: Most bytes of the arrays of a file: more is refused before memory is taken.
_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""The numbers that prove a bound: no decision of a problem is better, of those that `holds_for` names.

    Attributes
    ----------
    kind : str
        The checker that reads it: ``"dispersion"``, ...
    problem : str
        SHA-256 of the problem it is about; see `problem_digest`.
    bound : float
        The bound it claims, in the units of the objective.
    grid : int
        Its whole numbers are multiples of 2^grid (of the objective's units).
    arrays : mapping of str to ndarray of int
        The numbers themselves, in the ranges of `solvers.certificates.schema`. For ``"dispersion"``, with n clients:

        * ``order``: the place of each client in the order that decides exchanges that gain nothing.
        * ``form_ones``, ``form_ids``, ``form_diagonal``, ``form_nonnegative``, ``form_dominated``: multipliers, one
          form after the other; form k has the entries from ``form_*_start[k]`` to ``form_*_start[k + 1]``. ``ones``
          are chosen and ``ids`` open where the form holds; ``diagonal`` has the multiplier of :math:`s_i - s_i^2` for
          each of ``ids``; the other two are triples (i, j, h) by place in ``ids`` with *half* the multiplier of
          :math:`s_i s_j` (h not negative) and of :math:`s_j - s_i s_j`.
        * ``form_room``: how much each form's ``diagonal`` is raised, which must be enough to make it concave.
        * ``form_cut``, ``form_cut_member``: of each cut :math:`(b^\top s - k)(b^\top s - k - 1) \ge 0` its multiplier,
          k and number of members; then these by place in ``ids``, with their factors in b. Left out where none is.
        * ``form_better``: pairs (i, j) by place in ``ids``: i is chosen whenever j is. They imply others.
        * ``goal``: what every closed part is worth at most, in the units of the whole numbers.
        * ``origin``, ``client``, ``form``: of each node, where it lies (-1: the root; 2 k: below node k, without whom
          it branches on; 2 k + 1: with), on whom it branches (-1: on nobody, its tangent closes it), its form (-1: it
          has none, and only branches).
        * ``grain``: a whole number, the unit of ``point``.
        * ``point``: where the nodes' tangents are taken, in units of 1 / ``grain``: form by form, and there one client
          of ``ids`` after the other, the nodes of the form in their order.
        * ``form_row``: of each form, products of what two rows of the side constraints leave of their limits
          (`solvers.certificates.exact.sides`): both rows, and the multiplier in units of 2^grid. Left out where there
          are none.
        * ``price``: of each node, node by node, the price of every row of the side constraints
          (`solvers.certificates.exact.sides`), in units of 2^grid; a budget's is that of its largest use. Left out
          where there are none.
        * ``pool``, ``vetoed``: places of the clients of selections that the goal is not about, m for each, of the pool
          best first; ``diverse``: clients that its members differ in, where more than one. Left out where none is.
        * ``curved``: numbers of the forms whose curvature fixes clients at their nodes, beside the tangents' reduced
          costs: quadratic fixing. Left out where none is.

        The other kinds are described where they are read: ``solvers.certificates.exact.rlt`` (the same, with stages of
        multipliers before it), ``coverage``, ``exact.balance``, and in the one file ``check_certificate``.
    """

    kind: str
    problem: str
    bound: float
    grid: int
    arrays: Mapping[str, NDArray[Any]]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a compressed ``.npz``: the arrays, and a header that also holds their digest. Nothing is pickled."""
        header = {
            "format": FORMAT,
            "kind": self.kind,
            "problem": self.problem,
            "bound": float(self.bound).hex(),
            "grid": int(self.grid),
            "digest": self.digest,
        }
        target = Path(path)
        with appearing_whole(target) as stream:
            np.savez_compressed(stream, header=np.array(json.dumps(header)), **dict(self.arrays))  # type: ignore[arg-type]
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        CertificateError
            When the file is no certificate, or what it holds is not what was written.
        """
        try:
            arrays = read_arrays(path, _BYTES)
            header = parse_json(str(arrays.pop("header", "")))
            if header["format"] != FORMAT:
                raise Unreadable(f"it has format {header['format']!r:.80}")
            if type(header["grid"]) is not int:
                raise Unreadable(f"its grid is {header['grid']!r:.80}")
            if other := next((array.dtype for array in arrays.values() if array.dtype.kind not in "iu"), None):
                raise Unreadable(f"its arrays must hold whole numbers, not {other}")
            kind, problem = str(header["kind"]), str(header["problem"])
            found = cls(kind, problem, float.fromhex(header["bound"]), header["grid"], arrays)
            is_whole = header["digest"] == found.digest
        except (OSError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise CertificateError(f"{path} is not a certificate file ({FORMAT}): {error}") from error
        if not is_whole:
            raise CertificateError(f"{path} was changed or damaged: its contents do not have the digest it states")
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of everything the certificate says."""
        text = hashlib.sha256(f"{self.kind} {self.problem} {float(self.bound).hex()} {self.grid}".encode())
        for name in sorted(self.arrays):
            # By value and not by width: what was narrowed for the file is the same certificate.
            wide = np.ascontiguousarray(self.arrays[name], dtype="<i8")
            text.update(f" {name} {wide.shape} ".encode() + wide.tobytes())
        return text.hexdigest()

    @property
    def is_of_whole(self) -> bool:
        """Whether the bound holds for decisions in whole numbers alone: an allocation's, with ``whole`` 1."""
        return self.kind == "allocation" and bool(np.any(self.arrays["whole"]))

    @property
    def holds_for(self) -> str:
        """For which decisions the bound holds, in words."""
        return "decisions in whole numbers alone" if self.is_of_whole else "every decision"

    def covers(self, x: Any) -> bool:
        """Whether the bound is one of decisions like ``x``: not where it is of whole numbers and these are real."""
        return not self.is_of_whole or np.asarray(x).dtype.kind in "iub"

    def __repr__(self) -> str:
        numbers = sum(array.size for array in self.arrays.values())
        return f"Certificate(kind={self.kind!r}, bound={self.bound!r}, {numbers} numbers)"


#: Field with the names of a problem's clients.
NAMES = "names"


def problem_fields(problem: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return a problem's arrays, and its other fields as JSON has them; an empty list of constraints is left out.

    Names of clients are left out: neither the digest nor a certificate depends on them.
    """
    arrays: dict[str, NDArray[Any]] = {}
    scalars: dict[str, Any] = {}
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if field.name == NAMES:
            continue
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif not (isinstance(value, tuple) and not value):
            scalars[field.name] = _plain(value)
    return arrays, scalars


def _plain(value: Any) -> Any:
    """Return a field as JSON has it: lists for tuples and arrays, tables for constraints."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value.tolist() if isinstance(value, np.ndarray) else value


def problem_digest(problem: Any) -> str:
    """SHA-256 of a problem's type and data, to the last bit: 64 hex digits.

    Two problems of one type have the same digest if all their fields but the clients' names hold the same bits, and
    different ones otherwise. It is made of what a problem's file holds (`solvers.Problem.save`): the type and the
    fields that are no arrays, as JSON, and the arrays in the order of their names.
    """
    arrays, scalars = problem_fields(problem)
    text = hashlib.sha256(json.dumps([type(problem).__name__, scalars], sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        text.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return text.hexdigest()
