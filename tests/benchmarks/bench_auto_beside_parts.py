"""Is ``auto`` ever worse than one of its parts? Every method at the same limit, on instances of several kinds.

    python tests/benchmarks/bench_auto_beside_parts.py --seconds 1 5
    python tests/benchmarks/bench_auto_beside_parts.py library mdplib --mdplib FOLDER --seconds 10 --wall
    python tests/benchmarks/bench_auto_beside_parts.py u100-10 sphere5-20 --methods sdp dnn --seconds 5

The limit is in processor seconds (one thread), so that a busy machine does not decide; ``--wall`` for the clock's.
A line an instance and limit: auto's value and gap, then whoever has a better value or bound, and by how much, in units
of auto's value. The last line counts them; the exit code is 1 if there are any. Rows: as for ``bench_hard.py``, and
``fedgs`` (both graphs, three weights of the counts). Slack: 1e-9 of the value, and for bounds 1e-6 of it besides
``--slack`` (0.1 by default) of auto's own gap, since two runs of one method differ by as much.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import Solution, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.kernels import warm_up
from tests.benchmarks.bench_dispersion import rounds as fedgs
from tests.benchmarks.bench_hard import rows

#: What the portfolio is made of, and what else comes with the package.
PARTS = ("greedy", "local-search", "tabu", "memetic", "annealing", "sdp", "dnn", "branch-and-bound")

#: Instances of every kind that an empty command line stands for.
CASES = ("fedgs", "u60-6", "u60-20", "u100-10", "u100-30", "u200-20", "u300-60", "i80-16", "i200-40", "sphere2-10")
CASES += ("sphere5-20", "cube150-15", "cube300-30", "library")


def instances(case: str, options: argparse.Namespace) -> Iterator[tuple[str, DispersionProblem]]:
    """The instances of one case."""
    if case == "fedgs":
        for kind in ("two-label", "dirichlet"):
            for alpha in (0.5, 1.0, 5.0):
                *_, problem = fedgs(kind, alpha, 4, None, 0)
                yield f"fedgs {kind} alpha {alpha:g}", problem
    else:
        for name, problem, _ in rows(case, options):
            yield name, problem


def better(auto: Solution, other: Solution, slack: float) -> list[str]:
    """What ``other`` does better than ``auto``, in words."""
    if auto.objective is None or auto.bound is None:
        return ["auto has no answer"]
    unit = max(abs(auto.objective), 1e-300)
    found = []
    if other.objective is not None and other.objective > auto.objective + 1e-9 * unit:
        found.append(f"value +{(other.objective - auto.objective) / unit:.1e}")
    allowed = 1e-6 * unit + slack * (auto.bound - auto.objective)
    if other.bound is not None and other.bound < auto.bound - allowed:
        found.append(f"bound {(other.bound - auto.bound) / unit:.1e}")
    return [f"{other.method} {text}" for text in found]


def main() -> None:
    """Run the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0])
    parser.add_argument("--methods", nargs="*", default=list(PARTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--dimension", type=int, default=20, help="of a cube's points")
    parser.add_argument("--mdplib", default=os.environ.get("MDPLIB"))
    parser.add_argument("--contains", default="", help="part of the names of the MDPLIB files")
    parser.add_argument("--slack", type=float, default=0.1, help="of auto's gap, that a better bound must exceed")
    parser.add_argument("--wall", action="store_true", help="limits on the clock instead of processor seconds")
    options = parser.parse_args()
    warm_up()  # no kernel is to be compiled within a limit
    if not options.wall:
        time.perf_counter = time.process_time  # type: ignore[assignment]
    worse = runs = 0
    for case in options.cases:
        for name, problem in instances(case, options):
            for seconds in options.seconds:
                auto = solve(problem, "auto", time_limit=seconds)
                found, late = [], auto.seconds > seconds * 1.1 + 0.2
                for method in options.methods:
                    found += better(auto, solve(problem, method, time_limit=seconds), options.slack)
                runs, worse = runs + 1, worse + bool(found)
                print(
                    f"{name:44s} {seconds:4g} s  {auto.status:8s} objective {auto.objective:.9g}  gap {auto.gap:.2e}  "
                    f"{auto.seconds:6.2f} s{' LATE' if late else ''}  {'; '.join(found) or 'none better'}",
                    flush=True,
                )
    print(f"auto was worse than a part in {worse} of {runs} runs")
    raise SystemExit(1 if worse else 0)


if __name__ == "__main__":
    main()
