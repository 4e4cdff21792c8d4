"""Tables on the terminal."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

__all__ = ["show"]


def show(table: pd.DataFrame, title: str, digits: int = 3) -> None:
    """Print a table to stdout: numbers with so many decimals, a dash for what is not there.

    Reasons (the column ``why``) are long and come again and again: each is printed once, below, under a number.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    notes: dict[str, int] = {}
    printed = Table(title=title, title_justify="left")
    for column in map(str, table.columns):
        printed.add_column(column, overflow="fold")  # a name is never cut
    for row in table.to_dict("records"):
        if row.get("why"):
            row["why"] = f"[{notes.setdefault(row['why'], len(notes) + 1)}]"
        printed.add_row(*(Text(_cell(value, digits)) for value in row.values()))
    console = Console()
    if not console.is_terminal:  # nothing is to be cut off in a file
        console = Console(width=max(80, Console(width=10_000).measure(printed).maximum))
    console.print(printed)
    for note, number in notes.items():
        console.print(Text(f"[{number}] {note}"), soft_wrap=True)


def _cell(value: Any, digits: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
