"""Checks of arguments: they return a value that is accepted, or raise a sentence."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import Above, AtLeast, Limit, did_you_mean

#: Rounds, steps or clients at most: what is larger is a mistake, and no array or loop can have it.
LARGEST_COUNT = 10**15


def frozen_array(value: ArrayLike, name: str, ndim: int = 1, dtype: type | np.dtype[Any] = np.float64) -> NDArray[Any]:
    """Return ``value`` as a read-only, finite array of ``ndim`` dimensions, or raise a sentence.

    A writable array, or a view, is copied, so that a problem cannot change after it was validated; a read-only one that
    owns its data is shared.

    Parameters
    ----------
    value : array-like
        The data given by the caller.
    name : str
        The parameter's name, for the error message.
    ndim : int
        Dimensions wanted.
    dtype : dtype
        Element type wanted.

    Returns
    -------
    ndarray
        Read-only array.

    Raises
    ------
    InvalidProblem
        When it is no array of real numbers of that many dimensions, has NaN or infinite entries, or fractions where
        the type wanted is one of whole numbers.
    """
    listed: Any = value
    if isinstance(value, list | tuple) and np.dtype(dtype).kind == "f":
        with suppress(TypeError, ValueError, OverflowError):  # said below
            listed = np.asarray(value)
    is_text = listed is not value and listed.dtype.kind in "SU"
    _check_numeric(value if is_text else listed, name)
    try:
        array = np.asarray(value if is_text else listed, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        reason = "its rows differ in length" if "inhomogeneous" in str(error) else error
        raise InvalidProblem(f"{name} must be numbers: {reason}") from error
    if is_text:  # of numbers
        _check_numeric(listed, name)
    if array.ndim != ndim:
        raise InvalidProblem(f"{name} must have {ndim} dimension(s); got shape {array.shape}")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidProblem(f"{name} must be finite; entry {where if ndim > 1 else where[0]} is {array[where]}")
    elif not np.array_equal(array, given := np.asarray(value)):
        raise InvalidProblem(f"{name} must be whole numbers; got {given.tolist()!r:.80}")
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.setflags(write=False)
    return array


def _check_numeric(value: Any, name: str) -> None:
    """Refuse what NumPy would turn into numbers in silence, or only with a riddle for an error."""
    if np.ma.is_masked(value):
        where = tuple(np.argwhere(np.ma.getmaskarray(value))[0].tolist())
        raise InvalidProblem(
            f"{name} must have no missing values; entry {where if len(where) > 1 else where[0]} is masked"
        )
    if hasattr(value, "toarray"):
        raise InvalidProblem(
            f"{name} must be a dense array; got a sparse {type(value).__name__}: give {name}.toarray()"
        )
    if hasattr(value, "adjacency"):
        raise InvalidProblem(f"{name} must be numbers; got a graph: graphs.distances(graph) has its shortest paths")
    if isinstance(value, str | os.PathLike):
        raise InvalidProblem(f"{name} must be numbers; got the text {str(value)!r:.80} (numpy.load reads a file)")
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if kind in "SUcmM":
        found = {"c": "complex ones", "m": "durations", "M": "dates"}.get(kind, "text")
        raise InvalidProblem(f"{name} must be real numbers; got {found}")


def vector(
    value: ArrayLike, name: str, *limits: Limit, n: int | None = None, of: str = "client", hint: str = ""
) -> NDArray[np.float64]:
    """Return a finite, read-only vector with an entry for each client, all within the limits.

    Parameters
    ----------
    value : array-like
        The data given by the caller.
    name : str
        The parameter's name, for the error message.
    *limits : Limit
        Limits of each entry.
    n : int, optional
        Entries wanted; any number from 1 on if left out.
    of : str
        What an entry belongs to: a client, or a group.
    hint : str
        Advice at the end of the sentence about an entry that is out of range.
    """
    array = frozen_array(value, name)
    if n is not None and array.shape != (n,):
        raise InvalidProblem(f"{name} must have one entry per {of}, {n}; got {array.shape[0]}")
    if array.shape[0] == 0:
        raise InvalidProblem(f"{name} is empty; there must be at least one {of}")
    for limit in limits:
        if not (kept := limit.accepts(array)).all():
            k = int(np.argmin(kept))
            advice = hint and f" ({hint})"
            raise InvalidProblem(f"{name} must be {_words(limits)}; {of} {k} has {array[k]:g}{advice}")
    return array


def distribution(value: ArrayLike, name: str, *limits: Limit, hint: str = "") -> NDArray[np.float64]:
    """Return a `vector` that sums to 1 to within 1e-9, normalised where the sum is off by more than rounding."""
    array = vector(value, name, *limits, hint=hint)
    total = float(array.sum())
    if not abs(total - 1.0) <= 1e-9:
        raise InvalidProblem(f"{name} must sum to 1; it sums to {total:.12g}")
    if abs(total - 1.0) > np.finfo(np.float64).eps * array.shape[0]:
        array = array / total
        array.setflags(write=False)
    return array


def number(value: Any, name: str, *limits: Limit, error: type[Exception] = InvalidProblem, hint: str = "") -> float:
    """Return a finite number within the limits; truth values, texts and complex numbers are none."""
    try:
        found = math.nan if isinstance(value, bool | np.bool_ | str | bytes | np.complexfloating) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found) or not all(limit.accepts(found) for limit in limits):
        advice = hint and f" ({hint})"
        raise error(f"{name} must be {' and '.join(filter(None, ['finite', _words(limits)]))}; got {value!r}{advice}")
    return found


def integer(value: Any, name: str, *limits: Limit, error: type[Exception] = InvalidProblem) -> int:
    """Return an integer of any library's type within the limits; truth values and whole floats are none."""
    try:
        found = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not all(limit.accepts(found) for limit in limits):
        wanted = " and ".join(["an integer", *map(repr, limits)]).replace(" and ", " of ", 1)
        raise error(f"{name} must be {wanted}; got {value!r}")
    return found


