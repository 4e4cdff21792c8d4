"""Is ``auto`` ever worse than one of its parts? Every method at the same limit, on instances of several kinds.

    python tests/benchmarks/bench_auto_beside_parts.py --seconds 1 5
    python tests/benchmarks/bench_auto_beside_parts.py library mdplib --mdplib FOLDER --seconds 10 --wall
    python tests/benchmarks/bench_auto_beside_parts.py u100-10 sphere5-20 --methods sdp dnn --seconds 5

The limit is in processor seconds (one thread), so that a busy machine does not decide; ``--wall`` for the clock's.
A line an instance and limit: auto's value and gap, then whoever has a better value or bound, and by how much, in units
of auto's value. The last line counts them; the exit code is 1 if there are any. Rows: as for ``bench_hard.py``,
``fedgs`` (both graphs, three weights of the counts), and ``fedgsN-M`` (M of N clients with 26 labels in Dirichlet
shares or two each, everybody there, after 5 and 50 rounds). ``--csv`` writes a row per solve. Slack: 1e-9 of the
value, and for bounds 1e-6 of it besides ``--slack`` (0.1 by default) of auto's own gap, since two runs of one method
differ by as much.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import re
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import Solution, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.kernels import warm_up
from tests.benchmarks.bench_dispersion import rounds as fedgs
from tests.benchmarks.bench_few_of_many import distances_of
from tests.benchmarks.bench_few_of_many import rounds as labelled
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
    elif sizes := re.fullmatch(r"fedgs(\d+)-(\d+)", case):
        clients, size = map(int, sizes.groups())
        for share in ("0.1", "two"):
            for played, problem in labelled(distances_of(share, clients, 0), size, 1.0, [5, 50], 0):
                yield f"{case} {share} after {played}", problem
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
    parser.add_argument("--csv", type=Path, help="file for a row per solve")
    options = parser.parse_args()
    warm_up()  # no kernel is to be compiled within a limit
    if not options.wall:
        time.perf_counter = time.process_time  # type: ignore[assignment]
    worse = runs = 0
    with options.csv.open("w", newline="", encoding="utf-8") if options.csv else nullcontext() as stream:
        table = None if stream is None else csv.writer(stream, lineterminator="\n")
        if table is not None:
            table.writerow(["instance", "limit_s", "method", "value", "bound", "seconds", "better_than_auto"])
        for case in options.cases:
            for name, problem in instances(case, options):
                for seconds in options.seconds:
                    auto = solve(problem, "auto", time_limit=seconds)
                    late = auto.seconds > seconds * 1.1 + 0.2
                    others = [solve(problem, method, time_limit=seconds) for method in options.methods]
                    said = [better(auto, other, options.slack) for other in others]
                    found = [text for texts in said for text in texts]
                    for s, texts in zip([auto, *others], [[], *said], strict=True):
                        if table is not None and stream is not None:
                            row = [name, f"{seconds:g}", s.method, s.objective, s.bound, f"{s.seconds:.2f}"]
                            table.writerow([*row, "; ".join(texts)])
                            stream.flush()
                    runs, worse = runs + 1, worse + bool(found)
                    print(
                        f"{name:44s} {seconds:4g} s  {auto.status:8s} objective {auto.objective:.9g}  gap "
                        f"{auto.gap:.2e}  {auto.seconds:6.2f} s{' LATE' if late else ''}  "
                        f"{'; '.join(found) or 'none better'}",
                        flush=True,
                    )
    print(f"auto was worse than a part in {worse} of {runs} runs")
    raise SystemExit(1 if worse else 0)


if __name__ == "__main__":
    main()
