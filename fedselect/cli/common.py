"""What every command shares: output formats, lists of seeds, tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedselect.errors import ConfigError

__all__ = ["Format", "check_format", "print_table", "seed_list", "text"]

Format = Annotated[str, typer.Option("--format", help="'text' or 'json'.")]


def check_format(format: str) -> None:
    """Raise `ConfigError` for a format that is neither ``text`` nor ``json``."""
    if format not in ("text", "json"):
        raise ConfigError(f"--format must be 'text' or 'json'; got {format!r}")


def seed_list(text: str) -> list[int]:
    """The seeds a text like ``0-4`` or ``0,3,7`` names."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise ConfigError(f"seeds read like '0-4' or '0,3,7'; got {text!r}") from None
    if not seeds:
        raise ConfigError(f"no seed in {text!r}; seeds read like '0-4' or '0,3,7'")
    return seeds


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table to stdout, as wide as the terminal; in a pipe lines are not broken."""
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def text(value: Any) -> str:
    """A value as a cell of a table: six digits, and a dash for what is not known."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
