"""Errors of the graphs package, and the checks of input that raise them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray


class GraphError(ValueError):
    """Input the graphs package cannot work with; the errors below are of this class."""


class FeatureError(GraphError):
    """Client features from which no similarity can be computed."""


class SimilarityError(GraphError):
    """A similarity matrix, or an option about one, from which no graph can be built."""


class DistanceError(GraphError):
    """A graph or weight matrix on which shortest paths are not defined."""


class ProtocolError(GraphError):
    """A secure computation that cannot go on: a setting, a vector or a message is wrong, or out of order."""


class GraphWarning(UserWarning):
    """The answer is well defined but probably not what was hoped for; the message says why."""


def choice(name: str, value: object, accepted: Iterable[str], error: type[GraphError] = GraphError) -> None:
    """Raise `error` unless `value` is one of the `accepted` strings."""
    known = tuple(accepted)
    if not isinstance(value, str) or value not in known:
        named = [repr(each) for each in known]
        words = " or ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        raise error(f"{name} must be {words}; got {value!r}.")


def number(name: str, value: object, error: type[GraphError]) -> float:
    """Return a real number of any library's as a float, or raise `error`; texts and truth values are none."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_ | np.complexfloating):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise error(f"{name} must be a finite number; got {value!r:.80}.") from None


def real_array(values: ArrayLike) -> NDArray[np.float64]:
    """Return values as float64; raises `TypeError` for complex ones, of which NumPy takes the real part."""
    if np.iscomplexobj(values):
        raise TypeError("complex numbers")
    return np.asarray(values, dtype=np.float64)


def mirror(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Copy the upper triangle of a matrix to the lower one, in place, and return it."""
    for i in range(len(matrix)):
        matrix[i + 1 :, i] = matrix[i, i + 1 :]
    return matrix


def square_symmetric(
    name: str, values: ArrayLike, error: type[GraphError] = SimilarityError, *, infinite: bool = False
) -> NDArray[np.float64]:
    """Return `values` as a float64 matrix, or say why it is no symmetric matrix of numbers.

    The diagonal is not read and may hold any number, NaN among them. ``infinite=True`` lets +inf through.
    Asymmetry up to 1e-9 of the largest finite entry is rounding: it passes, and the lower triangle of the
    result is the mirrored upper one. A matrix that is exactly symmetric is not copied.
    """
    try:
        matrix = real_array(values)
    except (TypeError, ValueError, OverflowError) as reason:
        hint = f"; its attribute matrix is one: {name}.matrix" if hasattr(values, "matrix") else ""
        raise error(f"{name} cannot be read as a matrix of numbers: {reason}{hint}.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise error(f"{name} must have one row and one column per client, N×N; got shape {matrix.shape}.")
    size = matrix.shape[0]
    if size == 0:
        raise error(f"{name} is empty; at least one client is needed.")
    # Row by row: at N = 5 000 a handful of temporary N×N arrays would cost more memory than the answer.
    largest = 0.0
    for i in range(size):
        row = matrix[i, i + 1 :]
        finite = np.isfinite(row)
        if not finite.all():
            bad = ~finite if not infinite else np.isnan(row) | (row == -np.inf)
            if bad.any():
                j = i + 1 + int(np.flatnonzero(bad)[0])
                allowed = "finite numbers or +inf" if infinite else "finite numbers"
                raise error(f"{name} must hold {allowed}; got {matrix[i, j]} at [{i}, {j}].")
            row = row[finite]
        if row.size:
            largest = max(largest, float(np.abs(row).max()))
    mirrored = matrix
    for i in range(size):
        row, column = matrix[i, i + 1 :], matrix[i + 1 :, i]
        same = row == column
        if same.all():
            continue
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(row - column))
        if not (apart <= 1e-9 * largest).all():
            j = int(np.argmax(~(apart <= 1e-9 * largest)))
            raise error(
                f"{name} is not symmetric: entry [{i}, {i + 1 + j}] is {row[j]} and "
                f"[{i + 1 + j}, {i}] is {column[j]}; similarity between clients goes both ways."
            )
        if mirrored is matrix:
            mirrored = matrix.copy()
        mirrored[i + 1 :, i] = row
    return mirrored
