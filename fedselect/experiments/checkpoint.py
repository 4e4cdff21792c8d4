"""Checkpoints: nested dictionaries of arrays and JSON values in one file that appears whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["load_checkpoint", "save_checkpoint", "write_atomically"]

_ARRAY = "__array__"


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a nested dictionary of arrays and JSON values."""
    import io

    arrays: dict[str, Any] = {}

    def strip(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"array{len(arrays)}"] = value
            return {_ARRAY: f"array{len(arrays) - 1}"}
        if isinstance(value, dict):
            return {str(key): strip(item) for key, item in value.items()}
        return value

    tree = json.dumps(strip(state))
    buffer = io.BytesIO()
    np.savez(buffer, tree=np.array(tree), **arrays)
    write_atomically(path, buffer.getvalue())


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
