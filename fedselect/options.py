"""Named builders and their options: one registry shape for selectors, availability, dropout, data and models."""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedselect.errors import ConfigError
from solvers.options import did_you_mean, fits, in_words, wanted

__all__ = ["Registry", "fits", "in_words", "names_file", "parsed", "placed", "seen_from", "with_files"]

Builder = TypeVar("Builder", bound=Callable[..., Any])


class Registry(Generic[Builder]):
    """Functions or classes by name, called with options that are checked against their signatures.

    The options of a builder are its keyword-only parameters.

    Parameters
    ----------
    kind : str
        What the entries are, for messages: "selector", say.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._builders: dict[str, Builder] = {}
        self._aliases: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def register(self, name: str, *aliases: str, folder: str = "") -> Callable[[Builder], Builder]:
        """Return a decorator that registers a builder under ``name`` (and under other names people know).

        ``folder`` is the one it reads below the folder that its option names, where it does not read all of that.
        """

        def decorate(builder: Builder) -> Builder:
            self._builders[name] = builder
            self._folders[name] = folder
            self._aliases.update(dict.fromkeys(aliases, name))
            return builder

        return decorate

    def discard(self, name: str) -> None:
        """Forget a builder and its other names, where there is one."""
        self._builders.pop(name, None)
        self._aliases = {alias: known for alias, known in self._aliases.items() if known != name}

    def __getitem__(self, name: str) -> Builder:
        """The builder of this name or alias; raises `ConfigError` when there is none."""
        return self._find(name)

    @property
    def names(self) -> list[str]:
        """Registered names, sorted, without aliases."""
        return sorted(self._builders)

    def options(self, name: str) -> dict[str, Any]:
        """Options of one builder and their defaults (``inspect.Parameter.empty`` where one is required)."""
        parameters = inspect.signature(self._find(name)).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def files(self, name: str, options: Mapping[str, Any]) -> list[Path]:
        """Files and folders that a builder reads with these options (see `names_file`)."""
        known = {**self.options(name), **options}
        below = self._folders.get(self._aliases.get(name, name), "")
        return [Path(value) / below for key, value in known.items() if names_file(key) and isinstance(value, str)]

    def summary(self, name: str) -> str:
        """First line of the builder's docstring."""
        return (inspect.getdoc(self._find(name)) or "").partition("\n")[0]

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise `ConfigError` when the name or an option is unknown, missing or of the wrong type."""
        builder = self._find(name)
        known = self.options(name)
        for option, value in options.items():
            if option not in known:
                hint = did_you_mean(option, known)
                accepted = ", ".join(sorted(known)) or "none"
                raise ConfigError(f"{self.kind} {name!r} has no option {option!r}{hint} (accepted: {accepted})")
            kind = wanted(builder, option)
            if kind is not None and not fits(value, kind):
                raise ConfigError(f"{self.kind} {name!r}: option {option!r} must be {in_words(kind)}; got {value!r}")
        for option, default in known.items():
            if default is inspect.Parameter.empty and option not in options:
                raise ConfigError(f"{self.kind} {name!r} needs the option {option!r}")

    def build(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Check the options and call the builder with ``arguments`` and them."""
        self.check(name, options)
        return self._find(name)(*arguments, **options)

    def _find(self, name: str) -> Builder:
        if not isinstance(name, str):
            raise ConfigError(f"a {self.kind} is named by a text ({', '.join(self.names)}); got {name!r:.80}")
        name = self._aliases.get(name, name)
        if name not in self._builders:
            hint = did_you_mean(name, self._builders)
            raise ConfigError(f"there is no {self.kind} {name!r}{hint} (known: {', '.join(self.names)})")
        return self._builders[name]


def names_file(option: str) -> bool:
    """Whether an option names a file or folder: one called ``path`` or ``root``, or ending in ``_file`` or ``_path``.

    What such a file holds is part of what a run is made of, and a relative path is looked up beside the configuration
    file that names it.
    """
    return option in ("path", "root") or option.endswith(("_file", "_path"))


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
    except tomllib.TOMLDecodeError:
        return text
