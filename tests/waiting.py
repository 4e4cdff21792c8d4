"""Waiting for other processes: for what they do and not for so many seconds, as the machine may be busy."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import Popen

#: Seconds after which a process hangs. No machine is as busy as that.
HANG = 600.0


def until(condition: Callable[[], bool], process: Popen | None = None) -> None:
    """Return as soon as the condition holds; fail if ``process`` ends without it, or if something hangs."""
    begun = time.monotonic()
    while not condition():
        ended = process is not None and process.poll() is not None
        if ended and not condition():
            raise AssertionError(f"the process ended with exit code {process.returncode} before it was there")
        assert time.monotonic() - begun < HANG, "nothing has happened for too long"
        time.sleep(0.005)


@contextmanager
def pressing_ctrl_c(condition: Callable[[], bool]) -> Iterator[None]:
    """Press Ctrl-C in this process as soon as the condition holds, unless the block has ended by then."""
    ended = threading.Event()

    def press() -> None:
        while not ended.wait(0.005):
            if condition():
                os.kill(os.getpid(), signal.SIGINT)
                return

    watching = threading.Thread(target=press)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
