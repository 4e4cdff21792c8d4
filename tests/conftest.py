"""Fixtures for every test."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from solvers import registry
from solvers.dispersion.kernels import loader, registered
from tests.waiting import HANG

# Some two hundred tests start Python anew. Where bytecode is not to be written each of them compiles the toolkit first.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

#: So many tests use every kernel.
_WHOLE_SUITE = 3_000

# An example's time is the machine's affair: beside other work, or with kernels to compile, any of them may be slow.
settings.register_profile("fedselect", deadline=None)
settings.load_profile("fedselect")


@pytest.fixture(scope="session", autouse=True)
def _compile_once(request, tmp_path_factory):
    """Let one of the processes that run the suite compile a kernel, and the others take it from the cache.

    Where processes share the whole suite they share the kernels first, the longest before the others: otherwise one
    would wait for what another compiles.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    compiled, folder = loader._compiled, tmp_path_factory.getbasetemp().parent

    def one_at_a_time(name, precision, wait=True):
        with (folder / f"{name}-{precision}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            return compiled(name, precision)

    if "PYTEST_XDIST_WORKER" in os.environ and len(request.session.items) > _WHOLE_SUITE:
        sources = {key: Path(importlib.util.find_spec(loader._modules[key[0]][0]).origin) for key in registered()}
        for key in sorted(sources, key=lambda key: -sources[key].stat().st_size):
            with contextlib.suppress(BlockingIOError):  # another process compiles it
                one_at_a_time(*key, wait=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "_compiled", one_at_a_time)
        yield


@pytest.fixture
def scratch_registry():
    """Let a test register methods that are gone after it."""
    before = registry.snapshot()
    yield
    registry.restore(before)


@pytest.fixture
def restoring(request):
    """Let a test register entries of the registries it names; they are gone after it."""

    def keep(known):
        request.addfinalizer(functools.partial(known.restore, known.snapshot()))

    return keep


@pytest.fixture
def interruptible():
    """Let Ctrl-C reach this process, as it does not where the suite was started with ``nohup`` or by some runners."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def interrupt_after(interruptible, monkeypatch):
    """Ctrl-C a moment after a function was first called, however long a busy machine takes until then."""
    timers = []

    def begin(owner, name):
        function = getattr(owner, name)

        def called(*arguments, **keywords):
            if not timers:
                timers.append(threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)))
                timers[0].start()
            return function(*arguments, **keywords)

        monkeypatch.setattr(owner, name, called)

    yield begin
    for timer in timers:
        timer.cancel()
        timer.join()


class Asserted:
    """Count the cases that a test has held its assertions against; calling it counts one."""

    def __init__(self, at_least: int) -> None:
        self.at_least, self.cases = at_least, 0

    def __call__(self) -> None:
        self.cases += 1


@pytest.fixture
def asserted() -> Iterator[Callable[[int], Asserted]]:
    """Let a test with random or conditional cases say how many it is to assert: it fails where there were fewer."""
    counters: list[Asserted] = []

    def claim(at_least: int) -> Asserted:
        counters.append(Asserted(at_least))
        return counters[-1]

    yield claim
    assert counters, "the test claims no number of cases"
    for counter in counters:
        assert counter.cases >= counter.at_least, (
            f"only {counter.cases} cases were asserted, and {counter.at_least} claimed"
        )


@pytest.fixture
def watchdog() -> Iterator[None]:
    """End a test that hangs, where the system has an alarm; how long a test takes is not asserted anywhere."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def hangs(*_: object) -> None:
        raise TimeoutError(f"the test has not ended after {HANG:g} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(int(HANG))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_terminal_summary(terminalreporter):
    """Say in one line what was skipped, and why: a green suite that left something out says so."""
    reasons = Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
    )
    if reasons:
        said = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"left out: {said}")
