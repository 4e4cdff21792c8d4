"""What keeping a certificate costs beside the solve, an instance a row, as a Markdown table.

    python tests/benchmarks/bench_certificates.py [NAME ...] [--repeat 5] [--limit 60]

Processor seconds of ``solve(problem)`` and of ``solve(problem, certificate=True)``, in one process and turn by turn,
after one of each to warm up; the median of the repetitions. *more* is what the certificate adds, in per cent of the
solve; *read* is `check` of what was kept.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import Solution, instances, solve  # noqa: E402
from solvers.certificates import check  # noqa: E402

#: Rounds that the first-order tree proves, from a fiftieth of a second to ten.
ROUNDS = (
    "fedgs-digits-dirichlet-n60-m10-markov-r5",
    "fedgs-clustered-n100-m20-cafed-r10",
    "fedgs-digits-dirichlet-n100-m10-bernoulli-papergraph-r25",
    "fedgs-digits-dirichlet-n200-m20-grouptrace-r12",
    "fedgs-digits-dirichlet-n100-m10-ideal-r5",
    "fedgs-digits-twolabel-n100-m10-ideal-r5",
    "fedgs-digits-dirichlet10-n100-m10-ideal-r5",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(ROUNDS), metavar="NAME", help="instances of the library")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each (5)")
    parser.add_argument("--limit", type=float, help="the time limit of a solve, in seconds")
    options = parser.parse_args()
    print("| instance | n | solve s | with certificate s | more | read s | kB | proof |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.names or ROUNDS:
        print(row(name, options.repeat, options.limit), flush=True)


def row(name: str, repeat: int, limit: float | None) -> str:
    """One instance of the library, as a line of the table."""
    problem = instances.load(name)
    plain: list[float] = []
    kept: list[float] = []
    for _ in range(repeat + 1):
        plain.append(timed(problem, limit, certificate=False)[0])
        seconds, solution = timed(problem, limit, certificate=True)
        kept.append(seconds)
    alone, both = statistics.median(plain[1:]), statistics.median(kept[1:])
    begun = time.process_time()
    told = solution.certificate_report
    if solution.certificate is None:
        return f"| {name} | {problem.n} | {alone:.3f} | {both:.3f} | {100 * (both / alone - 1):.0f} % | | | {told} |"
    check(problem, solution.certificate)
    reading = time.process_time() - begun
    with tempfile.TemporaryDirectory() as folder:
        size = solution.certificate.save(Path(folder) / "proof.npz").stat().st_size
    proof = "the bound" if told["distance"] <= 1e-6 * problem.scale else f"within {told['distance']:.2g}"
    numbers = f"{alone:.3f} | {both:.3f} | {100 * (both / alone - 1):.0f} % | {reading:.3f} | {size / 1000:.0f}"
    return f"| {name} | {problem.n} | {numbers} | {proof} |"


def timed(problem: object, limit: float | None, *, certificate: bool) -> tuple[float, Solution]:
    """Processor seconds of a solve, and its solution."""
    begun = time.process_time()
    solution = solve(problem, time_limit=limit, certificate=certificate)  # type: ignore[arg-type]
    return time.process_time() - begun, solution


if __name__ == "__main__":
    main()
