"""Pickles of containers, numbers and texts alone: what FedScale publishes, read without running anything."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, NoReturn

from solvers.reading import Unreadable, read_bytes


def is_pickle(path: str | Path) -> bool:
    """Return whether a file is named as a pickle is: ``.pkl``, ``.pickle``, or, as FedScale's, without an ending."""
    return Path(path).suffix.lower() in ("", ".pkl", ".pickle")


class _Containers(pickle._Unpickler):
    """Python's own unpickler, whose memo is a dictionary: the compiled one takes memory for the place that it names."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise Unreadable(f"it names {module}.{name}, and only containers, numbers and texts are read")

    def persistent_load(self, name: Any) -> NoReturn:
        raise Unreadable("it refers to something outside itself")

    def get_extension(self, code: int) -> NoReturn:
        raise Unreadable("it names a registered class, and only containers, numbers and texts are read")


def read_pickle(path: str | Path) -> Any:
    """Read a pickle that holds containers, numbers and texts alone; raise `Unreadable` for any other."""
    data = read_bytes(path)
    try:
        return _Containers(io.BytesIO(data)).load()
    except Unreadable:
        raise
    except Exception as error:  # a stranger's bytes: whatever they make the unpickler raise
        raise Unreadable(f"it is no pickle, or a damaged one ({type(error).__name__}: {error})") from None


def keyed_by_text(value: Any) -> Any:
    """Return a table of clients with texts as keys, as JSON has them."""
    return {str(key): facts for key, facts in value.items()} if isinstance(value, dict) else value
