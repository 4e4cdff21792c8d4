"""Rounds of FedGS with a proof each, played one after the other: seconds and gaps, as a CSV.

    python tests/benchmarks/bench_hundred_rounds.py FILE.csv [--clients 1000] [--share 0.3] [--rounds 100] [--processor]

A tenth of the clients are chosen, all are available, counts start at 0 and grow by the selections of `auto`. A
`Memory` carries the last selections from round to round.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

from solvers import solve  # noqa: E402
from solvers.benchmark.rounds import SHARES, Round  # noqa: E402
from solvers.dispersion import DispersionProblem  # noqa: E402
from solvers.dispersion.memory import Memory  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a row a round")
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--share", choices=SHARES, default="0.3")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a round, at most")
    parser.add_argument("--processor", action="store_true", help="processor seconds: on a busy machine")
    options = parser.parse_args()
    if options.processor:
        time.perf_counter = time.process_time
    n = options.clients
    distances = Round(n, options.share, "drawn")().distances  # type: ignore[attr-defined]
    solve(Round(300, "0.3", "played")(), "auto", time_limit=2.0)  # compiles
    counts, memory, seconds, proved = np.zeros(n, dtype=np.int64), Memory(), [], 0
    with options.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["round", "status", "objective", "gap", "seconds", "clients fixed", "fewest", "most"])
        for played in range(options.rounds):
            problem = DispersionProblem.fedgs(distances, counts, np.ones(n, dtype=bool), n // 10, 1.0)
            found = solve(problem, "auto", time_limit=options.limit, memory=memory)
            assert found.selected is not None
            numbers = (f"{found.objective:.12g}", f"{found.gap:.3g}", f"{found.seconds:.2f}")
            few, many = int(counts.min()), int(counts.max())
            writer.writerow([played, found.status, *numbers, found.details.get("fixed", ""), few, many])
            file.flush()
            seconds.append(found.seconds)
            proved += found.status == "optimal"
            counts[found.selected] += 1
    print(f"{proved} of {options.rounds} proved, {np.median(seconds):.1f} s in the median, {max(seconds):.1f} at most")


if __name__ == "__main__":
    main()
