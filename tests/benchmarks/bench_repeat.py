"""Old runs of a study once more, with the code as it is: whether they give the same numbers.

    python tests/benchmarks/bench_repeat.py FOLDER [FOLDER ...] [--runs K] [--seed S] --out FILE

Of the finished runs below each folder of a study, K are drawn at random. Each is run again from its own configuration,
into a temporary folder, and compared in all that it records by round, seconds apart, and by client. A row for each run
says at which commit it was made and repeated, and by how much losses are apart at most.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from fedselect.experiments import run_all  # noqa: E402
from fedselect.experiments.config import read_config  # noqa: E402
from solvers.environment import commit  # noqa: E402

SECONDS = ["solve_seconds", "select_seconds", "train_seconds"]


def repeated(folder: Path, scratch: Path) -> dict[str, object]:
    """Run a folder's configuration again, and compare."""
    experiment, _ = read_config(folder / "config.toml")
    (again,) = run_all([experiment], scratch, plots=False)
    before, after = (
        pd.read_csv(each / "metrics.csv").drop(columns=SECONDS, errors="ignore") for each in (folder, again)
    )
    clients = [pd.read_csv(each / "clients.csv") for each in (folder, again)]
    apart = np.abs(before["loss"] - after["loss"]).max() if len(before) == len(after) else np.inf
    return {
        "run": f"{folder.parent.name}/{folder.name}",
        "made at": json.loads((folder / "versions.json").read_text(encoding="utf-8"))["commit"],
        "repeated at": commit(),
        "rounds": len(after),
        "losses apart": apart,
        "same by round": before.equals(after),
        "same by client": clients[0].equals(clients[1]),
    }


def main() -> None:
    """Draw runs, repeat them, and write a row for each as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of studies' runs")
    parser.add_argument("--runs", type=int, default=20, help="how many of each folder")
    parser.add_argument("--seed", type=int, default=0, help="which are drawn")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    rng = np.random.default_rng(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        for study in arguments.folders:
            found = sorted(each.parent for each in study.rglob("runs/*/*/summary.json"))
            for place in sorted(rng.permutation(len(found))[: arguments.runs]):
                rows.append({"study": study.name, "of runs": len(found)} | repeated(found[place], Path(scratch)))
                pd.DataFrame(rows).to_csv(arguments.out, index=False)
                print(rows[-1], flush=True)
    same = sum(bool(row["same by round"] and row["same by client"]) for row in rows)
    print(f"{same} of {len(rows)} runs are the same")


if __name__ == "__main__":
    main()
