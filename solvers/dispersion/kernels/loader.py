"""When a kernel is run by Python, and when it is compiled.

Either way a kernel returns the same to the bit: operations come in the same order, and none is moved for speed.

Importing numba and the machine code in its cache takes about half a second, compiling on a machine's very first use
up to ten seconds for a kernel. The clock of a run that is handed to `load` stands still meanwhile. Where there is no
cache, the first second or so of work is done by Python, some hundred times slower than compiled: many small problems
are then solved before anything is compiled. `warm_up` compiles everything at once.

Machine code is kept beside the source, in the user's cache folder where that is read-only, or where
``NUMBA_CACHE_DIR`` says.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from solvers.dispersion.kernels.compiler import compile_kernel
from solvers.notices import notice
from solvers.threads import leave_behind

__all__ = [
    "Clock", "cache_folder", "is_loaded", "load", "preload", "register", "registered", "seconds_loading", "warm_up",
]  # fmt: skip

_log = logging.getLogger("solvers")

#: Steps of Python, some 0.2 microseconds each, that a process makes before it begins to compile.
_INTERPRETED = 5_000_000

#: Seconds from which on it is worth a note that kernels were compiled.
_NOTEWORTHY = 1.0

#: Seconds of a core that a kernel takes to compile, of those of 2026-11-24 where that is a second or more.
_SECONDS = {
    "constrained_tree": 10, "counts": 4, "tree": 4, "swaps_with_rows": 3, "cuts": 3, "swaps": 2, "rlt": 2,
    "coverage": 1, "preference": 1, "collisions": 1, "tree_node": 1,
}  # fmt: skip

#: Seconds between looks at a thread that compiles, and its stack: what the main thread has on Linux. LLVM recurses.
_BETWEEN_LOOKS, _STACK = 0.05, 2**23

#: What most methods use.
_COMMON = ("tree", "preference", "schur", "swaps", "ascent", "admm", "cuts")

#: Name of each kernel -> its module, the precisions of the distances that it can be compiled for, and what else its
#: signatures depend on.
_modules: dict[str, tuple[str, tuple[str, ...], dict[str, bool]]] = {}

_lock = threading.RLock()
_loaded: dict[tuple[str, str], SimpleNamespace] = {}
_announced: set[str] = set()  # kernels of which it was said that they are being compiled
_steps = 0  # of Python, so far
_waited = 0.0  # seconds of loading and compiling, so far
_one_at_a_time = threading.Lock()  # compiles, as numba does
_pending: dict[tuple[str, str], tuple[Future[SimpleNamespace], threading.Thread]] = {}  # what is compiled in threads


class Clock(Protocol):
    """What kernels ask of a `solvers.run.Run`."""

    @property
    def expired(self) -> bool:
        """Whether the time is over."""

    def loading(self, *, is_interruptible: bool = False) -> AbstractContextManager[None]:
        """Stop the clock inside the ``with`` block, which Ctrl-C may end or not."""

    def note(self, text: str) -> None:
        """Keep a sentence for the log."""


def register(name: str, module: str, precisions: tuple[str, ...] = ("float64",), **variant: bool) -> None:
    """Add a kernel module.

    Parameters
    ----------
    name : str
        What `load` calls it.
    module : str
        Its import path. It has ``signatures(precision)``: for each function the numba types of its arguments.
    precisions : tuple of str
        Those of the distances that it can be compiled for.
    **variant : bool
        Further arguments of ``signatures``: one source is compiled apart with side constraints and without.
    """
    _modules[name] = (module, precisions, variant)


def registered() -> list[tuple[str, str]]:
    """Return every kernel with every precision that it can be compiled for."""
    return [(name, precision) for name, (_, precisions, _) in _modules.items() for precision in precisions]


for _name in ("tree", "preference", "schur", "points", "counts", "cuts", "admm", "rlt", "conditioning"):
    register(_name, f"{__package__}.{_name}")
for _name in ("swaps", "ascent"):
    register(_name, f"{__package__}.{_name}", ("float64", "float32"))
register("swaps_with_rows", f"{__package__}.swaps", ("float64", "float32"), has_rows=True)
register("constrained_tree", f"{__package__}.tree", has_rows=True)
register("tree_node", f"{__package__}.tree", single_node=True)
register("collisions", "solvers.balance.kernels")
register("coverage", "solvers.coverage.kernels", ("float64", "float32"))


def load(name: str, run: Clock | None = None, *, precision: str = "float64", steps: float | None = None) -> Any:
    """Return a kernel's functions: compiled, or, for a little work where nothing is compiled yet, as Python runs them.

    Parameters
    ----------
    name : str
        A registered kernel.
    run : Clock, optional
        The run, whose clock stands still while the kernel is compiled, or loaded from the cache.
    precision : {"float64", "float32"}
        Of the distances, for kernels that read them where they are.
    steps : float, optional
        Steps that Python would make for what is to be done now; None where that is too many in any case.
    """
    global _steps, _waited
    key = (name, precision)
    if key in _loaded:
        return _loaded[key]
    with _lock:
        if key in _loaded:  # another thread has just compiled it
            return _loaded[key]
        if steps is not None and _steps + steps <= _INTERPRETED and not _is_cached():
            _steps += int(steps)
            return _interpreted(name)
        with nullcontext() if run is None else run.loading(is_interruptible=True):
            began = time.perf_counter()
            _loaded[key] = _obtained(name, precision)
            seconds = time.perf_counter() - began
            _waited += seconds
    if run is not None and seconds > _NOTEWORTHY:
        run.note(
            f"the kernel {name} took {seconds:.1f} s to load or compile, which do not count against the time limit"
        )
    return _loaded[key]


def seconds_loading() -> float:
    """Return how long this process has waited for kernels, for clocks that are not a run's."""
    return _waited


