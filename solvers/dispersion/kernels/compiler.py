"""Compilation of kernels: machine code from the cache where there is any, compiled anew where not.

A kernel module is plain Python. A function that Python calls is named in the module's ``signatures``, a function that
only kernels call is marked as a `part`. To compile a kernel, numba is handed copies of both, in which the parts are
compiled functions: the originals stay what they are, and Python can run them. A kernel takes its parts in, and is
compiled as a whole. A module with ``ALLOCATES = False`` makes no array, so references to arrays are not counted there.
Assigning arrays (``a[:] = b``) is avoided in kernels, because the sentence numba makes up for a wrong shape drags its
whole string library through the compiler.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

#: Called at the moment a function begins to be compiled, which no cache has.
_when_compiling: Callable[[], None] | None = None

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


def compile_kernel(
    module: ModuleType, precision: str, when_compiling: Callable[[], None] | None = None, **variant: bool
) -> SimpleNamespace:
    """Compile the functions that a kernel module names in ``signatures``; its other public names are kept.

    Once compiled, a kernel compiles for no further types: an odd argument is an error, not seconds of compilation.
    ``when_compiling`` is called at the moment a function begins to be compiled, and not where the cache has it.
    """
    global _when_compiling
    _when_compiling, compiled = when_compiling, {}
    with _comparing_options_quickly():
        for function, signature in module.signatures(precision, **variant).items():
            dispatcher = _dispatcher(function)
            dispatcher.disable_compile(False)
            _compile(dispatcher, signature)
            dispatcher.disable_compile()
            compiled[function.__name__] = dispatcher
    return SimpleNamespace(compiled=True, **{name: getattr(module, name) for name in module.__all__} | compiled)


@contextmanager
def _comparing_options_quickly() -> Iterator[None]:
    """Compare numba's options by what is set of them, inside the block.

    Numba looks up every call that it types by the options it compiles with, and its own comparison asks each of some
    thirty for its value: a tenth of the time of a compilation. What is found equal here is equal there; what is not is
    left to it. A version of numba that keeps options in another way is left alone.
    """
    from numba.core import targetconfig

    kind = targetconfig.TargetConfig
    slowly, hashed = kind.__eq__, kind.__hash__
    hashes: dict[type, int] = {}  # of the names of options alone, so one for each class
    if "_values" not in getattr(kind, "__slots__", ()):
        yield
        return

    def equal(self: Any, other: Any) -> Any:
        if self is other or (type(self) is type(other) and self._values == other._values):
            return True
        return slowly(self, other)

    def hash_of(self: Any) -> int:
        if type(self) not in hashes:
            hashes[type(self)] = hashed(self)
        return hashes[type(self)]

    kind.__eq__, kind.__hash__ = equal, hash_of
    try:
        yield
    finally:
        kind.__eq__, kind.__hash__ = slowly, hashed


@cache
def _dispatcher(function: Callable[..., Any]) -> Any:
    """Numba's dispatcher for a kernel, with machine code kept in numba's cache where that can be written."""
    from numba import njit

    copy, options = _copy(function), _options(function)
    try:
        dispatcher = njit(cache=True, **options)(copy)
    except (OSError, RuntimeError) as error:  # no place for a cache can be written
        _log.warning("%s is compiled anew in every process: %s", function.__name__, error)
        return _telling(njit(**options)(copy))
    # Numba compiles anew when the function's own file has changed; its parts may be in others.
    if (file := getattr(dispatcher._cache, "_cache_file", None)) is not None:
        file._source_stamp = (file._source_stamp, _sources())
    return _telling(dispatcher)


def _telling(dispatcher: Any) -> Any:
    """Have a dispatcher say when its cache does not have what it is asked for, and it begins to compile."""
    load = dispatcher._cache.load_overload

    def load_overload(*asked: Any) -> Any:
        found = load(*asked)
        if found is None and _when_compiling is not None:
            _when_compiling()
        return found

    dispatcher._cache.load_overload = load_overload
    return dispatcher


@cache
def _part_dispatcher(function: Callable[..., Any]) -> Any:
    from numba import njit

    return njit(no_cpython_wrapper=True, pipeline_class=_pipeline(), **_options(function))(_copy(function))


def _options(function: Any) -> dict[str, Any]:
    return _OPTIONS | {"_nrt": function.__globals__.get("ALLOCATES", True)}


@cache
def _pipeline() -> Any:
    """Numba's passes for a part: its code is not translated, and optimised only by itself, not with all it calls."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.untyped_passes import TranslateByteCode

    class Library(JITCodeLibrary):
        """Code to be taken in by others: all there is to finalize is to take in what it calls itself."""

        def finalize(self) -> None:
            for library in dict.fromkeys(self._linking_libraries):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, *_: Any) -> None:
            """No code runs by itself, so none has an environment."""

    @register_pass(mutates_CFG=False, analysis_only=True)
    class ChooseLibrary(FunctionPass):
        _name = "choose_library_of_part"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
            return False

    class Compiler(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.add_pass_after(ChooseLibrary, TranslateByteCode)
            passes.finalize()
            return [passes]

    return Compiler


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
