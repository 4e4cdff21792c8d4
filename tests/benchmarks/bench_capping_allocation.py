"""Speed of the capping and allocation methods; prints a table.

    python tests/benchmarks/bench_capping_allocation.py [--quick]

Each time is the best of five runs (one run for the backends), from constructing the problem to the finished
`Solution`, bound and certificate included; single thread. The backends are imported before.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

from solvers import Problem, Solution, solve  # noqa: E402
from solvers.allocation import AllocationProblem  # noqa: E402
from solvers.capping import DRAWS, CappingProblem  # noqa: E402


def best(run: Callable[[], Solution], repeats: int) -> tuple[float, Solution]:
    """Shortest of ``repeats`` runs, and the last answer."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        solution = run()
        times.append(time.perf_counter() - start)
    return min(times), solution


def row(name: str, method: str, seconds: float, solution: Solution, reference: float, target: str = "") -> None:
    """Print one line: how long, how good, how much slower than the reference method."""
    gap = "-" if solution.gap is None else f"{solution.gap:.1e}"
    print(
        f"{name:<34} {method:<18} {1e3 * seconds:>11.3f} ms  {solution.status:<9} gap {gap:<8} "
        f"x{seconds / reference:<9.1f} {target}"
    )


def compare(name: str, build: Callable[[], Problem], methods: dict[str, int], target: str) -> None:
    """Time the methods on one instance; the first one is the reference."""
    reference = 0.0
    for method, repeats in methods.items():
        seconds, solution = best(lambda method=method: solve(build(), method), repeats)
        reference = reference or seconds
        row(name, method, seconds, solution, reference, target if seconds == reference else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave the slow backend runs out")
    quick = parser.parse_args().quick
    import cvxpy
    import ortools

    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, ",
        end="",
    )
    print(
        f"cvxpy {cvxpy.__version__}, ortools {ortools.__version__}; x: time relative to the first method of its block"
    )
    rng = np.random.default_rng(0)
    # First calls load what the backends load lazily; that is not what is measured.
    solve(CappingProblem(weights=[3.0, 1.0, 1.0], size=2), "cvxpy")
    solve(AllocationProblem([5, 5], [1, 2], 5), "cvxpy")
    solve(AllocationProblem([5, 5], [1, 2], 5), "cp-sat")

    print("\ncapping: k = K/5, σ = 0.05, log-weights N(0, 3²)")
    for clients in (100, 1000, 10_000, 100_000, 1_000_000):
        logs = rng.normal(0, 3, clients)
        methods = {"exact-search": 5, "bisection": 5, "one-pass": 5}
        if clients <= (1000 if quick else 100_000):
            methods["cvxpy"] = 1
        target = {10_000: "target 5 ms", 1_000_000: "target 1000 ms"}.get(clients, "")
        build = lambda logs=logs: CappingProblem(log_weights=logs, size=logs.size // 5, floor=0.05)  # noqa: E731
        compare(f"K = {clients}", build, methods, target)
    logs = rng.uniform(-1e4, 1e4, 1_000_000)
    wide = lambda: CappingProblem(log_weights=logs, size=200_000, floor=0.05)  # noqa: E731
    compare("K = 1000000, log-weights ±1e4", wide, {"exact-search": 5, "bisection": 1}, "target 1000 ms")

    print("\ndraws from such probabilities")
    for clients in (10_000, 1_000_000):
        p = solve(CappingProblem(log_weights=rng.normal(0, 3, clients), size=clients // 5, floor=0.05)).x
        for name, draw in DRAWS.items():
            start = time.perf_counter()
            draw(p, rng)
            print(f"K = {clients:<30} {name:<18} {1e3 * (time.perf_counter() - start):>11.3f} ms")

    print("\nallocation: sizes U{20..199}, deviations lognormal, S = 10 K")
    for groups in (10, 100, 1000, 100_000):
        sizes, deviations = rng.integers(20, 200, groups), rng.lognormal(0, 1, groups)
        methods = dict.fromkeys(("greedy", "kkt", "proportional", "largest-remainder"), 5)
        if groups <= 100 or (groups <= 1000 and not quick):
            methods["cvxpy"] = 1
        if groups <= 100:
            methods["cp-sat"] = 1
        build = lambda n=sizes, h=deviations: AllocationProblem(n, h, 10 * n.size)  # noqa: E731
        compare(f"K = {groups}, S = {10 * groups}", build, methods, "target 2000 ms" if groups == 100_000 else "")
    equal = lambda: AllocationProblem(np.full(100_000, 50), np.ones(100_000), 1_000_003)  # noqa: E731
    compare("K = 100000, S = 1000003, all equal", equal, {"greedy": 5}, "target 2000 ms")


if __name__ == "__main__":
    main()
