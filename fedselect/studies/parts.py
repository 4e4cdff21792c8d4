"""What a study writes beside its runs: parts that are computed once, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.errors import ConfigError
from fedselect.experiments.checkpoint import load_checkpoint, save_checkpoint
from solvers.files import write_atomically

__all__ = ["kept", "write_tables"]


def kept(path: Path, compute: Callable[..., Any], *arguments: Any) -> Any:
    """Keep a part of a study that is no run in a file, so that it is computed once.

    Parameters
    ----------
    path : pathlib.Path
        The file; its folder is made. ``.csv`` holds a table, ``.npz`` a nested dictionary of arrays and JSON values.
    compute : callable
        Makes what belongs into the file, where there is none.
    *arguments
        What ``compute`` is called with; the file's name has to tell them apart.

    Returns
    -------
    DataFrame or dict
        What the file says, also when it was just written: a study gives the same numbers whether it was stopped or not.

    Raises
    ------
    ConfigError
        When the name ends in neither.
    """
    if path.suffix not in (".csv", ".npz"):
        raise ConfigError(f"a part of a study is kept as .csv or .npz; got {path.name!r}")
    if not path.exists():
        found = compute(*arguments)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            write_atomically(path, found.to_csv(index=False).encode())
        else:
            save_checkpoint(path, found)
    return pd.read_csv(path) if path.suffix == ".csv" else load_checkpoint(path)


def write_tables(out: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write each table as ``<name>.csv`` below ``out``, which is made where it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
