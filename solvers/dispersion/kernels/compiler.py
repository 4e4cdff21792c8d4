"""Compilation of kernels: machine code from the cache where there is any, compiled anew where not.

A kernel module is plain Python. A function that Python calls is named in the module's ``signatures``, a function that
only kernels call is marked as a `part`. To compile a kernel, numba is handed copies of both, in which the parts are
compiled functions: the originals stay what they are, and Python can run them. Parts have neither wrappers for Python
nor cache files of their own. Assigning arrays (``a[:] = b``) is avoided in kernels, because the sentence numba makes
up for a wrong shape drags its whole string library through the compiler.

Building ahead of time was weighed: it would need a wheel for each platform and processor, and a C compiler to make
them, to save some seconds once on a machine. The cache does the same without either.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

__all__ = ["compile_kernel", "part"]

_log = logging.getLogger("solvers")

# A kernel holds no lock that Python code waits for; a division by zero is infinite, which spares its test everywhere.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Parts by the function that Python runs -> the one that is compiled: the same, but for the few that NumPy has ready.
_parts: dict[Callable[..., Any], Callable[..., Any]] = {}

#: What the functions of a module find as globals when they are compiled, by the module's name.
_globals: dict[str, dict[str, Any]] = {}


def part(function: Any = None, *, numpy: Any = None) -> Any:
    """Mark a function that only kernels call.

    Parameters
    ----------
    function : callable
        The function.
    numpy : callable, optional
        The same to the bit in NumPy, for Python to run: without it, an interpreted loop over an array's entries.
    """
    if function is None:
        return lambda loop: part(loop, numpy=numpy)
    shown = function if numpy is None else numpy
    _parts[shown] = function
    return shown


def compile_kernel(module: ModuleType, precision: str, **variant: bool) -> SimpleNamespace:
    """Compile the functions that a kernel module names in ``signatures``; its other public names are kept.

    Once compiled, a kernel takes these types alone: an odd argument is an error, not seconds of compilation.
    """
    compiled = {}
    for function, signature in module.signatures(precision, **variant).items():
        dispatcher = _dispatcher(function)
        dispatcher.disable_compile(False)
        _compile(dispatcher, signature)
        dispatcher.disable_compile()
        compiled[function.__name__] = dispatcher
    return SimpleNamespace(compiled=True, **{name: getattr(module, name) for name in module.__all__} | compiled)


@cache
def _dispatcher(function: Callable[..., Any]) -> Any:
    """Numba's dispatcher for a kernel, with machine code kept in numba's cache where that can be written."""
    from numba import njit

    copy = _copy(function)
    try:
        dispatcher = njit(cache=True, **_OPTIONS)(copy)
    except (OSError, RuntimeError) as error:  # no place for a cache can be written
        _log.warning("%s is compiled anew in every process: %s", function.__name__, error)
        return njit(**_OPTIONS)(copy)
    # Numba compiles anew when the function's own file has changed; its parts may be in others.
    if (file := getattr(dispatcher._cache, "_cache_file", None)) is not None:
        file._source_stamp = (file._source_stamp, _sources())
    return dispatcher


@cache
def _part_dispatcher(function: Callable[..., Any]) -> Any:
    from numba import njit

    return njit(no_cpython_wrapper=True, **_OPTIONS)(_copy(function))


def _copy(function: Any) -> FunctionType:
    """The function in a module whose parts are compiled."""
    copy = FunctionType(function.__code__, _compiled_globals(function), function.__name__, function.__defaults__)
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return copy


def _compiled_globals(function: Any) -> dict[str, Any]:
    name = function.__module__
    if name not in _globals:
        found = _globals[name] = dict(function.__globals__)
        for key, value in function.__globals__.items():
            if isinstance(value, FunctionType) and value in _parts:
                found[key] = _part_dispatcher(_parts[value])
    return _globals[name]


@cache
def _sources() -> str:
    """A digest of every file that kernels are made of."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _compile(dispatcher: Any, signature: Any) -> None:
    """Compile for a signature, or load what was compiled before; never fail for the cache's sake.

    A cache that cannot be read (garbage, another program's files) is begun anew, one that cannot be written (a full
    disk) is done without, with a line in the log. Code for another processor or of another numba is passed over by
    numba itself.
    """
    try:
        dispatcher.compile(signature)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        _log.warning("the cache of compiled code did not serve %s: %s", dispatcher.__name__, what)
        try:
            dispatcher._cache.flush()
            dispatcher.compile(signature)
        except Exception:
            dispatcher._cache.disable()
            dispatcher.compile(signature)
