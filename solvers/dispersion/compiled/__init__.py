"""The compiled kernels, loaded when first asked for and never at the cost of a time limit.

Importing numba and the cached machine code takes about half a second, and compiling on a machine's very first use
some seconds more. Both happen in a background thread, and who asks chooses: `kernel` waits for a kernel as long as the
run's time allows, `ready` waits for the cache but not for the compiler: until a kernel is compiled, the caller does
without it. The machine code is kept in numba's cache: beside the source, or in the user's cache folder where that is
read-only, or where ``NUMBA_CACHE_DIR`` says. `warm_up` fills it.

A kernel is a module with a function ``prepare(precision)`` that builds what it defines (see
`solvers.dispersion.compiled.declare`); `register` adds one.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from solvers.run import Run

__all__ = [
    "compiled",
    "folder",
    "give_way",
    "kernel",
    "load",
    "ready",
    "register",
    "registered",
    "settle",
    "start",
    "warm_up",
]

_log = logging.getLogger("solvers")

#: Name of each kernel -> its module, and the precisions of the distances that it can be built for.
_modules: dict[str, tuple[str, tuple[str, ...]]] = {}

#: Loaded together, in this order; the others when somebody asks.
_COMMON = ("tree", "preference", "schur", "swaps")

_lock = threading.Condition()
_wanted: list[tuple[str, str]] = []
_loaded: dict[tuple[str, str], ModuleType] = {}
_failed: dict[tuple[str, str], BaseException] = {}
_compiling = threading.Event()  # set once something is not in the cache
_thread: threading.Thread | None = None


def register(name: str, module: str, precisions: tuple[str, ...] = ("float64",)) -> None:
    """Add a kernel: the module is imported and its ``prepare(precision)`` called when somebody asks for it."""
    _modules[name] = (module, precisions)


def registered() -> list[tuple[str, str]]:
    """Every kernel with every precision it is built for."""
    return [(name, precision) for name, (_, precisions) in _modules.items() for precision in precisions]


for _name in (*_COMMON, "annealing", "ascent"):
    _both = _name in ("swaps", "annealing", "ascent")
    register(_name, f"{__name__}.{_name}", ("float64", "float32") if _both else ("float64",))


for _name in ("points", "counts", "cuts", "alternating", "circle"):
    register(_name, f"{__name__}.{_name}")


def kernel(name: str, run: Run | None = None, precision: str = "float64") -> ModuleType | None:
    """Return the kernel ``name``, or ``None`` when the run's time is over before it is there.

    Parameters
    ----------
    name : str
        A registered kernel.
    run : Run, optional
        Whose time limit to respect.
    precision : {"float64", "float32"}
        Of the distances, for kernels that read them where they are.
    """
    key = (name, precision)
    if key not in _loaded:
        _want(key)
        with _lock:
            while key not in _loaded and key not in _failed:
                left = math.inf if run is None else run.remaining
                if left <= 0:
                    return None
                _lock.wait(min(left, 0.05))
        if key in _failed:
            raise _failed[key]
    return _loaded[key]


def ready(name: str, run: Run | None = None, precision: str = "float64") -> ModuleType | None:
    """Return the kernel ``name``, or ``None`` when it would have to be compiled first; that is left to `start`."""
    key = (name, precision)
    if key not in _loaded and not _compiling.is_set() and (_wanted or _cached()):
        _want(key)
        with _lock:
            while key in _wanted and not _compiling.is_set() and (run is None or run.remaining > 0):
                _lock.wait(0.01)
    return _loaded.get(key)


def compiled(name: str, precision: str = "float64") -> ModuleType:
    """Return the kernel ``name``, however long that takes."""
    module = kernel(name, None, precision)
    assert module is not None
    return module


def load() -> None:
    """Have the kernels that most methods use, however long that takes; where one fails, methods do without it."""
    _want((_COMMON[0], "float64"))
    settle()


def start(name: str, precision: str = "float64") -> None:
    """Begin to compile a kernel that is not there, while the caller goes on without it."""
    if (name, precision) not in _loaded:
        _compiling.set()
        _want((name, precision))


def give_way(seconds: float) -> bool:
    """Let the compiler have the interpreter for a while, if it is at work: both hold it most of the time.

    Returns whether it was.
    """
    if not _compiling.is_set():
        return False
    with _lock:
        _lock.wait(seconds)
    return True


def settle() -> None:
    """Wait until the kernels are there, if they are being loaded."""
    with _lock:
        while _wanted:
            _lock.wait(0.05)


def warm_up(progress: Callable[[str, str, float], None] | None = None) -> None:
    """Compile every registered kernel, so that no process after this one has to.

    Parameters
    ----------
    progress : callable, optional
        Called with name, precision and seconds after each kernel.
    """
    for name, precision in registered():
        began = time.perf_counter()
        compiled(name, precision)
        if progress is not None:
            progress(name, precision, time.perf_counter() - began)


def folder() -> str | None:
    """Where the machine code is kept, or ``None`` when no such place can be written."""
    cache = compiled("tree").explore._cache
    return getattr(cache, "cache_path", None)


def _want(key: tuple[str, str]) -> None:
    """Put a kernel on the thread's list, after those that everybody needs; start the thread if there is none."""
    global _thread
    with _lock:
        common = [(name, "float64") for name in _COMMON] if key[0] in _COMMON else []
        for wish in [*common, key]:
            if wish not in _loaded and wish not in _wanted and wish not in _failed:
                _wanted.append(wish)
        if _wanted and _thread is None:
            _thread = threading.Thread(target=_work, name="solvers-kernels", daemon=True)
            _thread.start()


def _work() -> None:
    """Load what is wanted, one kernel after the other."""
    global _thread
    while True:
        with _lock:
            if not _wanted:
                _compiling.clear()
                _thread = None
                return
            key = _wanted[0]
        try:
            module = _load(*key)
        except BaseException as error:  # raised again in the thread that cannot do without the kernel
            _log.warning("the kernel %s cannot be compiled and is done without: %s", key[0], error)
            _failed[key] = error
        else:
            _loaded[key] = module
        with _lock:
            _wanted.remove(key)
            _lock.notify_all()


def _load(name: str, precision: str) -> ModuleType:
    from numba.core import event

    class Compiles(event.Listener):
        def on_start(self, event: event.Event) -> None:
            _compiling.set()

        def on_end(self, event: event.Event) -> None:
            pass

    module = importlib.import_module(_modules[name][0])
    listener = Compiles()
    event.register("numba:compile", listener)
    try:
        module.prepare(precision)
    finally:
        event.unregister("numba:compile", listener)
    return module


def _cached() -> bool:
    """Whether there seems to be machine code in one of the places where numba keeps it; without importing numba."""
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
