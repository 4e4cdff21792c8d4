"""Shared by the commands: options, output formats, lists of seeds, tables, files to write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedselect.errors import ConfigError
from fedselect.options import check_choice, parsed
from solvers.options import annotation_of, matches
from solvers.options import options as known_options
from solvers.reading import without_controls

if TYPE_CHECKING:
    import pandas as pd


def _check_format(format: str) -> str:
    """Return ``text`` or ``json``; raise `ConfigError` for any other format."""
    return check_choice("--format", format, "text", "json")


Format = Annotated[str, typer.Option("--format", callback=_check_format, help="'text' or 'json'.")]

Overrides = Annotated[
    list[str],
    typer.Option(
        "--set", "-c", help="Replace one value: section.key=value; section.key= leaves it out. May be repeated."
    ),
]

Load = Annotated[
    list[str],
    typer.Option("--load", help="A script (my_parts.py) or module that registers parts of your own. May be repeated."),
]


Gap = Annotated[
    float | None,
    typer.Option(help="Relative gap at which a method with a bound ends: 0.01 for one per cent. A proof if left out."),
]

Threads = Annotated[int | None, typer.Option(help="Threads, of a method that has an option for them.")]


class Ended(SystemExit):
    """Exit code of a command that has printed what there is to say."""


def check_writable(path: Path) -> None:
    """Raise `ConfigError` where a file could not be written once the work is done."""
    if path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write {path}: the folder {path.parent} is not writable")


def check_no_link(folder: Path) -> None:
    """Raise `ConfigError` where a link stands in place of a folder that is written to by default."""
    if folder.is_symlink():
        raise ConfigError(f"{folder} is a link, which is not followed: say where to write, or remove it")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system against writing to ``path`` (a full disk, say) into a `ConfigError`."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def seed_list(text: str, what: str = "seed") -> list[int]:
    """Return the seeds (or other numbers, named by ``what``) of a text like ``0-4`` or ``0,3,7``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise ConfigError(f"{what}s read like '0-4' or '0,3,7'; got {text!r}") from None
    if not seeds:
        raise ConfigError(f"no {what} in {text!r}; {what}s read like '0-4' or '0,3,7'")
    return seeds


def key_values(texts: Sequence[str], functions: Iterable[Callable[..., Any]] = ()) -> dict[str, Any]:
    """Return options typed as ``key=value``; values are read as TOML, or as text.

    An option that one of ``functions`` annotates as a text stays one: ``command=false`` names a program.
    """
    options: dict[str, Any] = {}
    for each in texts:
        key, equals, value = each.partition("=")
        if not (equals and key.strip()):
            raise ConfigError(f"an option reads key=value; got {each!r}")
        options[key.strip()] = parsed(value)
        for function in functions:
            kind = annotation_of(function, key.strip()) if key.strip() in known_options(function) else None
            if kind is not None and not matches(options[key.strip()], kind) and matches(value, kind):
                options[key.strip()] = value
    return options


def warn(sentence: str) -> None:
    """Print a sentence on stderr, apart from what a command finds."""
    print(f"fedselect: {without_controls(sentence)}", file=sys.stderr)


def say(text: str) -> None:
    """Print a line that may hold names and paths of files from elsewhere."""
    print(without_controls(text))


def plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON can hold them: null for missing values."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


def text(value: Any) -> str:
    """Format a value as a cell of a table: six digits, and a dash for an unknown one."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
