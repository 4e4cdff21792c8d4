"""How kernels are declared and built: machine code from the cache where there is any, compiled anew where not.

A kernel says nothing about types where it is defined; `build` compiles it for the signatures that are wanted, so that
single precision costs nothing until somebody brings a float32 matrix. The functions that a kernel calls (`part`) have
neither wrappers for Python nor files of their own: they are compiled into whoever calls them. Assigning arrays
(``a[:] = b``) is avoided in kernels, because the sentence numba makes up for a wrong shape drags its whole string
library through the compiler: that alone took four of the seventeen seconds that everything used to take.

Building ahead of time was weighed: it would need a wheel for each platform and processor, and a C compiler to make
them, to save some four seconds once on a machine. The cache does the same without either.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

__all__ = ["build", "kernel", "part"]

_log = logging.getLogger("solvers")

# A kernel holds no lock that Python code waits for; a division by zero is infinite, which spares its test everywhere.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Declare a function that Python calls; its machine code is kept in numba's cache where that can be written."""
    try:
        dispatcher = njit(cache=True, **_OPTIONS)(function)
    except (OSError, RuntimeError) as error:  # no place for a cache can be written
        _log.warning("%s is compiled anew in every process: %s", function.__name__, error)
        return njit(**_OPTIONS)(function)
    # Numba compiles anew when the function's own file has changed; its parts may be in others.
    if (file := getattr(dispatcher._cache, "_cache_file", None)) is not None:
        file._source_stamp = (file._source_stamp, _sources())
    return dispatcher


@cache
def _sources() -> str:
    """A digest of every file that kernels are made of."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def part(function: Callable[..., Any]) -> Any:
    """Declare a function that only kernels call."""
    return njit(no_cpython_wrapper=True, **_OPTIONS)(function)


def build(function: Any, *signatures: Any) -> None:
    """Compile a kernel for these signatures, or load what was compiled before; never fail for the cache's sake.

    A cache that cannot be read (garbage, another program's files) is begun anew, one that cannot be written (a full
    disk) is done without, with a line in the log. Code for another processor or of another numba is passed over by
    numba itself. Once built, a kernel takes these types alone: an odd argument is an error, not seconds of
    compilation in the middle of a time limit.
    """
    function.disable_compile(False)
    for signature in signatures:
        try:
            function.compile(signature)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            _log.warning("the cache of compiled code did not serve %s: %s", function.__name__, what)
            _without_cache(function, signature)
    function.disable_compile()


def _without_cache(function: Any, signature: Any) -> None:
    """Compile with an emptied cache, or with none; what is wrong with the function itself is raised."""
    try:
        function._cache.flush()
        function.compile(signature)
    except Exception:
        function._cache.disable()
        function.compile(signature)
