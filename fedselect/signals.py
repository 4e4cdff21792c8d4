"""Ctrl-C and SIGTERM, which clusters send at a time limit, as a process of the command line meets them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import cache
from types import FrameType

__all__ = ["end_as_by_ctrl_c", "ended_before_it_began", "forget_interrupts", "interrupt_again"]

_is_terminated = False
_is_interrupted = False


def end_as_by_ctrl_c() -> None:
    """Let SIGTERM end a command as Ctrl-C does, workers included; let `interrupt_again` know of either."""
    if threading.current_thread() is threading.main_thread():  # no other may say what signals do
        signal.signal(signal.SIGTERM, _end)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        _leave_to_workers()


def interrupt_again() -> None:
    """Raise `KeyboardInterrupt` where Ctrl-C has raised one already, and the command goes on all the same.

    An exception is lost that is raised in a ``__del__``, in a callback of the garbage collector, or in a function that
    C calls and whose errors it clears.
    """
    if _is_interrupted and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def forget_interrupts() -> None:
    """Forget Ctrl-C once a command has ended by it: another may begin in this process."""
    global _is_interrupted
    _is_interrupted = False


def ended_before_it_began() -> SystemExit:
    """Say that a signal came while the program was being loaded; return its exit code: 143 by SIGTERM, else 130."""
    print("fedselect: ended before the command began", file=sys.stderr)
    return SystemExit(143 if _is_terminated else 130)


def _end(number: int, frame: FrameType | None) -> None:
    global _is_terminated
    _is_terminated = True
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job
        signal.signal(signal.SIGINT, _interrupt)
    signal.raise_signal(signal.SIGINT)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _is_interrupted
    _is_interrupted = True
    raise KeyboardInterrupt


@cache
def _leave_to_workers() -> None:
    """Have forked workers die by SIGTERM at once.

    A handler in Python runs between two instructions: a worker that began to wait just after the signal came would wait
    for ever, and its pool for it.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
