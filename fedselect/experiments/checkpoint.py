"""Checkpoints: nested dictionaries of arrays and JSON values in one file that appears whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from solvers.files import appearing_whole

__all__ = ["load_checkpoint", "save_checkpoint"]

_ARRAY = "__array__"


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
    with appearing_whole(path) as stream:
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
