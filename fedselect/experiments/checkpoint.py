"""Checkpoints: nested dictionaries of arrays and JSON values in one file that appears whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

__all__ = ["load_checkpoint", "save_checkpoint", "write_atomically"]

_ARRAY = "__array__"


@contextmanager
def _appearing_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its place only when everything is on the disk."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never a part."""
    with _appearing_whole(path) as stream:
        stream.write(data)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a nested dictionary of arrays and JSON values."""
    arrays: dict[str, Any] = {}

    def strip(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"array{len(arrays)}"] = value
            return {_ARRAY: f"array{len(arrays) - 1}"}
        if isinstance(value, dict):
            return {str(key): strip(item) for key, item in value.items()}
        return value

    tree = json.dumps(strip(state))
    with _appearing_whole(path) as stream:
        np.savez(stream, tree=np.array(tree), **arrays)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "tree"}
        tree = json.loads(str(archive["tree"]))

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return arrays[value[_ARRAY]] if _ARRAY in value else {key: fill(item) for key, item in value.items()}
        return value

    return fill(tree)
