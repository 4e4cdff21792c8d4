"""Terminals: tables that fit, and a progress bar for whoever sits at one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from solvers.reading import without_controls

#: Columns up to this width keep it; wider ones are folded where the terminal is too narrow.
_NEVER_FOLDED = 16


def screen_width() -> int:
    """Return the characters of a line: those of the terminal; in a pipe ``COLUMNS``, or 200."""
    columns = os.environ.get("COLUMNS", "")
    return Console().width if sys.stdout.isatty() else int(columns) if columns.isascii() and columns.isdigit() else 200


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    less_needed: Sequence[str] = (),
    caption: str = "",
    *,
    title: str | None = None,
    whole: bool = False,
) -> None:
    """Print a table to stdout, as wide as `screen_width`.

    Parameters
    ----------
    head, rows : tuple of str
        Headings, and cells as they are to be read.
    less_needed : sequence of str
        Headings of columns that are left out, in this order, until the rest fits; they are named below the table.
        What still does not fit is folded: wide columns first, and the narrow ones where even they find no room. Nothing
        is cut: with less room than one letter a column the table is wider than the terminal.
    caption : str
        Printed below.
    title : str, optional
        Printed above.
    whole : bool
        Whether the table is as wide as it needs to be where stdout is no terminal, so that nothing is folded in a file.
    """
    console = Console(width=screen_width())
    widths = {name: max([len(name), *(len(row[place]) for row in rows)]) for place, name in enumerate(head)}
    dropped: list[str] = []
    for name in less_needed:
        if sum(widths.values()) + 3 * len(widths) + 1 <= console.width:
            break
        del widths[name]
        dropped.append(name)
    least, borders = sum(width if width <= _NEVER_FOLDED else 1 for width in widths.values()), 3 * len(widths) + 1
    is_whole = least + borders <= console.width
    console = Console(width=max(console.width, len(widths) + borders))
    table = Table(title=title, title_justify="left")
    for name, width in widths.items():
        table.add_column(without_controls(name), no_wrap=is_whole and width <= _NEVER_FOLDED, overflow="fold")
    for row in rows:
        table.add_row(
            *(Text(without_controls(cell)) for name, cell in zip(head, row, strict=True) if name not in dropped)
        )
    if whole and not console.is_terminal:
        console = Console(width=max(80, Console(width=10_000).measure(table).maximum))
    console.print(table)
    if dropped:
        print(f"left out for want of width: {', '.join(dropped)}")
    if caption:
        console.print(Text(without_controls(caption)))


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, and a line a minute where that is no terminal; yields ``update(done, total)``.

    Both say how many a second are done, and how long the rest takes at that pace.
    """
    console, pace = Console(stderr=True), Pace()
    if not console.is_terminal:
        yield _lines(what, pace)
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(what, total=total, pace="")

        def update(done: int, of: int) -> None:
            pace.count(done, time.monotonic())
            bar.update(task, completed=done, total=of, pace=str(pace))

        yield update


class Pace:
    """Pace of a command, from its second report on: what a run that goes on did before the first does not count."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._each: float | None = None  # seconds

    def count(self, done: int, now: float) -> None:
        """Report how much is done, at a time in seconds."""
        self._first = self._first or (done, now)
        more = done - self._first[0]
        self._each = (now - self._first[1]) / more if more > 0 else None

    def left(self, rest: int) -> float | None:
        """Return the seconds that so many more will take; None where that is not known yet."""
        return None if self._each is None else rest * self._each

    def __str__(self) -> str:
        if not self._each:
            return ""
        return f"{1 / self._each:.3g}/s" if self._each < 1 else f"{self._each:.3g} s each"


#: Seconds between two lines of progress in a file or a pipe: what is done sooner needs none.
_PAUSE = 60.0


def _lines(what: str, pace: Pace) -> Callable[[int, int], None]:
    """Return a function that prints how far a command is, at most once in `_PAUSE` seconds."""
    began = last = time.monotonic()

    def update(done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        pace.count(done, now)
        if now - last >= _PAUSE:
            last = now
            left = pace.left(of - done)
            more = "" if left is None else f", {pace}, {left:.0f} s left"
            print(f"fedselect: {what}: {done} of {of} after {now - began:.0f} s{more}", file=sys.stderr, flush=True)

    return update
