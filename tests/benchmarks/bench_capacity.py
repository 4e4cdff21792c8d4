"""Points with a capacity, as published rows have them, with and without cardinality; many points with a budget.

    python tests/benchmarks/bench_capacity.py docs/benchmarks/capacity.csv [--limit 10] [--sizes 1000] [--many 100000]

Coordinates are uniform in [0, 100]^d, uses whole numbers below 1 000, the capacity a share of all uses (Spiers, Bui
and Loxton, repository EuclideanMaximisation: no cardinality, mean seconds of .54 to .80 on their machine). With
cardinality, so many clients are chosen that the capacity binds: 1.5 times its share. Without, the tangent at one size
bounds all others, scaled to its slice, so that the next size is where the least of these bounds is largest, until none
exceeds the best selection found by more than 1e-4.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from solvers import solve
from solvers.constraints import Budget
from solvers.dispersion import PointDispersionProblem
from solvers.dispersion.geometry import StoredPointGeometry
from solvers.dispersion.methods.constrained_points import search_in_constraints, solve_by_prices
from solvers.run import Run

HEADER = ["points", "dimension", "share", "size", "status", "objective", "bound", "gap", "seconds", "processor seconds"]

#: Relative gap at which a size is settled, the default of the solver that the published rows come from.
_SETTLED = 1e-4


def problem(n: int, d: int, share: float, m: int, seed: int = 0) -> PointDispersionProblem:
    """Points, uses and capacity by the published recipe, with m to choose."""
    rng = np.random.default_rng(seed)
    points, use = rng.random((n, d)) * 100, rng.integers(0, 1000, n)
    return PointDispersionProblem(points, size=m, budgets=[Budget(use, share * float(use.sum()), "capacity")])


def any_size(n: int, d: int, share: float, limit: float) -> tuple[int, float, float]:
    """Size and value of the best selection found of any size, and a bound on those of all sizes."""
    drawn = problem(n, d, share, 2)
    use, capacity = drawn.budgets[0].use, drawn.budgets[0].limit
    largest = int((np.cumsum(np.sort(use)) <= capacity).sum())
    geometry = StoredPointGeometry(drawn.geometry.coordinates)
    began, sizes = time.perf_counter(), np.arange(2, largest + 1)
    envelope, start, m = np.full(sizes.size, np.inf), -use, round(0.9 * largest)
    size, best = 0, 0.0
    known: set[int] = set()
    while (left := limit - (time.perf_counter() - began)) > 0:
        if m in known:  # its own gap is what is left
            found = solve(problem(n, d, share, m), "auto", time_limit=left, gap=_SETTLED / 2)
            assert found.objective is not None
            assert found.bound is not None
            size, best = max((size, best), (m, found.objective), key=lambda each: each[1])
            envelope[m - 2] = min(envelope[m - 2], found.bound)
            break
        known.add(m)
        here = problem(n, d, share, m)
        here.__dict__["geometry"] = geometry  # computed once for all sizes
        run = Run(here, "branch-and-bound", None, 0, gap=_SETTLED / 2)
        run.offer(here.feasible.round(start))
        relaxation = solve_by_prices(here, run)
        search_in_constraints(here, run, 5)
        assert run.objective is not None
        size, best = max((size, best), (m, run.objective), key=lambda found: found[1])
        # f(x) <= (k / m) g'x - (k / m)^2 f(y) for x of size k, by the tangent of the scaled point on this slice.
        value, price = relaxation.value(), float(here.feasible.prices(relaxation.g)[0])
        start = relaxation.g - price * use
        for each in price * np.linspace(0.8, 1.2, 41):
            most = np.cumsum(-np.sort(-(relaxation.g - each * use)))[sizes - 1] + each * capacity
            envelope = np.minimum(envelope, (sizes / m) * most * (1 + 1e-12) - (sizes / m) ** 2 * value * (1 - 1e-12))
        if envelope.max() <= best * (1 + _SETTLED):
            break
        m = int(sizes[envelope.argmax()])
    return size, best, max(best, float(envelope.max()))


def of_size(n: int, d: int, share: float, m: int, limit: float, **options: float) -> list[Any]:
    """Solve an instance with a cardinality; return a row but for its seconds."""
    found = solve(problem(n, d, share, m), "auto", time_limit=limit, **options)
    gap = math.inf if found.gap is None else found.gap
    return [n, d, round(share, 6), m, found.status, found.objective, found.bound, gap]


def of_any_size(n: int, d: int, share: float, limit: float) -> list[Any]:
    """Settle an instance without cardinality; return a row but for its seconds."""
    size, best, bound = any_size(n, d, share, limit)
    status = "settled" if bound / best - 1 <= _SETTLED else "feasible"
    return [n, d, share, f"any: {size}", status, best, bound, bound / best - 1]


def main() -> None:
    """Write a row for each instance, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="CSV file to write")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for an instance")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000], help="numbers of points")
    parser.add_argument("--dimensions", type=int, nargs="*", default=[2, 10, 20])
    parser.add_argument("--sweep", action="store_true", help="without cardinality, too")
    parser.add_argument("--many", type=int, default=0, help="a row of so many points, of which 50 are chosen, 30 s")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each row, of which the quickest counts")
    options = parser.parse_args()
    solve(problem(1000, 2, 0.2, 300), "auto", time_limit=5)  # nothing is compiled within a row
    rows = []

    def note(run: Callable[[], list[Any]], repeat: int = options.repeat) -> None:
        """Add the row that is made by a run, with the seconds of the quickest of several by processor time."""
        times = []
        for _ in range(repeat):
            clock, began = time.perf_counter(), time.process_time()
            row = run()
            times.append((time.process_time() - began, time.perf_counter() - clock))
        rows.append([*row, *(round(each, 2) for each in min(times)[::-1])])
        print(*rows[-1], flush=True)

    for n, d, share in itertools.product(options.sizes, options.dimensions, (0.2, 0.3)):
        note(lambda n=n, d=d, share=share: of_size(n, d, share, round(1.5 * share * n), options.limit, gap=_SETTLED))
        if options.sweep:
            note(lambda n=n, d=d, share=share: of_any_size(n, d, share, options.limit))
    if options.many:
        note(lambda: of_size(options.many, 2, 0.4 * 50 / options.many, 50, 30.0), 1)
    with open(options.path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
