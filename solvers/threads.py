"""Daemon threads that were left behind, by solves and by kernels."""

from __future__ import annotations

import atexit
import threading
import time
from weakref import WeakSet

__all__ = ["leave_behind"]

#: Threads that were left behind, and seconds that the end of the process waits for them: a solver in C++ that is killed
#: in its work aborts the whole process.
_left_behind: WeakSet[threading.Thread] = WeakSet()
_LAST_WAIT = 1.0


def leave_behind(thread: threading.Thread) -> None:
    """Let the end of the process wait for a daemon thread, some time."""
    _left_behind.add(thread)


@atexit.register
def _wait_for_those_left_behind() -> None:
    ends = time.perf_counter() + _LAST_WAIT
    for thread in [each for each in _left_behind if each.is_alive()]:
        thread.join(max(0.0, ends - time.perf_counter()))
