"""What a budget costs over its limit: optimum, bound and price of one FedGS round, from half of the free use to all.

    python tests/benchmarks/bench_budget_price.py docs/benchmarks/budget_price.csv

The round is a recorded one: 100 clients, 10 to select, no constraints. Uses are lognormal seconds, drawn once.
Limits are shares of what the free optimum uses. A price is `Solution.prices`: what a bound rises by with a second more.
A picture of the same name is written beside the table.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from solvers import solve
from solvers.constraints import Budget
from solvers.dispersion import DispersionProblem
from solvers.errors import InvalidProblem
from solvers.instances import load

NAME = "fedgs-digits-dirichlet-n100-m10-ideal-r5"
SHARES = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05)


def main(path: str) -> None:
    """Write a row for each limit."""
    problem = load(NAME)
    seconds = np.random.default_rng(0).lognormal(size=problem.n)
    free = solve(problem, time_limit=60)
    rows = []
    for share in SHARES:
        limit = share * float(seconds @ free.x)
        try:
            bound_to = DispersionProblem(
                problem.distances, problem.costs, size=problem.size, weight=problem.weight, clients=problem.clients,
                budgets=[Budget(seconds, limit, "seconds")],
            )  # fmt: skip
        except InvalidProblem:
            continue
        found = solve(bound_to, time_limit=60)
        numbers = [share, limit, found.objective, found.bound, found.prices.get("seconds", 0.0)]
        rows.append([f"{value:.6g}" for value in numbers] + [found.status, f"{free.objective:.6g}"])
        print(*rows[-1], flush=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["share", "limit", "objective", "bound", "price", "status", "objective without"])
        writer.writerows(rows)
    draw(Path(path))


def draw(path: Path) -> None:
    """Draw objective and price over the limit, from the table."""
    from matplotlib.figure import Figure

    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    share, objective, price = ([float(row[name]) for row in rows] for name in ("share", "objective", "price"))
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(share, objective, marker="o")
    left.axhline(float(rows[0]["objective without"]), color="0.5", linestyle=":", label="without the budget")
    left.set(xlabel="limit, as a share of the free use", ylabel="objective")
    left.legend()
    right.plot(share, price, marker="s", color="C1")
    right.set(xlabel="limit, as a share of the free use", ylabel="price of a second", yscale="log")
    figure.savefig(path.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main(sys.argv[1])
