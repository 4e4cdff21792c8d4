"""The compiled kernels, loaded when first asked for and never at the cost of a time limit.

Importing numba and the cached machine code takes about half a second, and compiling them on a machine's very first
use some twenty seconds. Both happen in a background thread: a method that has time waits for them, one that has not
goes on without. The machine code is cached beside the source (or in numba's cache folder where that is read-only).
"""

from __future__ import annotations

import importlib
import math
import threading
from types import ModuleType

from solvers.run import Run

__all__ = ["compiled", "kernel", "settle"]

_KERNELS = ("swaps", "tree", "preference", "schur")

_lock = threading.Lock()
_loaded: dict[str, ModuleType] = {}
_failure: BaseException | None = None
_done = threading.Event()
_thread: threading.Thread | None = None


def kernel(name: str, run: Run | None = None) -> ModuleType | None:
    """Return the compiled module ``name``, or ``None`` when the run's time is over before it is there.

    Parameters
    ----------
    name : str
        "swaps", "tree", "preference" or "schur".
    run : Run, optional
        Whose time limit to respect.
    """
    global _thread
    if name not in _loaded:
        with _lock:
            if _thread is None:
                _thread = threading.Thread(target=_load, name="solvers-kernels", daemon=True)
                _thread.start()
        while name not in _loaded and not _done.is_set():
            left = math.inf if run is None else run.remaining
            if left <= 0:
                return None
            _done.wait(min(left, 0.02))
        if name not in _loaded:
            assert _failure is not None
            raise _failure
    return _loaded[name]


def compiled(name: str) -> ModuleType:
    """Return the compiled module ``name``, however long that takes."""
    module = kernel(name)
    assert module is not None
    return module


def settle() -> None:
    """Wait until the kernels are there, if they are being loaded."""
    if _thread is not None:
        _done.wait()


def _load() -> None:
    global _failure
    try:
        for name in _KERNELS:
            _loaded[name] = importlib.import_module(f"solvers.dispersion.compiled.{name}")
    except BaseException as error:  # raised again in the thread that needs the kernel
        _failure = error
    finally:
        _done.set()
