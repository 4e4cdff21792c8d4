"""Rounds of the suite ``tenth`` under made side constraints: status, gap and processor seconds of ``auto``.

    python tests/benchmarks/bench_constrained_tenth.py docs/benchmarks/constrained_tenth.csv --sizes 300 500

Run it in the checkout of another commit for its numbers.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from solvers import solve
from solvers.benchmark.rounds import Round
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem

WHATS = ("regions", "budget", "two budgets", "conflicts", "mix")
_REGIONS = ((0.05, 0.10), (0.3, 0.4), (0.1, 0.2), (0.2, 0.3), (0.0, 0.2))


def made(n: int, share: str, kind: str, what: str) -> DispersionProblem:
    """Return a round with five regions' quotas, budgets, a conflict a client, or regions, budget and conflicts."""
    plain = Round(n, share, kind)()  # type: ignore[arg-type]
    rng = np.random.default_rng([0, n, len(what)])
    k, m = plain.n, plain.size
    stated: dict[str, list[object]] = {}
    if what in ("regions", "mix"):
        group = rng.permutation(k) % len(_REGIONS)
        stated["quotas"] = [
            Quota(plain.clients[group == j].tolist(), int(np.ceil(low * m)), int(np.floor(high * m)), f"region {j}")
            for j, (low, high) in enumerate(_REGIONS)
        ]
    if what != "regions" and what != "conflicts":
        use = rng.lognormal(0, 0.5, k)
        stated["budgets"] = [Budget(use, 0.85 * use.mean() * m, "seconds")]
    if what == "two budgets":
        use = rng.lognormal(0, 1, k)
        stated["budgets"].append(Budget(use, 0.6 * use.mean() * m, "bytes"))
    if what in ("conflicts", "mix"):
        stated["conflicts"] = [plain.clients[rng.choice(k, 2, replace=False)].tolist() for _ in range(k)]
    return DispersionProblem(plain.distances, plain.costs, size=m, weight=plain.weight, clients=plain.clients, **stated)  # type: ignore[arg-type]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("csv", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 500, 1000])
    parser.add_argument("--shares", nargs="+", default=["0.3"])
    parser.add_argument("--kinds", nargs="+", default=["drawn", "half", "played"])
    parser.add_argument("--whats", nargs="+", default=list(WHATS))
    options = parser.parse_args()
    with options.csv.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["round", "constraints", "clients", "chosen", "status", "objective", "gap", "seconds", "fixed"])
        for n in options.sizes:
            for share in options.shares:
                for kind in options.kinds:
                    for what in options.whats:
                        problem, began = made(n, share, kind, what), time.process_time()
                        found = solve(problem, "auto", time_limit=max(n / 100, 5))
                        seconds = time.process_time() - began
                        gap = (found.bound - found.objective) / abs(found.objective)
                        name = f"{kind}-n{n}-{share}"
                        fixed = found.details.get("fixed", "")
                        row = [name, what, problem.n, problem.size, found.status, f"{found.objective:.9g}"]
                        table.writerow([*row, f"{gap:.2e}", f"{seconds:.2f}", fixed])
                        file.flush()


if __name__ == "__main__":
    main()