def is_loaded(name: str, precision: str = "float64") -> bool:
    """Whether a kernel is in memory, so that `load` takes no time."""
    return (name, precision) in _loaded


def preload(*, if_used: bool = False) -> None:
    """Load the kernels that most methods use.

    Parameters
    ----------
    if_used : bool
        Only where some kernel has been used already.
    """
    if not if_used or _loaded or _steps:
        for name in _COMMON:
            load(name)


def warm_up(progress: Callable[[str, str, float], None] | None = None) -> None:
    """Compile every registered kernel; where the cache can be written, later processes read them from there.

    Parameters
    ----------
    progress : callable, optional
        Called with name, precision and seconds after each kernel.
    """
    for name, precision in registered():
        began = time.perf_counter()
        _announced.add(name)  # the caller tells of the wait itself
        load(name, precision=precision)
        if progress is not None:
            progress(name, precision, time.perf_counter() - began)


def _announce(name: str) -> None:
    """Say, once in a process for each kernel, that there is a wait, how long it is about, and why."""
    if name in _announced:
        return
    _announced.add(name)
    seconds = _SECONDS.get(name)
    wait = "" if seconds is None else f" (about {seconds} s on an idle core)"
    notice(
        f"compiling {name} once on this machine{wait}, which counts against no time limit; "
        "'fedselect warm-up' compiles all kernels beforehand",
        logging.getLogger("solvers"),
    )


def cache_folder() -> str | None:
    """Return where the machine code is kept, or None where it is not."""
    return getattr(getattr(load("tree").explore, "_cache", None), "cache_path", None)


def _obtained(name: str, precision: str) -> SimpleNamespace:
    """Compile a kernel, or load it from the cache, so that Ctrl-C need not wait for the end of that.

    What compiles, and what it imports, must not be cut off: modules and tables half made would cripple the process. So
    it happens in a thread, which an interruption of the main thread leaves behind; who asks again waits for it.
    """
    if threading.current_thread() is not threading.main_thread():  # where no interruption arrives
        with _one_at_a_time:
            return _compiled(name, precision)
    key = name, precision
    try:
        if key not in _pending or _pending[key][1].ident is None:  # of which an interruption let the start fail
            future: Future[SimpleNamespace] = Future()

            def work() -> None:
                try:
                    with _one_at_a_time:
                        future.set_result(_compiled(name, precision))
                except BaseException as error:
                    future.set_exception(error)

            thread = threading.Thread(target=work, name=f"compiling {name}", daemon=True)
            _pending[key] = future, thread
            before = threading.stack_size(_STACK)
            try:
                thread.start()
            finally:
                threading.stack_size(before)
        future, thread = _pending[key]
        while not future.done():
            wait([future], timeout=_BETWEEN_LOOKS)  # a wait without a limit does not hear Ctrl-C on every system
    except BaseException:
        if key in _pending:
            leave_behind(_pending[key][1])
        raise
    del _pending[key]
    return future.result()


def _compiled(name: str, precision: str) -> SimpleNamespace:
    """Compile a kernel; where that fails, Python has to do."""
    module, _, variant = _modules[name]
    try:
        source = importlib.import_module(module)
        return compile_kernel(source, precision, lambda: _announce(name), **variant)
    except Exception as error:
        _log.warning("the kernel %s cannot be compiled and is run by Python, slowly: %s", name, error)
        return _interpreted(name)


@cache
def _interpreted(name: str) -> SimpleNamespace:
    """The functions of a kernel for Python to run, with numba's arithmetic: nothing warns, numbers are NumPy's."""

    def by_python(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            with np.errstate(all="ignore"):
                return function(*(np.float64(a) if type(a) is float else a for a in arguments))

        return call

    module = importlib.import_module(_modules[name][0])
    public = {key: getattr(module, key) for key in module.__all__}
    callables = {key: by_python(value) for key, value in public.items() if callable(value)}
    return SimpleNamespace(compiled=False, **public | callables)


@cache
def _is_cached() -> bool:
    """Whether there is machine code in one of the places where numba keeps it; looked up without importing numba."""
    here = Path(__file__).parent
    places = [here / "__pycache__"]
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        places = [Path(chosen)]
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME", Path("~").expanduser() / ".cache"))
        mac, windows = Path("~/Library/Caches").expanduser(), Path(os.environ.get("LOCALAPPDATA", here))
        user = mac if sys.platform == "darwin" else windows if sys.platform == "win32" else home
        places.append(user / "numba")
    pattern = f"tree.explore-*.py{sys.version_info[0]}{sys.version_info[1]}*.nbi"
    try:
        return any(next(place.glob(depth + pattern), None) is not None for place in places for depth in ("", "*/"))
    except (OSError, RuntimeError):
        return False
