"""Named builders of selectors, availability, dropout, data and models; their options and checks of them."""

from __future__ import annotations

import inspect
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from operator import index
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from solvers import registry
from solvers.checks import countable

Builder = TypeVar("Builder", bound=Callable[..., Any])


class Registry(registry.Registry[Builder]):
    """Functions or classes by name that build something of one kind, called with options that are checked.

    Parameters
    ----------
    kind : str
        What the entries are, for messages: "selector", say.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind, ConfigError)
        self._folders: dict[str, str] = {}

    def register(self, name: str, *aliases: str, folder: str = "") -> Callable[[Builder], Builder]:
        """Return a decorator that registers a builder under ``name`` (and under other names people know).

        ``folder`` is the one it reads below the folder that its option names, where it does not read all of that.
        """

        def decorate(builder: Builder) -> Builder:
            self.put(name, builder, *aliases)
            self._folders[name] = folder
            return builder

        return decorate

    def files(self, name: str, options: Mapping[str, Any]) -> list[Path]:
        """Files and folders that a builder reads with these options (see `names_file`)."""
        known = {**self.options(name), **options}
        below = self._folders.get(self.name_of(name), "")
        return [Path(value) / below for key, value in known.items() if names_file(key) and isinstance(value, str)]

    def build(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Check the options and call the builder with ``arguments`` and them."""
        self.check(name, options)
        builder = self[name]
        parameters = inspect.signature(builder).parameters.values()
        positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        if len(positional) < len(arguments) and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
            raise ConfigError(
                f"the builder of {self.kind} {name!r} takes {len(positional)} argument(s) before the *, and is "
                f"called with {len(arguments)}, as the other builders of its kind are"
            )
        wanted = [each for each in positional if each.default is each.empty]
        if len(wanted) > len(arguments):
            named = ", ".join(each.name for each in wanted[: len(arguments)])
            raise ConfigError(
                f"the builder of {self.kind} {name!r} has a further argument {wanted[len(arguments)].name!r}: "
                f"it is called as ({named}, *, options), and an option stands behind the *"
            )
        return builder(*arguments, **options)


def array_of(value: Any) -> NDArray[Any]:
    """Return a value as an array, to be checked; that of None, which no check takes, where lists differ in length."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def check_choice(name: str, value: str, *accepted: str) -> str:
    """Return ``value`` if it is one of ``accepted``; raise `ConfigError` otherwise."""
    if not isinstance(value, str) or value not in accepted:
        words = ", ".join(map(repr, accepted[:-1])) + f" or {accepted[-1]!r}"
        raise ConfigError(f"{name} must be {words}; got {value!r}")
    return value


def check_count(name: str, value: int, least: int = 1) -> int:
    """Return ``value`` if it is an integer from ``least`` to 10^15; raise `ConfigError` otherwise."""
    if not is_whole(value) or value < least:
        words = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ConfigError(f"{name} must be {words}; got {value!r}")
    return countable(int(value), name, ConfigError)


def is_whole(value: Any) -> bool:
    """Whether a value is one integer, and no truth value."""
    try:
        index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def check_number(
    name: str,
    value: float,
    low: float = 0.0,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as a float if it is finite and in [low, high], less open ends; raise `ConfigError` if not."""
    try:
        number = math.nan if isinstance(value, str | bytes | complex) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    inside = (low < number if open_low else low <= number) and (number < high if open_high else number <= high)
    if inside and math.isfinite(number):
        return number
    if high < math.inf:
        accepted = f"lie in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    elif low == 0 and open_low:
        accepted = "be a positive number"
    else:
        accepted = f"be a number {'above' if open_low else 'of at least'} {low:g}"
    shown = f"{value if isinstance(value, int | float) else repr(value)}"
    raise ConfigError(f"{name} must {accepted}; got {shown if len(shown) <= 80 else shown[:77] + '...'}")


def names_file(option: str) -> bool:
    """Whether an option names a file or folder: ``path``, ``root``, ``initial_model``, or ``..._file``, ``..._path``.

    What such a file holds is part of what a run is made of, and a relative path is looked up beside the configuration
    file that names it.
    """
    return option in ("path", "root", "initial_model") or option.endswith(("_file", "_path"))


def placed(path: str) -> str:
    """A path as it is seen from the working directory where it is below it, else an absolute one."""
    there, here = Path(os.path.abspath(path)), Path.cwd()
    return (there.relative_to(here) if there.is_relative_to(here) else there).as_posix()


def seen_from(folder: str | Path, path: str) -> str:
    """A path that starts at the working directory as one that starts at a folder; an absolute one as it is."""
    if Path(path).is_absolute():
        return path
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return Path(path).resolve().as_posix()


def with_files(options: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Options with ``change`` applied to those that name a file or folder (see `names_file`)."""
    return {
        key: change(value) if names_file(key) and isinstance(value, str) else value for key, value in options.items()
    }


def parsed(text: str) -> Any:
    """A value that a person typed, read as TOML (``0.5``, ``true``, ``[1, 2]``), or as text where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text
