"""Log of a solve: one line per improvement, as MIP solvers print them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from solvers.errors import InvalidOption

if TYPE_CHECKING:
    from solvers.run import Run
    from solvers.solution import Solution

__all__ = ["Log"]


class Log:
    """Writer of a run's progress; silent where there is nowhere to write to.

    Parameters
    ----------
    write : callable or None
        Given each line, without its end.
    """

    def __init__(self, write: Callable[[str], object] | None) -> None:
        self._write = write

    @classmethod
    def of(cls, log: bool | IO[str] | Callable[[str], object] | None) -> Log:
        """Make a log of what `solve` takes: False, True, a text stream, or a callable given each line."""
        if log is None or log is False:
            return cls(None)
        if log is True:
            return cls(_to(sys.stdout))
        if hasattr(log, "write"):
            return cls(_to(log))
        if callable(log):
            return cls(log)
        raise InvalidOption(f"log must be true or false, a text stream, or a callable given each line; got {log!r}")

    def begin(self, run: Run) -> None:
        """Say what is solved, and what the columns are."""
        problem = run.problem
        size = f", n = {problem.n}" if hasattr(problem, "n") else ""
        limit = "" if run.time_limit is None else f", {run.time_limit:g} s"
        self._line(f"{run.method} on a {type(problem).__name__} ({problem.sense}{size}), seed {run.seed}{limit}")
        self._line(f"{'seconds':>9} {'nodes':>9} {'incumbent':>16} {'bound':>16} {'gap':>9}")

    def improved(self, run: Run) -> None:
        """A line with the newest point of the run's trace."""
        if self._write is None:
            return
        from solvers.solution import relative_gap

        gap = None if run.objective is None or run.bound is None else relative_gap(run.objective, run.bound)
        nodes = "-" if run.nodes is None else str(run.nodes)
        cells = f"{run.seconds:9.2f} {nodes:>9} {_cell(run.objective):>16} {_cell(run.bound):>16}"
        self._line(f"{cells} {'-' if gap is None else f'{100 * gap:.3g} %':>9}")

    def note(self, text: str) -> None:
        """A line of words."""
        self._line(f"{'':>9} {text}")

    def end(self, solution: Solution) -> None:
        """The summary."""
        if self._write is not None:
            for line in solution.summary().splitlines():
                self._line(line)

    def _line(self, text: str) -> None:
        if self._write is not None:
            self._write(text)


def _to(stream: Any) -> Callable[[str], object]:
    def write(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return write


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.9g}"
