"""What code that is not the toolkit's own says, in a few digits.

A part of one's own (a selector, a model, a data set) is known by the text of its module, and by that of the modules of
one's own that it uses. In a script that is run, a notebook or at a prompt, where the same text holds the experiment and
what is done with its results, it is known by what it compiles to, with every function, class and value that it names:
a picture drawn at the end of a script is no reason to train again.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fedselect.experiments.contents import contents

__all__ = ["code_digest", "is_own", "place"]

_TOOLKIT = ("fedselect", "solvers", "graphs")

#: Attributes of a class that its text does not decide, or that are looked at elsewhere.
_ASIDE = {"__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"}


def is_own(builder: Any) -> bool:
    """Whether a function or class is somebody's own, not the toolkit's."""
    return _module_name(builder).partition(".")[0] not in _TOOLKIT


def place(builder: Any) -> str:
    """Where somebody's own part stands, for a sentence: the name of its file, or what it is itself called."""
    file = getattr(sys.modules.get(_module_name(builder)), "__file__", None)
    return Path(file).name if file else f"{getattr(builder, '__qualname__', builder)}, defined at a prompt"


def code_digest(builder: Any) -> str:
    """Sixteen hex digits of a function's or class's code, and of all code of one's own that it uses."""
    told = hashlib.sha256()
    for part in sorted(set(_parts(builder, set()))):
        told.update(part.encode() + b"\n")
    return told.hexdigest()[:16]


def _parts(thing: Any, seen: set[Any]) -> Iterator[str]:
    """Texts that say what ``thing`` does; nothing for what was seen or is somebody else's."""
    if isinstance(thing, (bool, int, float, complex, str, bytes, type(None))):
        yield repr(thing)
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, (tuple, list)):
        yield from _joined(thing, seen)
    elif isinstance(thing, dict):
        yield from _joined([part for item in thing.items() for part in item], seen)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype}{thing.shape}{hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
    elif isinstance(thing, ModuleType):
        yield from _module(thing, seen)
    elif isinstance(thing, partial):
        yield from _joined([thing.func, thing.args, thing.keywords], seen)
    elif isinstance(thing, MethodType):
        yield from _parts(thing.__func__, seen)
    elif isinstance(thing, (FunctionType, type)) and is_own(thing):
        yield from _definition(thing, seen)


def _definition(thing: FunctionType | type, seen: set[Any]) -> Iterator[str]:
    """A function or class: by its module's text, and what it has closed over, or by what it compiles to."""
    module = sys.modules.get(_module_name(thing))
    if _elsewhere(module):
        return
    written = _source(module) is not None
    if written and module is not None:
        yield thing.__qualname__
        yield from _module(module, seen)
    if isinstance(thing, type):
        yield from _class(thing, seen)
    else:
        yield from _closure(thing, seen) if written else _function(thing, seen)


def _joined(things: Any, seen: set[Any]) -> Iterator[str]:
    """The parts of a collection's members, and one that keeps the plain ones in their order."""
    found = [list(_parts(each, seen)) for each in things]
    yield f"[{', '.join(each[0] if len(each) == 1 else '...' for each in found)}]"
    for each in found:
        yield from each


def _module(module: ModuleType, seen: set[Any]) -> Iterator[str]:
    """A module of one's own as a file, and those that it uses."""
    source = _source(module)
    if source is None or module.__name__ in seen:
        return
    seen.add(module.__name__)
    yield f"{source.name} {contents(source)}"
    for value in list(vars(module).values()):
        used = value if isinstance(value, ModuleType) else sys.modules.get(_module_name(value))
        if used is not None and used is not module:
            yield from _module(used, seen)


def _function(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    named: set[str] = set()
    yield f"{function.__qualname__} {_compiled(function.__code__, named)}"
    yield from _closure(function, seen)
    for name in sorted(named & function.__globals__.keys()):
        yield from (f"{name} = {part}" for part in _parts(function.__globals__[name], seen))


def _closure(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    yield from _joined([function.__defaults__, function.__kwdefaults__], seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue
        if not isinstance(value, (list, dict, set)):  # these are state rather than settings
            yield from (f"{name} = {part}" for part in _parts(value, seen))


def _class(kind: type, seen: set[Any]) -> Iterator[str]:
    for base in kind.__bases__:
        yield from _parts(base, seen)
    for name, value in vars(kind).items():
        if name not in _ASIDE:
            inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            yield from (f"{kind.__qualname__}.{name} = {part}" for part in _parts(inner, seen))


def _compiled(code: CodeType, named: set[str]) -> str:
    """What a function compiles to, without lines and file names; the names it looks up go to ``named``."""
    named.update(code.co_names)
    constants = [
        _compiled(each, named)
        if isinstance(each, CodeType)
        else repr(sorted(each, key=repr) if isinstance(each, frozenset) else each)  # whose own order is of this process
        for each in code.co_consts
    ]
    text = f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"
    return hashlib.sha256(text.encode()).hexdigest()


def _module_name(thing: Any) -> str:
    name = getattr(thing, "__module__", None)
    return name if isinstance(name, str) else ""


def _source(module: ModuleType | None) -> Path | None:
    """The file of a module of one's own that was imported; None for a script, a notebook and everybody else's."""
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    if file is None or name in ("__main__", "__mp_main__") or name.partition(".")[0] in _TOOLKIT or _elsewhere(module):
        return None
    return Path(file)


def _elsewhere(module: ModuleType | None) -> bool:
    """Whether a module is Python's or an installed package's, which versions speak for."""
    if module is None or module.__name__ in ("__main__", "__mp_main__"):
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    paths = sysconfig.get_paths()
    homes = [Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(Path(file).resolve().is_relative_to(home) for home in homes)