def count(value: Any, name: str, least: int = 1, error: type[Exception] = InvalidProblem) -> int:
    """Return an integer of at least ``least`` and at most `LARGEST_COUNT`."""
    return countable(integer(value, name, AtLeast(least), error=error), name, error)


def countable(value: int, name: str, error: type[Exception] = InvalidProblem) -> int:
    """Return a number of at most `LARGEST_COUNT`."""
    if value > LARGEST_COUNT:
        raise error(f"{name} must be at most 10^15; got a number of {len(str(int(value)))} digits")
    return value


def one_of(value: Any, name: str, accepted: Iterable[str], error: type[Exception] = InvalidProblem) -> Any:
    """Return one of the accepted texts."""
    known = tuple(accepted)
    if not isinstance(value, str) or value not in known:
        raise error(f"{name} must be {' or '.join(map(repr, known))}; got {value!r}{did_you_mean(value, known)}")
    return value


def seconds_or_none(value: Any, name: str = "time_limit", error: type[Exception] = InvalidOption) -> float | None:
    """Return a time limit: a positive, finite number of seconds, or None for no limit."""
    try:
        return None if value is None else number(value, name, Above(0))
    except InvalidProblem:
        raise error(f"{name} must be a positive number of seconds or None; got {value!r}") from None


def _words(limits: Iterable[Limit]) -> str:
    common = {"above 0": "positive", "at least 0": "non-negative"}
    return " and ".join(common.get(repr(limit), repr(limit)) for limit in limits)


def takes_duals(residuals: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """Let a ``kkt_residuals(x, **duals)`` take the mapping ``solution.duals``, too, and refuse others in a sentence."""
    wanted = signature(residuals)

    @wraps(residuals)
    def call(problem: Any, x: ArrayLike, *duals: Any, **named: Any) -> dict[str, float]:
        first = duals[0] if len(duals) == 1 else None
        if isinstance(first, Mapping):
            duals, named = (), {**first, **named}
        try:
            given = list(wanted.bind(problem, x, *duals, **named).arguments.items())[2:]
            arrays = {name: np.asarray(each, dtype=np.float64) for name, each in given if each is not None}
            return residuals(problem, x, **{name: each if each.ndim else each.item() for name, each in arrays.items()})
        except InvalidProblem:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            names = ", ".join(list(wanted.parameters)[2:])
            raise InvalidOption(f"kkt_residuals(solution.x, solution.duals) takes the duals {names}: {error}") from None

    return call
