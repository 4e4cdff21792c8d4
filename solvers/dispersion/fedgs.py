"""FedGS's selection step in the terms of a dispersion problem, whatever the distances are stated by."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import frozen_array

__all__ = ["RoundTerms", "as_integer", "round_terms"]


class RoundTerms(NamedTuple):
    """What Eqs. 14-17 give of one round: ids of the available, their costs, m, and the weight of the distances."""

    ids: NDArray[np.int64]
    costs: NDArray[np.float64]
    size: int
    weight: float


def round_terms(
    clients: int, counts: ArrayLike, available: ArrayLike, size: int, alpha: float, scale: Literal["pairs", "paper"]
) -> RoundTerms:
    """State a round over the available clients; see `DispersionProblem.fedgs` for the parameters and errors.

    Raises
    ------
    InvalidProblem
        When shapes disagree, nobody is available, or a value is out of range.
    """
    v = frozen_array(counts, "counts")
    n = v.shape[0]
    if n != clients:
        raise InvalidProblem(f"counts must have one entry per client, {clients}; got {n}")
    mask = np.asarray(available)
    if mask.shape != (n,) or not (mask.dtype == bool or np.isin(mask, (0, 1)).all()):
        raise InvalidProblem(f"available must be a mask of {n} booleans; got shape {mask.shape}")
    ids = np.flatnonzero(mask)
    if ids.size == 0:
        raise InvalidProblem("no client is available, so there is nothing to select from")
    if (v < 0).any():
        raise InvalidProblem(f"counts must be non-negative; the smallest is {v.min():g}")
    limit = as_integer(size, "size")
    if limit < 1:
        raise InvalidProblem(f"size must be at least 1; got {limit}")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise InvalidProblem(f"alpha must be finite and non-negative; got {alpha}")
    if scale not in ("pairs", "paper"):
        raise InvalidProblem(f"scale must be 'pairs' or 'paper'; got {scale!r}")
    m = min(limit, ids.size)
    pairs = m * (m - 1) if scale == "pairs" else n * (n - 1)
    z = 2 * (v - v.mean() - limit / n) + 1
    return RoundTerms(ids, z[ids] / max(n - 1, 1), m, alpha / pairs if pairs else 0.0)


def as_integer(value: Any, name: str) -> int:
    """``value`` as an ``int``, or a sentence."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidProblem(f"{name} must be an integer; got {value!r}")
    return int(value)
