"""Two runs of a study, at different commits or on different machines: whether they give the same numbers.

    python tests/benchmarks/bench_repeat.py FOLDER AGAIN [FOLDER AGAIN ...] --out FILE

Every finished run that both folders of a pair have is compared in all that it records by round, seconds apart, and by
client. A row for each pair counts; below it stands one for each run that differs, with the first round that does.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SECONDS = ["solve_seconds", "select_seconds", "train_seconds"]


def commits(study: Path, names: list[Path]) -> str:
    """List the commits at which a study's runs were made."""
    versions = (json.loads((study / name / "origin.json").read_text(encoding="utf-8"))["versions"] for name in names)
    return " ".join(sorted({str(each["commit"]) for each in versions}))


def compared(run: Path, again: Path) -> dict[str, Any] | None:
    """Compare two runs of one configuration; None where all is the same."""
    before, after = (pd.read_csv(each / "metrics.csv").drop(columns=SECONDS, errors="ignore") for each in (run, again))
    clients = [pd.read_csv(each / "clients.csv") for each in (run, again)]
    if before.equals(after) and clients[0].equals(clients[1]):
        return None
    if before.shape != after.shape:
        sys.exit(f"{run} and {again} have not the same rounds and columns")
    differ = (before != after) & ~(before.isna() & after.isna())
    rounds = np.flatnonzero(differ.any(axis=1))  # none where clients alone differ
    return {
        "run": f"{run.parent.name}/{run.name}",
        "rounds that differ": rounds.size,
        "first": rounds[0] if rounds.size else None,
        "columns": " ".join(before.columns[differ.any()]),
        "losses apart": np.abs(before["loss"] - after["loss"]).max(),
    }


def main() -> None:
    """Compare the folders of each pair, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="a study's folder, and that of its other run, in turn")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if len(arguments.folders) % 2:
        parser.error(f"folders come in pairs; got {len(arguments.folders)}")
    rows: list[dict[str, Any]] = []
    for study, other in zip(arguments.folders[::2], arguments.folders[1::2], strict=True):
        found = {each.parent.relative_to(study) for each in study.rglob("runs/*/*/summary.json")}
        names = sorted(name for name in found if (other / name / "summary.json").exists())
        if not names:
            parser.error(f"{study} and {other} have no run in common")
        differing = [row for name in names if (row := compared(study / name, other / name)) is not None]
        count = {"runs": len(names), "the same": len(names) - len(differing)}
        made = {"made at": commits(study, names), "again at": commits(other, names)}
        rows += [{"study": other.name} | row for row in (made | count, *differing)]
    table = pd.DataFrame(rows).convert_dtypes()
    table.to_csv(arguments.out, index=False)
    print(table.to_string())


if __name__ == "__main__":
    main()
