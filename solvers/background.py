"""Solves in threads of their own: an end within hundredths of a second, and a future with what is known so far."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace

from solvers.run import Event, Run
from solvers.solution import Solution, Stopped
from solvers.threads import leave_behind

__all__ = ["AnyEvent", "Progress", "SolutionFuture", "abandonable", "in_thread"]

#: Seconds between looks at the event.
_BETWEEN_LOOKS = 0.005

#: Seconds from the event on in which a method that looks at it ends by itself: some more than the .01 of work that
#: methods of our own do between two looks. Others are left behind after them, so that whatever a method does, a solve
#: ends after two waits of `_BETWEEN_LOOKS`, this and the time of an answer: half of the promised 0.05.
_GRACE = 0.015


class Progress:
    """What a solve has found so far, for other threads to read."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.solution: Solution | None = None
        self.is_closed = False

    def snapshot(self) -> Solution | None:
        """Return the incumbent with its bound; None before the search has begun."""
        return self.solution if self.solution is not None or self.run is None else self.run.solution()


class AnyEvent:
    """Event that is set where one of several is."""

    def __init__(self, *events: Event | None) -> None:
        self.events = [event for event in events if event is not None]

    def is_set(self) -> bool:
        """Whether one is set."""
        return any(event.is_set() for event in self.events)


class SolutionFuture(Future[Solution]):
    """Future of a `Solution`, which can be asked before it is done; made by `solvers.submit`.

    ``result()`` raises what `solvers.solve` raises. A solve that is cancelled has a result, too: what it had found.
    `asyncio.wrap_future` raises `asyncio.CancelledError` for it, as for any other future; ``stop=`` of `solvers.submit`
    ends a solve without.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()
        self.progress = Progress()

    def cancel(self) -> bool:
        """End the solve; False where it had ended without.

        Its ``result()`` then has ``stopped="cancelled"``, unless what it found is proved or was asked for (``"gap"``,
        ``"target"``).
        """
        if not self.done():
            self.stop.set()
            return True
        return self.cancelled()

    def cancelled(self) -> bool:
        """Return whether `cancel` was called before the solve was done."""
        return self.stop.is_set()

    def solution_so_far(self) -> Solution | None:
        """Return the incumbent with its bound as a `Solution`; None before the search has begun.

        Its ``stopped`` is ``"running"`` until the solve is done, and ``"error"`` after one that ended in an exception.
        """
        if self.done() and self.exception() is None:
            return self.result()
        known = self.progress.snapshot()
        return None if known is None else replace(known, stopped="error" if self.done() else "running")


def in_thread(work: Callable[[], Solution], future: Future[Solution]) -> threading.Thread:
    """Do the work in a thread, for a future, with the caller's context variables."""
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:
            future.set_exception(error)

    # A daemon, as a solver that cannot be interrupted must not keep the process from ending.
    thread = threading.Thread(target=run, name="solvers", daemon=True)
    thread.start()
    return thread


def abandonable(
    work: Callable[[], Solution], progress: Progress, stop: Event, interruption: threading.Event
) -> Solution:
    """Return what the work does, or what it had found some hundredths of a second after the event was set.

    Most methods look at the event often enough to end by themselves. A factorisation of a large matrix, the compilation
    of a kernel, or an external solver that knows no interruption does not: its thread is left behind, ends at its next
    look, and what it still finds is not heard.

    Parameters
    ----------
    work : callable
        The solve, which looks at both events.
    progress : Progress
        What the solve has found.
    stop : Event
        The user's.
    interruption : threading.Event
        Set here on Ctrl-C.
    """
    future: Future[Solution] = Future()
    thread = in_thread(work, future)
    reason: Stopped = "cancelled"
    try:
        while not future.done() and not stop.is_set():
            wait([future], timeout=_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        interruption.set()
        reason = "interrupted"
    ends = time.perf_counter() + _GRACE
    while not future.done() and (time.perf_counter() < ends or progress.snapshot() is None):
        wait([future], timeout=_BETWEEN_LOOKS)
    if future.done():
        found = future.result()
    else:
        progress.is_closed = True
        leave_behind(thread)
        known = progress.snapshot()
        assert known is not None
        found = known
    is_early = interruption.is_set() or not future.done()
    return replace(found, stopped=reason) if is_early and found.stopped != "proved" else found
