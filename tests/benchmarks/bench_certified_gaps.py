"""The certified gap of every MDPLIB file of a folder, at each limit, beside the best known value: a CSV.

    python tests/benchmarks/bench_certified_gaps.py FOLDER --seconds 10 60 --threads 2 --out gaps.csv

A row for each (file, m) of the folder's ``best_known.csv`` and each limit; what was proved is not solved again for a
longer limit. ``wall_s`` and ``cpu_s`` stand side by side, so that a busy machine shows.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import solve
from solvers.dispersion import read_mdplib
from solvers.dispersion.kernels import preload

COLUMNS = ("instance", "n", "m", "limit_s", "value", "best_known", "bound", "gap_percent", "status", "wall_s", "cpu_s")


def main() -> None:
    """Solve what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 60.0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--contains", default="", help="part of the names of the files")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    preload()
    with (options.folder / "best_known.csv").open() as stream:
        table = sorted({(r["name"], int(r["m"]), float(r["best_known"])) for r in csv.DictReader(stream)})
    with options.out.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, m, best in table:
            path = options.folder / f"{name}.txt"
            if not path.exists() or options.contains not in name:
                continue
            problem = read_mdplib(path, m)
            for seconds in sorted(options.seconds):
                began = time.process_time()
                s = solve(problem, "auto", time_limit=seconds, threads=options.threads)
                cpu = time.process_time() - began
                row = [name.split("_n")[0], problem.n, m, f"{seconds:g}", f"{s.objective:.3f}", f"{best:.3f}"]
                row += [f"{s.bound:.3f}", f"{100 * s.gap:.4f}", s.status, f"{s.seconds:.1f}", f"{cpu:.1f}"]
                writer.writerow(row)
                stream.flush()
                print(*row, flush=True)
                if s.status == "optimal":
                    break


if __name__ == "__main__":
    main()
