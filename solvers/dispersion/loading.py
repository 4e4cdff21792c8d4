"""A kernel or an exception: for methods that have nothing to go on with before it is there."""

from __future__ import annotations

from types import ModuleType

from solvers.dispersion.compiled import kernel
from solvers.run import Run

__all__ = ["OutOfTime", "needed"]


class OutOfTime(Exception):
    """The clock ran out in the middle of something that has no answer yet."""


def needed(name: str, run: Run | None = None) -> ModuleType:
    """Return a kernel; raise `OutOfTime` when the run's time is over before it is there."""
    module = kernel(name, run)
    if module is None:
        raise OutOfTime
    return module
