"""Points with a capacity, as published rows have them, with and without cardinality; many points with a budget.

    python tests/benchmarks/bench_capacity.py docs/benchmarks/capacity.csv [--limit 10] [--sizes 1000] [--many 100000]

Coordinates are uniform in [0, 100]^d, uses whole numbers below 1 000, the capacity a share of all uses (Spiers, Bui
and Loxton, repository EuclideanMaximisation: no cardinality, mean seconds of .54 to .80 on their machine). With
cardinality, so many clients are chosen that the capacity binds: 1.5 times its share. Without, sizes are swept upwards
after a golden-section search for a good one: any m0 of the m clients of a selection keep the capacity, too, so that the
best of m is worth at most m (m - 1) / (m0 (m0 - 1)) times a bound for m0.
"""

from __future__ import annotations

import argparse
import csv
import math
import time

import numpy as np

from solvers import Solution, solve
from solvers.constraints import Budget
from solvers.dispersion import PointDispersionProblem
from solvers.errors import InvalidProblem

HEADER = ["points", "dimension", "share", "size", "status", "objective", "bound", "gap", "seconds", "processor seconds"]

#: Relative gap at which a size is settled, the default of the solver that the published rows come from.
_SETTLED = 1e-4


def problem(n: int, d: int, share: float, m: int, seed: int = 0) -> PointDispersionProblem:
    """Points, uses and capacity by the published recipe, with m to choose."""
    rng = np.random.default_rng(seed)
    points, use = rng.random((n, d)) * 100, rng.integers(0, 1000, n)
    return PointDispersionProblem(points, size=m, budgets=[Budget(use, share * float(use.sum()), "capacity")])


def any_size(n: int, d: int, share: float, limit: float) -> tuple[int, float, float]:
    """Size and value of the best selection of any size, and a bound on all, in so many seconds."""
    began, each = time.perf_counter(), limit / 20
    found: dict[int, Solution] = {}

    def at(m: int) -> float:
        if m not in found:
            try:
                found[m] = solve(problem(n, d, share, m), "auto", time_limit=each, gap=_SETTLED)
            except InvalidProblem:  # so many do not fit
                return -math.inf
        value = found[m].objective
        return -math.inf if value is None else value

    low, high = 2, n
    while high - low > 2:
        first, second = low + (high - low) * 382 // 1000, high - (high - low) * 382 // 1000
        low, high = (low, second) if at(first) >= at(second) else (first, high)
    size = max(found, key=at)
    best = at(size)
    far = float(problem(n, d, share, 2).diameter)
    m, bound = max(2, math.floor(math.sqrt(best / far))), best
    while m <= n:
        if time.perf_counter() - began > limit or at(m) == -math.inf:
            break
        here = found[m].bound
        assert here is not None
        size, best = (m, at(m)) if at(m) > best else (size, best)
        bound = max(bound, here)
        enough = max(best * (1 + _SETTLED), here)
        m = max(m + 1, math.floor((1 + math.sqrt(1 + 4 * enough * m * (m - 1) / here)) / 2) + 1)
    else:
        return size, best, bound
    if at(m) > -math.inf:  # the time is over: what is larger is bounded by the last size alone
        bound = max(bound, bound * n * (n - 1) / (m * (m - 1)))
    return size, best, bound


def main() -> None:
    """Write a row for each instance, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="CSV file to write")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for an instance")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000], help="numbers of points")
    parser.add_argument("--dimensions", type=int, nargs="*", default=[2, 10, 20])
    parser.add_argument("--sweep", action="store_true", help="without cardinality, too")
    parser.add_argument("--many", type=int, default=0, help="a row of so many points, of which 50 are chosen, 30 s")
    options = parser.parse_args()
    solve(problem(1000, 2, 0.2, 300), "auto", time_limit=5)  # nothing is compiled within a row
    rows = []

    def note(n: int, d: int, share: float, size: str, found: Solution) -> None:
        gap = math.inf if found.gap is None else found.gap
        rows.append([n, d, share, size, found.status, found.objective, found.bound, gap, round(found.seconds, 2)])

    for n in options.sizes:
        for d in options.dimensions:
            for share in (0.2, 0.3):
                m, began = round(1.5 * share * n), time.process_time()
                note(
                    n, d, share, str(m), solve(problem(n, d, share, m), "auto", time_limit=options.limit, gap=_SETTLED)
                )
                rows[-1].append(round(time.process_time() - began, 2))
                print(*rows[-1], flush=True)
                if options.sweep:
                    began, clock = time.process_time(), time.perf_counter()
                    size, best, bound = any_size(n, d, share, options.limit)
                    gap, seconds = bound / best - 1, time.perf_counter() - clock
                    proved = "settled" if gap <= _SETTLED else "feasible"
                    rows.append([n, d, share, f"any: {size}", proved, best, bound, gap, round(seconds, 2)])
                    rows[-1].append(round(time.process_time() - began, 2))
                    print(*rows[-1], flush=True)
    if options.many:
        began, n = time.process_time(), options.many
        made = problem(n, 2, 0.4 * 50 / n, 50)
        note(n, 2, round(0.4 * 50 / n, 6), "50", solve(made, "auto", time_limit=30))
        rows[-1].append(round(time.process_time() - began, 2))
        print(*rows[-1], flush=True)
    with open(options.path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
