"""Options of functions: checked against annotations, and corrected where they are mistyped."""

from __future__ import annotations

import difflib
import inspect
import math
import types
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["fits", "in_words", "wanted"]

_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    dict: "a table",
    type(None): "left out",
}


def wanted(function: Callable[..., Any], option: str) -> Any:
    """The annotation of one parameter, resolved alone: others may name what only a type checker imports.

    ``None`` where there is none, or where it names something that is not there at run time.
    """
    annotation = inspect.signature(function).parameters[option].annotation
    if annotation is inspect.Parameter.empty:
        return None
    alone = type("_", (), {"__annotations__": {option: annotation}, "__module__": function.__module__})
    try:
        return get_type_hints(alone)[option]
    except NameError:
        return None


def in_words(kind: Any) -> str:
    """An annotation as a person would say it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return f"a list of entries that are each {in_words(inner[0])}"
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if _is_union(origin):
        return " or ".join(in_words(each) for each in inner if each is not type(None))
    if kind in _WORDS:
        return _WORDS[kind]
    name = getattr(origin or kind, "__name__", None) or repr(kind)
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def fits(value: Any, kind: Any) -> bool:
    """Whether a value may stand where an annotation stands.

    Numbers are of any library's types, an integer is a number too, and truth values are no numbers; neither is NaN.
    Of containers other than lists only the outer type is looked at, and what is not a type fits everything.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fits(value, inner[0])
    if _is_union(origin):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin is list:
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if kind is None:
        return value is None
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    expected = origin or kind
    if not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
        return True
    return isinstance(value, expected)


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is types.UnionType


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``"; did you mean 'x'?"`` for the known name nearest to ``name``, or nothing where none is near.

    Parameters
    ----------
    name : object
        What was given; only text is near to anything.
    known : iterable of str
        The names there are.
    cutoff : float
        Likeness in [0, 1] that counts as near, as in `difflib.get_close_matches`.

    Returns
    -------
    str
        To be put behind the sentence that refuses the name.

    Examples
    --------
    >>> did_you_mean("gredy", ["greedy", "tabu"])
    "; did you mean 'greedy'?"
    """
    if not isinstance(name, str):
        return ""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
