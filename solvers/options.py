"""Options of functions: described, checked against their annotations, and corrected where they are mistyped.

The options of a function are its keyword-only parameters, and their annotations say what is accepted:
``Literal["pairs", "paper"]``, ``int | None``, ``Annotated[int, AtLeast(1)]``.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import operator
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from solvers.hints import WORDS

Function = TypeVar("Function", bound=Callable[..., Any])

_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    dict: "a table",
    np.ndarray: "an array",
    type(None): "left out",
}


@dataclass(frozen=True)
class Limit:
    """Base of the limits of a number, as in ``Annotated[int, AtLeast(1)]``; its repr stands in messages."""

    limit: float

    words: ClassVar[str]
    keeps: ClassVar[Callable[[Any, Any], Any]]

    def accepts(self, value: Any) -> Any:
        """Return whether a number, or each entry of an array, keeps the limit."""
        return type(self).keeps(value, self.limit)

    def __repr__(self) -> str:
        return f"{self.words} {self.limit:.12g}"


class AtLeast(Limit):
    """Accept ``limit`` and more."""

    words, keeps = "at least", operator.ge


class Above(Limit):
    """Accept more than ``limit``."""

    words, keeps = "above", operator.gt


class AtMost(Limit):
    """Accept ``limit`` and less."""

    words, keeps = "at most", operator.le


class Below(Limit):
    """Accept less than ``limit``."""

    words, keeps = "below", operator.lt


@functools.lru_cache(maxsize=1024)
def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return a function's parameters by name."""
    return inspect.signature(function).parameters


def options(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's options and their defaults (``inspect.Parameter.empty`` where one is required)."""
    parameters = parameters_of(function).values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def check_options(
    owner: str,
    function: Callable[..., Any],
    given: Mapping[str, Any],
    error: type[Exception],
    others: Iterable[str] = (),
) -> None:
    """Raise ``error`` where an option is unknown, missing, or does not match its annotation.

    Parameters
    ----------
    owner : str
        Whose options they are, for the message: ``"method 'tabu'"``.
    function : callable
        Its keyword-only parameters are the options.
    given : mapping
        The options, by name.
    error : type
        The exception to raise.
    others : iterable of str
        Names that the caller accepts beside them: a typing error may have meant one of these.
    """
    known = options(function)
    for option, value in given.items():
        if option not in known:
            accepted = ", ".join(sorted(known)) or "none"
            hint = did_you_mean(option, [*known, *others])
            raise error(f"{owner} has no option {option!r}{hint} (accepted: {accepted})")
        kind = annotation_of(function, option)
        if kind is not None and not matches(value, kind):
            raise error(f"{owner}: option {option!r} must be {describe_type(kind)}; got {value!r}")
    for option, default in known.items():
        if default is inspect.Parameter.empty and option not in given:
            raise error(f"{owner} needs the option {option!r}")


def check_keywords(owner: str, function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise `TypeError` for an argument that a function does not have, with the one that was meant.

    Parameters
    ----------
    owner : str
        Whose arguments they are, for the message: ``"TrainingSettings"``.
    function : callable
        What is called.
    given : iterable of str
        Names of the arguments.
    """
    known = parameters_of(function)
    if any(each.kind is each.VAR_KEYWORD for each in known.values()):
        return
    for name in given:
        if name not in known:
            taken = [each for each in known if each != "self"]
            raise TypeError(
                f"{owner} has no argument {name!r}{did_you_mean(name, taken)} (it takes {', '.join(taken)})"
            )


def annotation_of(function: Callable[..., Any], option: str) -> Any:
    """Return the annotation of one parameter, resolved.

    ``None`` where there is none, or where it names something that is not there at run time.
    """
    annotation = parameters_of(function)[option].annotation
    if annotation is inspect.Parameter.empty:
        return None
    alone = type("_", (), {"__annotations__": {option: annotation}, "__module__": function.__module__})
    try:
        return get_type_hints(alone, include_extras=True)[option]
    except NameError:
        return None


def default_in_words(value: Any) -> str:
    """Return the repr of a default; of a dataclass, whose fields may be hundreds, its name alone."""
    return f"{type(value).__name__}()" if is_dataclass(value) else repr(value)


def describe_type(kind: Any) -> str:
    """Describe in words what an annotation accepts: ``"an integer, at least 1"``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return ", ".join([describe_type(inner[0]), *(repr(each) for each in inner[1:] if hasattr(each, "accepts"))])
    if origin is list:
        return f"a list of entries that are each {describe_type(inner[0])}"
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if _is_union(origin):
        entries = get_args(ArrayLike) if set(get_args(ArrayLike)) <= set(inner) else ()
        rest = [describe_type(each) for each in inner if each is not type(None) and each not in entries]
        return " or ".join([*rest, "an array"] if entries else rest)
    if kind in _WORDS:
        return _WORDS[kind]
    name = getattr(origin or kind, "__name__", None) or repr(kind)
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def matches(value: Any, kind: Any) -> bool:
    """Return True if a value may stand where an annotation stands.

    Numbers may be of NumPy's types, an integer is a number too, and truth values are no numbers; neither is NaN.
    Of containers other than lists only the outer type is looked at, and what is not a type accepts everything.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return matches(value, inner[0]) and all(each.accepts(value) for each in inner[1:] if hasattr(each, "accepts"))
    if _is_union(origin):
        return any(matches(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin is list:
        return isinstance(value, list) and all(matches(item, inner[0]) for item in value)
    if kind is None:
        return value is None
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _is_float(value)
    expected = origin or kind
    if not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
        return True
    return isinstance(value, expected)


def _is_float(value: Real) -> bool:
    """Return whether a number is one that a float can be: no NaN, and no integer beyond the largest."""
    try:
        return not math.isnan(float(value))
    except OverflowError:
        return False


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is types.UnionType


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name that was meant by another one, or nothing where none is near.

    It is the name that `solvers.hints.WORDS` has, the only one whose first word it is (``time`` of ``time_limit``), or
    the one of most similar letters.

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
    known = list(known)
    plain = name.lower().replace("_", "").replace("-", "")
    if meant := next((ours for ours in WORDS.get(plain, ()) if ours in known), None):
        return f"; did you mean {meant!r}?"
    begun = [each for each in known if each.lower().startswith((f"{name.lower()}_", f"{name.lower()}-"))]
    if len(begun) == 1:
        return f"; did you mean {begun[0]!r}?"
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
