"""Problems whose decision selects clients: the 0/1 vector, its ids, and the enumeration of all selections."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import integer
from solvers.errors import InvalidProblem
from solvers.options import AtLeast
from solvers.problem import Problem

__all__ = ["SubsetProblem", "check_enumerable", "checked_size", "from_clients", "selection_blocks"]


class SubsetProblem(Problem):
    """Base class of the problems that select ``size`` of ``n`` clients, numbered from 0.

    A subclass that selects as many as it likes has a `violation` of its own.
    """

    size: int

    def decision(self, x: ArrayLike) -> NDArray[np.int64]:
        """``x`` as a vector of n integers; raises `ValueError` for another shape or fractional entries."""
        array = np.asarray(x)
        if array.shape != (self.n,):
            raise ValueError(f"x must have one entry per client, {self.n}; got shape {array.shape}")
        integers = array.astype(np.int64)
        if not np.array_equal(integers, array):
            raise ValueError("x must be a 0/1 vector; it has fractional entries (round a solver's answer first)")
        return integers

    def selected(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted ids of the clients that ``x`` selects."""
        return np.flatnonzero(self.decision(x))

    def violation(self, x: ArrayLike) -> float:
        """Largest of: excess over 0/1, and distance of ``1ᵀx`` from ``size``."""
        decided = self.decision(x)
        return float(max(abs(int(decided.sum()) - self.size), decided.max() - 1, -decided.min()))


def from_clients(clients: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the 0/1 vector of length n that selects these clients."""
    x = np.zeros(n, dtype=np.int64)
    x[np.asarray(clients, dtype=np.intp)] = 1
    return x


def checked_size(size: Any, n: int) -> int:
    """Return ``size`` as an integer from 1 to n, or raise `InvalidProblem`."""
    found = integer(size, "size", AtLeast(1))
    if found > n:
        raise InvalidProblem(f"size must not exceed the number of clients, {n}; got {found}")
    return found


#: Selections that brute force is willing to look at.
LARGEST_ENUMERATION = 20_000_000


def check_enumerable(count: int) -> None:
    """Raise `InvalidProblem` for more selections than brute force looks at."""
    if count > LARGEST_ENUMERATION:
        raise InvalidProblem(
            f"brute-force would look at {count:.3g} selections; it accepts at most {LARGEST_ENUMERATION} (use 'auto')"
        )


def selection_blocks(n: int, size: int, at_once: int) -> Iterator[NDArray[np.int64]]:
    """Enumerate the selections of ``size`` of n clients, ``at_once`` rows of ids at a time.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million.
    """
    check_enumerable(math.comb(n, size))
    every = itertools.combinations(range(n), size)
    while block := list(itertools.islice(every, at_once)):
        yield np.array(block, dtype=np.int64)
