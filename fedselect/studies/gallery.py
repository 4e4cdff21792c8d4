"""Provenance of a study's tables, and a gallery of studies' tables and figures in one folder."""

from __future__ import annotations

import json
import os
import platform
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

import fedselect
from solvers.environment import commit, installed, processor

__all__ = ["collect", "provenance", "write_provenance"]

#: Longer tables have a row per run, and stay with the runs.
_ROWS = 200


def collect(folder: Path, label: str, gallery: Path) -> list[Path]:
    """Copy a study's tables and figures into a gallery, and record their provenance.

    Parameters
    ----------
    folder : pathlib.Path
        The study's, with its tables (CSV), figures (PNG) and ``provenance.json``.
    label : str
        Stands before the name of every copy (``fedgs_table2.png``), unless the name is the label.
    gallery : pathlib.Path
        Where they go; made if it is not there. What has these names there is replaced. Tables of more than 200 rows
        stay with the runs.

    Returns
    -------
    list of pathlib.Path
        The copies, sorted, and ``provenance.csv``: a row per label, with command, date, commit, machine, versions and
        seconds.

    Raises
    ------
    FileNotFoundError
        When the study has no ``provenance.json``: it did not come to its end.
    """
    known = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    gallery.mkdir(parents=True, exist_ok=True)
    copies = []
    for file in sorted([*folder.glob("*.csv"), *folder.glob("*.png")]):
        if file.suffix == ".csv" and len(pd.read_csv(file)) > _ROWS:
            continue
        stem = file.stem.replace("-", "_")
        copies.append(gallery / f"{stem if stem == label else f'{label}_{stem}'}{file.suffix}")
        shutil.copyfile(file, copies[-1])

    row = {"study": label, "command": known["command"], "date": known["date"], "commit": known["commit"]}
    row |= {"processor": known["machine"]["processor"], "cores": known["machine"]["cores"]}
    row |= {name: known["versions"].get(name) for name in ("python", "numpy", "torch")} | {"seconds": known["seconds"]}
    table = gallery / "provenance.csv"
    before = pd.read_csv(table, dtype=str) if table.exists() else pd.DataFrame(columns=list(row))
    rows = pd.concat([before[before["study"] != label], pd.DataFrame([row], dtype=str)])
    rows.sort_values("study").to_csv(table, index=False)
    return [*copies, table]


def provenance(command: str, seconds: float) -> dict[str, Any]:
    """Collect what is needed to run a study again.

    Parameters
    ----------
    command : str
        What was typed.
    seconds : float
        How long it took.

    Returns
    -------
    dict
        JSON values. ``commit`` is the one of the checkout the code lies in, with ``-dirty`` where files differ from
        it, and None where it is installed and not a checkout.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "fedselect": fedselect.__version__,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform(terse=True)},
        "python": platform.python_version(),
        "versions": installed(("numpy", "scipy", "numba", "scikit-learn", "torch")),
        "seconds": round(seconds, 1),
    }


def write_provenance(folder: Path, command: str, seconds: float) -> Path:
    """Write it as ``provenance.json`` into ``folder``, and return the file's path.

    Where the same command was stopped and called again on the same commit and machine, the seconds add up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, found = folder / "provenance.json", provenance(command, seconds)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if all(before.get(key) == found[key] for key in ("command", "commit", "machine", "versions")):
            found["seconds"] = round(found["seconds"] + before["seconds"], 1)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path
