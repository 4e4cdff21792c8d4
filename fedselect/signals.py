"""Ctrl-C and SIGTERM, which clusters send at a time limit, as a process of the command line meets them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import cache
from types import FrameType

__all__ = ["end_as_by_ctrl_c", "ended_before_it_began"]

_is_terminated = False


def end_as_by_ctrl_c() -> None:
    """Let SIGTERM end a command as Ctrl-C does, workers included."""
    if threading.current_thread() is threading.main_thread():  # no other may say what signals do
        signal.signal(signal.SIGTERM, _end)
        _leave_to_workers()


def ended_before_it_began() -> SystemExit:
    """Say that a signal came while the program was being loaded; return its exit code: 143 by SIGTERM, else 130."""
    print("fedselect: ended before the command began", file=sys.stderr)
    return SystemExit(143 if _is_terminated else 130)


def _end(number: int, frame: FrameType | None) -> None:
    global _is_terminated
    _is_terminated = True
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


@cache
def _leave_to_workers() -> None:
    """Have forked workers die by SIGTERM at once.

    A handler in Python runs between two instructions: a worker that began to wait just after the signal came would wait
    for ever, and its pool for it.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
