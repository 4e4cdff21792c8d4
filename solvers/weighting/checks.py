"""Checks of the arguments of weighting problems: each returns the value it accepts, or raises a sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["distribution", "finite", "non_negative", "per_client", "probabilities"]


def per_client(value: ArrayLike, name: str, n: int) -> NDArray[np.float64]:
    """A finite vector with one entry per client."""
    array = frozen_array(value, name)
    if array.shape != (n,):
        raise InvalidProblem(f"{name} must have one entry per client, {n}; got {array.shape[0]}")
    return array


def probabilities(value: ArrayLike, name: str, n: int) -> NDArray[np.float64]:
    """A vector of probabilities in (0, 1]."""
    array = per_client(value, name, n)
    if (wrong := (array <= 0) | (array > 1)).any():
        k = int(np.flatnonzero(wrong)[0])
        raise InvalidProblem(f"{name} must lie in (0, 1]; client {k} has {array[k]:g}")
    return array


def distribution(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """A vector of positive numbers that sum to 1, normalised where their sum is off by more than rounding."""
    array = frozen_array(value, name)
    if array.shape[0] == 0:
        raise InvalidProblem(f"{name} is empty; there must be at least one client")
    if (wrong := array <= 0).any():
        k = int(np.flatnonzero(wrong)[0])
        raise InvalidProblem(f"{name} must be positive; client {k} has {array[k]:g} (leave clients of no weight out)")
    total = float(array.sum())
    if not abs(total - 1.0) <= 1e-9:
        raise InvalidProblem(f"{name} must sum to 1; it sums to {total:.12g}")
    if abs(total - 1.0) > np.finfo(np.float64).eps * array.shape[0]:
        array = array / total
        array.setflags(write=False)
    return array


def non_negative(value: Any, name: str) -> float:
    """A finite number ≥ 0."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidProblem(f"{name} must be a number; got {value!r}") from error
    if not (math.isfinite(number) and number >= 0):
        raise InvalidProblem(f"{name} must be finite and non-negative; got {number:g}")
    return number


def finite(value: Any, name: str) -> float:
    """A finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidProblem(f"{name} must be a number; got {value!r}") from error
    if not math.isfinite(number):
        raise InvalidProblem(f"{name} must be finite; got {number:g}")
    return number
