"""Format of a library instance: a problem and its best decision in one small file, and a digest of its exact bits.

Distances on a 3DG are few numbers many times over, since clients with the same labels are at the same distance. So a
symmetric matrix is kept as its distinct entries and, for the upper triangle, which of them stands where; everything
is then compressed by LZMA. A thousand clients take a quarter of a megabyte instead of eight, and come back to the
same bits.
"""

from __future__ import annotations

import io
import json
import lzma
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.problem import Problem, assembled, digest, parts
from solvers.reading import expand, parse_json, read_arrays

__all__ = ["digest", "pack", "unpack"]

_VALUES, _PLACES, _BEST = ".values", ".places", "best decision"


def pack(problem: Problem, best: NDArray[Any] | None = None) -> bytes:
    """The content of an instance's file: an LZMA-compressed ``.npz`` archive that `unpack` reads.

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
    """The arrays that stand for one: itself, or the distinct entries of a symmetric matrix and their places."""
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
