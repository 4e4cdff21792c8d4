"""Side constraints on recorded FedGS rounds: seconds of a proof, or the gap, beside the round without them.

    python tests/benchmarks/bench_constrained.py [--limit 10] [--seeds 1] [--method auto] [--out FILE]
    python tests/benchmarks/bench_constrained.py --suite docs/benchmarks/constrained_suite.csv --limit 6

Every round of 100 clients in the library gets five random groups with quotas, one budget at 60 % of what the free
optimum uses (lognormal uses), two budgets (60 and 80 %), and quotas, two budgets and 100 conflicts at once. Draws that
the problem refuses, or for which nothing is feasible, are counted. Processor seconds stand beside the clock's; the
file has those of the round with constraints and, of the same run, without.

With ``--suite``, the recorded rounds of the suite ``constrained``: `auto` beside external solvers, as they are called
and with our reformulation, a row for each in a CSV file.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from solvers import Solution, solve
from solvers.benchmark.suites import suite
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem
from solvers.errors import InvalidProblem, SolversError
from solvers.instances import load, names

KINDS = ("quotas", "budget", "two budgets", "mixed")


def constraints(problem: DispersionProblem, free: Solution, kind: str, seed: int) -> dict[str, Any]:
    """Constraints of a kind, drawn for a problem whose free optimum is known."""
    rng, n, m = np.random.default_rng(seed), problem.n, problem.size
    stated: dict[str, Any] = {}
    if kind in ("quotas", "mixed"):
        group, each = rng.integers(0, 5, n), m // 5
        stated["quotas"] = [
            Quota(problem.clients[group == k], each if k % 2 else 0, each + k % 2, f"group {k}") for k in range(5)
        ]
    if kind != "quotas":
        shares = (0.6,) if kind == "budget" else (0.6, 0.8)
        uses = [rng.lognormal(size=n) for _ in shares]
        stated["budgets"] = [
            Budget(use, share * float(use @ free.x), f"budget {k}")
            for k, (use, share) in enumerate(zip(uses, shares, strict=True))
        ]
    if kind == "mixed":
        stated["conflicts"] = [rng.choice(problem.clients, 2, replace=False) for _ in range(n)]
    return stated


#: External solvers of the table: of those in the suite, the ones that came first on other rounds, in both forms.
PEERS = ("gurobi:nonconvex", "gurobi:projected", "cplex:nonconvex", "cplex:projected", "scip:projected", "cp-sat:rlt")


def beside_peers(path: str, limit: float, peers: Sequence[str]) -> None:
    """Write a row for each recorded round and method, and print on how many ``auto`` is ahead of the best other."""
    chosen = suite("constrained")
    ahead, rows = 0, []
    solve(load(next(iter(chosen.instances))), "auto", time_limit=limit)
    for name in chosen.instances:
        problem, keys = load(name), {}
        for label in ("auto", *peers):
            method, options = chosen.methods[label]
            began = time.process_time()
            try:
                found = solve(problem, method, time_limit=limit, **options)
            except SolversError as error:
                rows.append([name, label, "refused", "", "", "", "", str(error).partition("\n")[0][:60]])
                continue
            cpu, proved = time.process_time() - began, found.status == "optimal"
            gap = math.inf if found.gap is None else found.gap
            rows.append([name, label, found.status, found.objective, found.bound, gap, round(cpu, 3), ""])
            # A proof before none, then the sooner in processor seconds, else the smaller gap.
            keys[label] = (not proved, cpu if proved else gap)
            print(*rows[-1], flush=True)
        ahead += keys["auto"] <= min(value for label, value in keys.items() if label != "auto")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["instance", "method", "status", "objective", "bound", "gap", "processor seconds", "note"])
        writer.writerows(rows)
    print(f"auto is ahead of the best other, or level with it, on {ahead} of {len(chosen.instances)}")


def main() -> None:
    """Print a line for each round and kind, and a summary for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--suite", metavar="FILE", help="the recorded rounds beside external solvers, into this file")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, help="of the external solvers, these")
    parser.add_argument("--out", metavar="FILE", help="a CSV file with a row for each round and kind")
    parser.add_argument("--processor", action="store_true", help="limits are processor seconds: on a busy machine")
    options = parser.parse_args()
    if options.processor:
        time.perf_counter = time.process_time
    if options.suite:
        beside_peers(options.suite, options.limit, options.peers)
        return
    rounds = [name for name in names() if name.startswith("fedgs") and "-n100-" in name]
    solve(load(rounds[0]), "auto", time_limit=1.0)
    results: dict[str, list[tuple[float, float, bool, float]]] = {kind: [] for kind in KINDS}
    refused = dict.fromkeys(KINDS, 0)
    table = [["round", "constraints", "status", "processor seconds", "without constraints", "gap", "nodes"]]
    for name in rounds:
        problem = load(name)
        began = time.process_time()
        free = solve(problem, "auto", time_limit=60.0)
        alone = time.process_time() - began
        for kind in KINDS:
            for seed in range(options.seeds):
                try:
                    stated = constraints(problem, free, kind, seed)
                    bound = DispersionProblem(
                        problem.distances, problem.costs, size=problem.size, weight=problem.weight,
                        clients=problem.clients, **stated,
                    )  # fmt: skip
                except InvalidProblem:
                    refused[kind] += 1
                    continue
                began = time.process_time()
                found = solve(bound, options.method, time_limit=options.limit)
                seconds = time.process_time() - began
                if found.status == "infeasible":
                    refused[kind] += 1
                    continue
                gap = float("inf") if found.gap is None else found.gap
                results[kind].append((alone, seconds, found.status == "optimal", gap))
                facts = (found.status, round(seconds, 3), round(alone, 3), f"{gap:.1e}", found.nodes)
                table.append([name, kind, *map(str, facts)])
                print(
                    f"{name:58} {kind:12} {found.status:9} free {alone:6.2f} s  cpu {seconds:6.2f} s  "
                    f"clock {found.seconds:6.2f} s  gap {gap:.1e}  nodes {found.nodes}",
                    flush=True,
                )
    if options.out:
        with open(options.out, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
    for kind, rows in results.items():
        proved = sum(row[2] for row in rows)
        gaps = sum(row[3] <= 0.01 for row in rows)
        fast = sum(row[2] and row[1] <= 5 for row in rows)
        ratio = np.median([row[1] / max(row[0], 0.01) for row in rows]) if rows else float("nan")
        print(
            f"{kind:12} {len(rows)} rounds ({refused[kind]} infeasible): {proved} proved, {fast} within 5 s, "
            f"{gaps} within 1 %; median of seconds over those without constraints {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
