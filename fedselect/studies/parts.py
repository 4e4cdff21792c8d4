"""What a study writes beside its runs: parts that are computed once, and its tables."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.errors import ConfigError, RunError
from fedselect.experiments.checkpoint import load_checkpoint, save_checkpoint
from fedselect.experiments.code import code_digest, is_own, place
from fedselect.experiments.contents import contents
from fedselect.experiments.origin import Origin, origin_here, read_origin
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
        What ``compute`` is called with. They, its code and the versions are written down beside the file, whose name
        should tell what differs between the parts of a study apart.

    Returns
    -------
    DataFrame or dict
        What the file says, also when it was just written: a study gives the same numbers whether it was stopped or not.

    Raises
    ------
    ConfigError
        When the name ends in neither.
    RunError
        When the file was made of something else: other arguments, code or versions, which are named.
    """
    if path.suffix not in (".csv", ".npz"):
        raise ConfigError(f"a part of a study is kept as .csv or .npz; got {path.name!r}")
    origin, beside = _origin(compute, arguments), path.with_name(f"{path.name}.origin.json")
    if path.exists():
        before = read_origin(beside)
        changed = "it does not say of what" if before is None else origin.since(before, finished=True)
        if changed:
            raise RunError(f"{path} may be made of something else: {changed}; choose another --out, or remove it")
    else:
        found = compute(*arguments)
        path.parent.mkdir(parents=True, exist_ok=True)
        origin.write(beside)
        if path.suffix == ".csv":
            write_atomically(path, found.to_csv(index=False).encode())
        else:
            save_checkpoint(path, found)
    return pd.read_csv(path) if path.suffix == ".csv" else load_checkpoint(path)


def _origin(compute: Callable[..., Any], arguments: tuple[Any, ...]) -> Origin:
    """What a part of a study is made of."""
    import joblib

    if is_own(compute):
        code = {f"{compute.__name__} ({place(compute)})": code_digest(compute)}
    else:  # a study of the toolkit's is no part of what decides a run
        file = Path(str(sys.modules[compute.__module__].__file__))
        code = {f"{compute.__name__} ({file.name})": contents(file)}
    given = inspect.signature(compute).bind(*arguments).arguments
    return origin_here(code, {f"its argument {name!r}": joblib.hash(value) for name, value in given.items()})


def write_tables(out: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write each table as ``<name>.csv`` below ``out``, which is made where it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
