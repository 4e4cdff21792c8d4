"""Speed and proofs of the deadline, coverage, schedule and balance methods; prints a table.

    python tests/benchmarks/bench_selection_families.py [deadline] [coverage] [schedule] [balance] [--limit SECONDS]
    python tests/benchmarks/bench_selection_families.py hard --limit 200 --out docs/benchmarks/deadline_values.csv
    python tests/benchmarks/bench_selection_families.py hard --peers --limit 60 --out docs/benchmarks/deadline_peers.csv
    python tests/benchmarks/bench_selection_families.py coverage --limit 100 --out docs/benchmarks/coverage_thousand.csv
    python tests/benchmarks/bench_selection_families.py recorded --limit 2 --out docs/benchmarks/families_recorded.csv
    python tests/benchmarks/bench_selection_families.py diverse --limit 30 --out docs/benchmarks/schedule_diverse.csv

Each row is one solve from a problem that is stated already to the finished `Solution`: seconds by the wall and by the
processor, the status, the gap, and what the row is held against. Kernels and backends are loaded before.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

from solvers import Problem, Solution, instances, solve  # noqa: E402
from solvers.balance import BalanceProblem  # noqa: E402
from solvers.coverage import CoverageProblem  # noqa: E402
from solvers.deadline import DeadlineProblem  # noqa: E402
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem  # noqa: E402

#: What `row` measured, for a CSV file.
MEASURED: list[tuple[str, ...]] = [("instance", "method", "seconds", "status", "gap %", "nodes")]


def row(name: str, problem: Problem, method: str = "auto", target: str = "", limit: float | None = None) -> Solution:
    """Solve once and print one line."""
    wall, processor = time.perf_counter(), time.process_time()
    found = solve(problem, method, time_limit=limit)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    gap = "-" if found.gap is None else f"{found.gap:.1e}"
    share = "" if found.gap is None else f"{100 * found.gap:.2g}"
    MEASURED.append((f'"{name}"', method, f"{processor:.2f}", found.status, share, str(found.nodes or "")))
    print(
        f"{name:<38} {method:<17} {wall:>8.2f} s {processor:>8.2f} s  {found.status:<9} gap {gap:<8} "
        f"{found.objective:<12.6g} {target}",
        flush=True,
    )
    return found


def deadline(limit: float) -> None:
    """A hundred thousand clients counted, a thousand valued: values of their own, near their times, and fixed costs."""
    rng = np.random.default_rng(0)
    many = DeadlineProblem(rng.lognormal(3, 1, 100_000), rng.lognormal(0, 1, 100_000), 2000.0)
    for method in ("moore-hodgson", "fedcs", "greedy"):
        row("n = 100 000", many, method, "target 0.2 s" if method == "moore-hodgson" else "")
    for end in (100.0, 300.0, 1000.0):
        ready, upload = rng.lognormal(3, 1, 1000), rng.lognormal(0, 1, 1000)
        values = {
            "values": rng.lognormal(0, 1, 1000),
            "near": upload * rng.uniform(0.9, 1.1, 1000),
            "fixed": upload + 0.1,
        }
        for kind, worth in values.items():
            row(
                f"n = 1 000, deadline {end:g}, {kind}",
                DeadlineProblem(ready, upload, end, worth),
                "auto",
                "target 5 s",
                limit,
            )


#: Classes of values by upload (Martello and Toth's knapsacks), in units of a thousandth of the longest upload.
CLASSES = ("uncorrelated", "weakly correlated", "strongly correlated", "inverse strongly correlated", "subset sum")


def valued(kind: str, is_whole: bool, seed: int, n: int = 1000) -> DeadlineProblem:
    """State a deadline problem of a class, in whole numbers or floats: half of the uploads fit."""
    rng = np.random.default_rng([seed, 7])
    upload = rng.integers(1, 1001, n).astype(float) if is_whole else rng.uniform(1, 1000, n)
    values = {
        "uncorrelated": lambda: rng.uniform(1, 1000, n),
        "weakly correlated": lambda: np.maximum(upload + rng.uniform(-100, 100, n), 1),
        "strongly correlated": lambda: upload + 100,
        "inverse strongly correlated": lambda: np.maximum(upload - 100, 1),
        "subset sum": upload.copy,
    }[kind]()
    deadline = float(np.round(upload.sum() / 2))
    ready = rng.uniform(0, deadline, n)
    return DeadlineProblem(
        np.round(ready) if is_whole else ready, upload, deadline, np.round(values) if is_whole else values
    )


#: External solvers beside `auto` on the hard classes, and their seconds by the wall for each instance.
PEERS, PEER_LIMIT = {"HiGHS": "milp", "CP-SAT": "cp-sat"}, 5.0


def hard(limit: float, instances: int = 10, out: str = "", peers: bool = False) -> None:
    """Measure a thousand valued clients of the hard classes, in processor seconds; a CSV row per class, where asked."""
    beside = PEERS if peers else {}
    rows = [("values", "numbers", "instances", "proved", "median s", "most s", "largest gap")]
    rows[0] += tuple(f"{name} {what}" for name in beside for what in ("proved", "largest gap"))  # type: ignore[assignment]
    for kind in CLASSES:
        for is_whole in (True, False):
            took, gaps, statuses = [], {name: [] for name in ("auto", *beside)}, dict.fromkeys(("auto", *beside), 0)
            for seed in range(instances):
                problem = valued(kind, is_whole, seed)
                for name, method in {"auto": "auto", **beside}.items():
                    start = time.process_time()
                    found = solve(problem, method, time_limit=limit if name == "auto" else min(PEER_LIMIT, limit))
                    if name == "auto":
                        took.append(time.process_time() - start)
                    gaps[name].append(1.0 if found.gap is None else found.gap)
                    statuses[name] += found.status == "optimal"
            times = f"{np.median(took):.2f}", f"{max(took):.2f}"
            row = (kind, "whole" if is_whole else "floats", instances, statuses["auto"], *times)
            row += (f"{max(gaps['auto']):.0e}",)
            rows.append(row + tuple(part for name in beside for part in (statuses[name], f"{max(gaps[name]):.0e}")))
            print(*rows[-1], sep="  ", flush=True)
            if out:
                Path(out).write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def recorded(limit: float) -> None:
    """Heuristics beside the optimum on the recorded instances of three families: how many they solve, and how far off.

    Differences are shares of the optimum for coverage, and QCID or variance of the counts for the other two, whose
    optimum is often 0.
    """
    methods = {
        "coverage": ("greedy", "stochastic-greedy", "local-search"),
        "balance": ("greedy", "fed-cbs", "local-search"),
        "schedule": ("round-by-round", "rolling"),
    }
    MEASURED[0] = ("family", "method", "instances", "optimal", "mean difference", "largest difference", "median ms")
    for family, names in methods.items():
        known = [name for name in instances.names() if instances.info(name).family == family]
        for method in names:
            off, optimal, took = [], 0, []
            for name in known:
                problem, best = instances.load(name), instances.info(name).best_known
                solve(problem, method, time_limit=limit)  # compiles
                start = time.perf_counter()
                value = solve(problem, method, time_limit=limit).objective
                took.append(1e3 * (time.perf_counter() - start))
                off.append(abs(value - best) / (abs(best) if family == "coverage" else 1.0))
                optimal += abs(value - best) <= problem.tolerance_at(best)
            numbers = f"{np.mean(off):.2g}", f"{max(off):.2g}", f"{np.median(took):.2g}"
            MEASURED.append((family, method, str(len(known)), str(optimal), *numbers))
            print(*MEASURED[-1], sep="  ", flush=True)


def coverage(limit: float) -> None:
    """A thousand clients: recorded, points of a square, label distributions, gradients in clusters; greedily 10 000."""
    for name in instances.names():
        if instances.info(name).family == "coverage" and instances.info(name).n == 1000:
            row(name, instances.load(name), "auto", "target 30 s", limit)
    rng = np.random.default_rng(0)
    where, labels = rng.random((1000, 2)), rng.dirichlet(np.full(10, 0.3), 1000)
    gradients = rng.normal(size=(20, 64))[rng.integers(0, 20, 1000)] + 0.7 * rng.normal(size=(1000, 64))
    twos = np.zeros((1000, 10))
    for client in twos:
        client[rng.choice(10, 2, replace=False)] = rng.dirichlet([5, 5])
    for kind, points in {"square": where, "labels": labels, "clusters": gradients, "two labels": twos}.items():
        similarity = float(np.ptp(points, axis=0).sum()) - np.linalg.norm(points[:, None] - points, axis=2)
        for size in (10, 30, 100):
            problem = CoverageProblem(similarity, size)
            row(f"N = 1 000, m = {size}, {kind}", problem, "greedy")
            row(f"N = 1 000, m = {size}, {kind}", problem, "auto", "target 30 s", limit)
    where = rng.random((10_000, 3), dtype=np.float32)
    squares = (where**2).sum(axis=1)
    similarity = 2 - np.sqrt(np.maximum(squares[:, None] + squares - 2 * where @ where.T, 0), dtype=np.float32)
    row("N = 10 000, m = 100", CoverageProblem(similarity, 100), "greedy", "target 1 s")


def schedule(limit: float) -> None:
    """A thousand clients over five hundred rounds, a hundred thousand over a hundred; three availabilities."""
    rng = np.random.default_rng(0)
    for n, rounds, size in ((1000, 500, 20), (1000, 500, 100), (100_000, 100, 1000), (100_000, 100, 10_000)):
        days = (np.arange(rounds)[:, None] + rng.integers(0, 24, n)) % 24 < rng.integers(1, 9, n)
        kinds = {
            "alike": rng.random((rounds, n)) < 0.3,
            "unlike": rng.random((rounds, n)) < rng.beta(0.3, 1, n),
            "days": days,
        }
        for kind, available in kinds.items():
            problem = ScheduleProblem(available, size)
            name = f"N = {n}, T = {rounds}, m = {size}, {kind}"
            row(name, problem, "auto", "target 10 s" if n == 1000 else "target 60 s", limit)
            if n == 1000:
                row(name, problem, "min-cost-flow")


def diverse(limit: float) -> None:
    """Turns and distances: points in a square, there at rates U(0, 1); rounds one by one, in turn, and proved."""
    methods = ("round-by-round", "local-search", "auto")
    table = [("N", "T", "m", *methods, "bound", "status", "seconds", "vectors of counts")]
    for n, rounds, size in ((8, 30, 2), (10, 10, 3), (12, 20, 3), (20, 20, 4), (30, 20, 5), (50, 50, 5), (100, 30, 10)):
        rng = np.random.default_rng(n)
        points = rng.random((n, 2))
        distances = np.hypot(*(points[:, None] - points).T)
        there = rng.random((rounds, n)) < rng.random(n)
        problem = DiverseScheduleProblem(there, size, distances=(distances + distances.T) / 2, weight=0.02)
        began = time.process_time()
        found = [row(f"N = {n}, T = {rounds}, m = {size}", problem, method, "", limit) for method in methods]
        proved, seconds = found[-1], time.process_time() - began
        values = (f"{each:.5f}" for each in (*(each.objective for each in found), proved.bound))
        table.append(tuple(map(str, (n, rounds, size, *values, proved.status, f"{seconds:.1f}", proved.nodes or ""))))
    MEASURED[:] = table


def balance(limit: float) -> None:
    """A thousand clients with ten classes: as many samples each, lognormal numbers, two labels each."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(10, 0.3), 1000)
    unequal = rng.lognormal(4, 1, 1000).astype(int) + 10
    twos = np.zeros((1000, 10), dtype=int)
    for client in twos:
        client[rng.choice(10, 2, replace=False, p=np.arange(1, 11) / 55)] = 50
    kinds = {"equal": rng.multinomial(100, shares), "unequal": rng.multinomial(unequal, shares), "two labels": twos}
    for kind, counts in kinds.items():
        for size in (10, 30, 100):
            problem = BalanceProblem(counts, size)
            for method in ("greedy", "fed-cbs", "auto"):
                target = "target 10 s" if method == "auto" else ""
                row(f"N = 1 000, m = {size}, {kind}", problem, method, target, limit)


def main() -> None:
    """Print the table."""
    parts = {each.__name__: each for each in (deadline, coverage, schedule, balance, recorded, diverse)}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all by default")
    parser.add_argument("--instances", type=int, default=10, help="of each class of the part 'hard'")
    parser.add_argument("--peers", action="store_true", help="HiGHS and CP-SAT beside the part 'hard', 5 s each")
    parser.add_argument("--out", default="", help="where a single part writes its table")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for each exact solve")
    given = parser.parse_args()
    if given.parts == ["hard"]:
        hard(given.limit, given.instances, given.out, given.peers)
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}; wall, processor")
    solve(BalanceProblem(np.random.default_rng(1).multinomial(100, np.full(10, 0.1), 40), 5), time_limit=1.0)
    for name in given.parts or parts:
        parts[name](given.limit)
    if given.out:
        Path(given.out).write_text("".join(",".join(row) + "\n" for row in MEASURED), encoding="utf-8")


if __name__ == "__main__":
    main()
