"""Parts of one's own on their way to a worker: another process here, or another machine under Ray or Dask."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pickle
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fedselect.errors import ConfigError
from fedselect.loading import load_parts, loaded_parts, own_parts, register
from solvers.registry import Method

__all__ = ["pack", "unpack"]

#: Digests of what this process has unpacked.
_unpacked: set[str] = set()


def pack(needed: Collection[tuple[str, str]]) -> bytes:
    """What a worker needs to know the parts that are registered here; nothing where there are none of one's own.

    Scripts that were loaded go as their text, modules that can be imported by name, and what was registered on the way
    (in a script that is run, a notebook, a test) by value.

    Parameters
    ----------
    needed : collection of (str, str)
        Kind and name of the parts that must arrive; of the others those that can be sent go along, as parts may use
        each other.

    Raises
    ------
    ConfigError
        When one of these cannot be sent.
    """
    own = own_parts()
    if not own:
        return b""
    scripts = [(each.source, each.text) for each in loaded_parts()]
    there = {part for each in loaded_parts() for part in each.parts}
    modules, values = [], []
    for key, builder in own.items():
        if key in there:
            continue
        home = getattr(builder.function if isinstance(builder, Method) else builder, "__module__", "")
        if _importable(home):
            modules.append(home)
            continue
        try:
            values.append((*key, _by_value(builder, home)))
        except Exception as error:
            if key in needed:
                raise ConfigError(f"{key[0]} {key[1]!r} (of {home}) cannot be sent to a worker: {error}") from error
    return pickle.dumps((scripts, sorted(set(modules)), values))


def unpack(packed: bytes) -> None:
    """Register in this process what `pack` packed in another; again is no matter."""
    digest = hashlib.sha256(packed).hexdigest()
    if not packed or digest in _unpacked:
        return
    scripts, modules, values = pickle.loads(packed)
    own = own_parts()
    for source, text in scripts:
        load_parts([_placed(source, text)])
    for module in modules:
        importlib.import_module(module)
    for kind, name, value in values:
        if (kind, name) not in own:
            register(kind, name, pickle.loads(value))
    _unpacked.add(digest)


def _placed(source: str, text: bytes) -> str:
    """Where this machine has the script: its own place, or, where that holds something else, a temporary one."""
    path = Path(source)
    if not source.endswith(".py"):
        return source
    try:
        if path.read_bytes() == text:
            return source
    except OSError:
        pass
    folder = Path(tempfile.gettempdir()) / f"fedselect-{hashlib.sha256(text).hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(text)
    return str(folder / path.name)


def _importable(module: str) -> bool:
    """Whether another process finds a module by its name."""
    if not module or module in ("__main__", "__mp_main__"):
        return False
    try:
        specification = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    known = getattr(sys.modules.get(module), "__file__", None)
    return specification is not None and (known is None or specification.origin == known)


def _by_value(builder: Any, home: str) -> bytes:
    import cloudpickle  # type: ignore[import-untyped]

    module = sys.modules.get(home)
    by_value = module is not None and home not in ("__main__", "__mp_main__")
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(builder)
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
