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
from solvers.reading import parse_json, read_arrays

__all__ = ["Certificate", "problem_digest"]

FORMAT = "solvers-certificate/1"

#: Most bytes of the arrays of a file: more is refused before memory is taken.
_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""What proves that no decision of a problem is better than a bound.

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
        The proof itself. For ``"dispersion"``, with n clients:

        * ``tree``: the nodes in preorder. A number v from 0 up branches on client v: the nodes with v chosen follow,
          then those without. -1 is a tangent leaf, followed by its point; -2 a dominated one, followed by (i, j): j
          is chosen, i is not, and exchanging them is no loss; -3 a symmetric one, followed by the permutation's
          number and the depth of the branch to whose chosen side it carries the leaf; -4 a decided one.
        * ``form_ones``, ``form_ids``, ``form_diagonal``, ``form_nonnegative``, ``form_dominated``: multipliers, one
          form after the other; form k has the entries from ``form_*_start[k]`` to ``form_*_start[k + 1]``. ``ones``
          are chosen and ``ids`` open where the form holds; ``diagonal`` has the multiplier of :math:`s_i - s_i^2` for
          each of ``ids``; the other two are triples (i, j, h) by place in ``ids`` with *half* the multiplier of
          :math:`s_i s_j` (h not negative) and of :math:`s_j - s_i s_j`.
        * ``point``: points of the slice by the places of their form's ``ids``, in units of 2^-20, kept likewise
          (``point_start``); ``point_form``: the form of each.
        * ``order``: the place of each client in the order that decides exchanges that gain nothing.
        * ``permutations``: (k, n), row by row; g carries client i to g[i].

        For ``"dispersion-search"`` ``order`` and the forms are the same, and beside them stand

        * ``form_room``: how much each form's ``diagonal`` is raised, which must be enough to make it concave.
        * ``form_better``: pairs (i, j) by place in ``ids``: i is chosen whenever j is. They imply others.
        * ``goal``: what every closed part is worth at most, in the units of the whole numbers.
        * ``origin``, ``client``, ``form``: of each node, where it lies (-1: the root; 2 k: below node k, without whom
          it branches on; 2 k + 1: with), on whom it branches (-1: on nobody, its tangent closes it), its form.
        * ``point``: where the nodes' tangents are taken, in units of 1 / ``grain``: form by form, and there one client
          of ``ids`` after the other, the nodes of the form in their order.

        The other kinds are described where they are read: ``solvers.certificates.points``, ``exclusion``,
        ``allocation``, ``weighting`` and ``decimals``.
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
                raise ValueError(f"it has format {header['format']!r}")
            if type(header["grid"]) is not int:
                raise ValueError(f"its grid is {header['grid']!r}")
            if other := next((array.dtype for array in arrays.values() if array.dtype.kind not in "iu"), None):
                raise ValueError(f"its arrays must hold whole numbers, not {other}")
            kind, problem = str(header["kind"]), str(header["problem"])
            found = cls(kind, problem, float.fromhex(header["bound"]), header["grid"], arrays)
        except (OSError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise CertificateError(f"{path} is not a certificate file ({FORMAT}): {error}") from error
        if header.get("digest") != found.digest:
            raise CertificateError(f"{path} was changed or damaged: its contents do not have the digest it states")
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of everything the certificate says."""
        text = hashlib.sha256(f"{self.kind} {self.problem} {float(self.bound).hex()} {self.grid}".encode())
        for name in sorted(self.arrays):
            _add(text, name, self.arrays[name])
        return text.hexdigest()

    def __repr__(self) -> str:
        numbers = sum(array.size for array in self.arrays.values())
        return f"Certificate(kind={self.kind!r}, bound={self.bound!r}, {numbers} numbers)"


def problem_digest(problem: Any) -> str:
    """SHA-256 of a problem's type and fields: arrays by their bits, other fields by their ``repr``."""
    text = hashlib.sha256(type(problem).__name__.encode())
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if isinstance(value, np.ndarray):
            _add(text, field.name, value)
        else:
            text.update(f" {field.name}={value!r}".encode())
    return text.hexdigest()


def _add(text: Any, name: str, array: NDArray[Any]) -> None:
    # By value and not by width: what was narrowed for the file is the same certificate.
    wide = array.astype("<i8") if array.dtype.kind in "iub" else array.astype("<f8")
    text.update(f" {name} {array.shape} ".encode() + np.ascontiguousarray(wide).tobytes())
