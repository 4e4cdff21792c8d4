"""What the allocation problem asks of its arguments, each refusal a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["per_group", "validated", "whole_numbers"]


def validated(
    sizes: ArrayLike, deviations: ArrayLike, total: Any, lower: ArrayLike, upper: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.float64], int, NDArray[np.int64], NDArray[np.int64]]:
    """The arguments of `AllocationProblem` as read-only arrays and a number, ``lower`` 0 for absent groups.

    Raises
    ------
    InvalidProblem
        When one is not as described there.
    """
    counts = whole_numbers(sizes, "sizes")
    n = counts.shape[0]
    if n == 0:
        raise InvalidProblem("sizes must have at least one group; got none")
    if counts.min() < 1:
        group = int(counts.argmin())
        raise InvalidProblem(f"sizes must be at least 1; group {group} has {counts[group]} (leave empty groups out)")
    spread = frozen_array(deviations, "deviations")
    if spread.shape != (n,):
        raise InvalidProblem(f"deviations must have one entry per group, {n}; got {spread.shape[0]}")
    if spread.min() < 0:
        group = int(spread.argmin())
        raise InvalidProblem(f"deviations must be non-negative; group {group} has {spread[group]:g}")
    most = counts if upper is None else per_group(upper, n, "upper")
    if (most > counts).any():
        group = int(np.argmax(most > counts))
        raise InvalidProblem(f"upper must not exceed sizes; group {group} has {most[group]} of {counts[group]}")
    least = np.where(most > 0, per_group(lower, n, "lower"), 0)
    least.setflags(write=False)
    if (least > most).any():
        group = int(np.argmax(least > most))
        raise InvalidProblem(f"lower must not exceed upper; group {group} has {least[group]} and {most[group]}")
    return counts, spread, budget(total, int(most.sum())), least, most


def budget(total: Any, most: int) -> int:
    """``total`` as a number of clients between 1 and ``most``."""
    if isinstance(total, bool) or not hasattr(total, "__index__"):
        raise InvalidProblem(f"total must be an integer; got {total!r}")
    total = int(total)
    if total < 1:
        raise InvalidProblem(f"total must be at least 1; got {total}")
    if total > most:
        raise InvalidProblem(
            f"total must not exceed the clients there are, {most}; got {total} "
            "(AllocationProblem.fedss takes all of them instead)"
        )
    return total


def whole_numbers(value: ArrayLike, name: str) -> NDArray[np.int64]:
    """``value`` as a read-only vector of non-negative whole numbers, or a sentence."""
    array = frozen_array(value, name)
    if (array != np.round(array)).any():
        raise InvalidProblem(f"{name} must be whole numbers; got {array[array != np.round(array)][0]:g}")
    if array.size and (array.min() < 0 or array.max() > 2**52):
        raise InvalidProblem(f"{name} must lie between 0 and 2^52; they range from {array.min():g} to {array.max():g}")
    counts = array.astype(np.int64)
    counts.setflags(write=False)
    return counts


def per_group(value: ArrayLike, n: int, name: str) -> NDArray[np.int64]:
    """One number for all groups, or one for each."""
    array = np.asarray(value)
    counts = whole_numbers(np.full(n, array) if array.ndim == 0 else array, name)
    if counts.shape != (n,):
        raise InvalidProblem(f"{name} must be one number or one per group, {n}; got {counts.shape[0]}")
    return counts
