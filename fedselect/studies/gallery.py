"""A gallery of reproductions: studies' tables and figures in one folder, and where each is from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd

__all__ = ["collect"]

#: Longer tables have a row a run, and stay with the runs.
_ROWS = 200


def collect(folder: Path, label: str, gallery: Path) -> list[Path]:
    """Copy a study's tables and figures into a gallery, and write down where they are from.

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
        The copies, sorted, and ``provenance.csv``: a row a label, with command, date, commit, machine, versions and
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
