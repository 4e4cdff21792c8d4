"""Rounds of ten or twenty of a thousand: what `rlt`, `auto` and other methods prove in their time.

    python tests/benchmarks/bench_few_of_many.py --clients 1000 --size 10 20 --there 1 0.3 --seconds 5 --methods auto

Clients hold 26 labels in Dirichlet shares (a parameter), or two labels in halves (``two``); the counts are those after
so many rounds of greedy selections among those who are there. A line for each round: the value, the gap in per cent,
seconds, and the clients that the core or ``rlt`` leaves; ``--csv`` writes the same to a file. With ``--processor`` the
clock is the process's, for machines that do other work as well. Constants were chosen with ``--seed 0``.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fedselect.data.partitions import dirichlet
from graphs import dependency_graph, distances, similarity
from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.kernels import load, preload

CLASSES = 26


def holdings(share: str, n_clients: int, rng: np.random.Generator) -> np.ndarray:
    """Each client's shares of the labels."""
    if share == "two":
        labels = rng.permutation(np.arange(2 * n_clients) % CLASSES).reshape(n_clients, 2)
        return np.eye(CLASSES)[labels].mean(axis=1)
    labels = np.repeat(np.arange(CLASSES), 60 * n_clients // CLASSES + 1)
    parts = dirichlet(labels, n_clients, rng, concentration=float(share) * CLASSES)
    return np.array([np.bincount(labels[part], minlength=CLASSES) / len(part) for part in parts])


def rounds(
    h: np.ndarray, size: int, there: float, after: list[int], seed: int
) -> Iterator[tuple[int, DispersionProblem]]:
    """FedGS's problems after so many rounds, of each of which a part of the clients are there."""
    counts, rng = np.zeros(len(h)), np.random.default_rng(seed)
    for played in range(max(after) + 1):
        problem = DispersionProblem.fedgs(h, counts, rng.random(len(h)) < there, size, 1.0)
        if played in after:
            yield played, problem
        counts[solve(problem, "greedy").selected] += 1


def main() -> None:
    """Solve what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--size", type=int, nargs="+", default=[10, 20])
    parser.add_argument(
        "--shares", nargs="+", default=["0.1", "0.3", "0.5", "two"], help="Dirichlet parameters, or two"
    )
    parser.add_argument("--there", type=float, nargs="+", default=[1.0, 0.3], help="part of the clients that are there")
    parser.add_argument("--after", type=int, nargs="+", default=[5, 50, 200])
    parser.add_argument("--methods", nargs="+", default=["auto"])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--processor", action="store_true", help="seconds of the process")
    options = parser.parse_args()
    preload()
    load("rlt")
    if options.processor:
        time.perf_counter = time.process_time  # the clock of every run
    names = ["share", "m", "there", "after", "method", "value", "gap_percent", "status", "seconds", "left"]
    with options.csv.open("w", newline="") if options.csv else nullcontext(sys.stdout) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(names)
        for share in options.shares:
            held = holdings(share, options.clients, np.random.default_rng(options.seed))
            h = distances(dependency_graph(similarity(held), preset="reference"))
            for size, there in itertools.product(options.size, options.there):
                for played, problem in rounds(h, size, there, options.after, options.seed):
                    for name in options.methods:
                        found = solve(problem, name, time_limit=options.seconds)
                        gap = np.inf if found.gap is None else 100 * found.gap
                        row = [share, size, there, played, name, f"{found.objective:.6f}", f"{gap:.4f}", found.status]
                        table.writerow([*row, f"{found.seconds:.2f}", found.details.get("left", "")])
                        file.flush()


if __name__ == "__main__":
    main()
