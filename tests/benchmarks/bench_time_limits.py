"""How late is a method after its time limit? Every method of every problem type on an instance that keeps it busy.

    python tests/benchmarks/bench_time_limits.py --seconds 0.2 1
    python tests/benchmarks/bench_time_limits.py auto branch-and-bound --seconds 5

One line per method and limit: the seconds it took, and how much of that is beyond the limit. Promised are 10 % of the
limit or 0.2 seconds, whichever is more; the exit code is 1 where a method takes longer. Run it on an idle machine.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import methods, solve
from tests.solvers.test_every_method import BUSY, accepted, busy


def main() -> int:
    """Print the table; return the number of methods that were too late, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="names of methods; all of them by default")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.2, 1.0])
    options = parser.parse_args()
    late = 0
    for kind in BUSY:
        for entry in methods(kind):
            if entry.missing or (options.methods and entry.name not in options.methods):
                continue
            solve(accepted(kind, entry), entry.name)  # loads and compiles
            for limit in options.seconds:
                seconds = solve(busy(kind, entry), entry.name, time_limit=limit).seconds
                beyond = max(0.0, seconds - limit)
                mark = "LATE" if beyond > max(0.2, 0.1 * limit) else ""
                late += bool(mark)
                print(f"{kind.__name__:26} {entry.name:18} {limit:6.2f} s {seconds:8.3f} s {beyond:8.3f} s {mark}")
    print(f"{late} too late")
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
