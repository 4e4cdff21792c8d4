"""Checkpoints: nested dictionaries of arrays and JSON values in one file that appears whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedselect.errors import RunError
from solvers.files import appearing_whole
from solvers.reading import Unreadable, parse_json, read_arrays

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
    """Read what `save_checkpoint` wrote; raises `RunError` for anything else."""
    try:
        arrays = read_arrays(path)
        tree = parse_json(str(arrays.pop("tree", "")))
        if not isinstance(tree, dict):
            raise Unreadable("it holds no table")
        return _filled(tree, arrays)
    except (OSError, Unreadable, LookupError, TypeError) as error:
        raise RunError(f"cannot read {path}, which is damaged or no checkpoint; remove the folder") from error


def _filled(value: Any, arrays: dict[str, Any]) -> Any:
    """The tree with its arrays put back."""
    if not isinstance(value, dict):
        return value
    return arrays[value[_ARRAY]] if _ARRAY in value else {key: _filled(item, arrays) for key, item in value.items()}
