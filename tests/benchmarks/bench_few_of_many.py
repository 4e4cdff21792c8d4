"""Rounds of ten or twenty of a thousand: what `rlt`, `auto` and other methods prove in their time.

    python tests/benchmarks/bench_few_of_many.py --clients 1000 --size 10 20 --there 1 0.3 --seconds 5 --methods auto

Clients hold 26 labels in Dirichlet shares (a parameter), or two labels in halves (``two``); the counts are those after
so many rounds of greedy selections among those who are there. A line for each round: the value, the gap in per cent,
seconds, and the clients that the core or ``rlt`` leaves; ``--csv`` writes the same to a file. With ``--processor`` the
clock is the process's, for machines that do other work as well. Constants were chosen with ``--seed 0``.

``--play K`` plays so many rounds instead, each with the selection of ``auto``, and a memory goes from one
to the next (``--forget``: a fresh one each time); a line for each round. ``--traces`` writes every bound as it is
found. A method is a name, or a name and a formulation (``gurobi:projected``); ``uniform`` shares are
distances U(0, 10), ``points`` uniform ones of ten coordinates each, without a matrix.
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
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fedselect.data.partitions import dirichlet_prior
from graphs import dependency_graph, distances, similarity
from solvers import Solution, solve
from solvers.dispersion import DispersionProblem, Memory, PointDispersionProblem
from solvers.dispersion.kernels import load, preload
from solvers.dispersion.problem import SelectionProblem

CLASSES = 26


def holdings(share: str, n_clients: int, rng: np.random.Generator) -> np.ndarray:
    """Each client's shares of the labels."""
    if share == "two":
        labels = rng.permutation(np.arange(2 * n_clients) % CLASSES).reshape(n_clients, 2)
        return np.eye(CLASSES)[labels].mean(axis=1)
    labels = np.repeat(np.arange(CLASSES), 60 * n_clients // CLASSES + 1)
    parts = dirichlet_prior(labels, n_clients, rng, concentration=float(share) * CLASSES)
    return np.array([np.bincount(labels[part], minlength=CLASSES) / len(part) for part in parts])


def distances_of(share: str, n_clients: int, seed: int) -> np.ndarray:
    """Distances of clients with such holdings, or uniform ones; points instead, which have no matrix."""
    rng = np.random.default_rng(seed)
    if share == "points":
        return rng.random((n_clients, 10))
    if share == "uniform":
        h = np.triu(rng.uniform(0, 10, (n_clients, n_clients)), 1)
        return h + h.T
    return distances(dependency_graph(similarity(holdings(share, n_clients, rng)), preset="reference"))


def problem_of(h: np.ndarray, *terms: object) -> SelectionProblem:
    """FedGS's problem between clients whose distances, or whose points, are given."""
    family = DispersionProblem if h.shape[0] == h.shape[1] else PointDispersionProblem
    return family.fedgs(h, *terms)


def rounds(
    h: np.ndarray, size: int, there: float, after: list[int], seed: int
) -> Iterator[tuple[int, SelectionProblem]]:
    """FedGS's problems after so many rounds, of each of which a part of the clients are there."""
    counts, rng = np.zeros(len(h)), np.random.default_rng(seed)
    for played in range(max(after) + 1):
        problem = problem_of(h, counts, rng.random(len(h)) < there, size, 1.0)
        if played in after:
            yield played, problem
        counts[solve(problem, "greedy").selected] += 1


def played_rounds(
    h: np.ndarray, size: int, there: float, options: argparse.Namespace
) -> Iterator[tuple[int, Solution]]:
    """Rounds of FedGS with the selections of ``auto`` itself, and a memory."""
    counts, rng, memory = np.zeros(len(h)), np.random.default_rng(options.seed), Memory()
    for played in range(options.play):
        problem = problem_of(h, counts, rng.random(len(h)) < there, size, 1.0)
        if options.forget:
            memory = Memory()
        found = solve(problem, "auto", time_limit=options.seconds, memory=memory)
        yield played, found
        counts[found.selected] += 1


def compared(h: np.ndarray, size: int, there: float, options: argparse.Namespace) -> Iterator[tuple[int, Solution]]:
    """Recorded rounds by each of the methods."""
    for played, problem in rounds(h, size, there, options.after, options.seed):
        for name in options.methods:
            method, _, formulation = name.partition(":")
            more: dict[str, object] = {"formulation": formulation} if formulation else {}
            if method in ("gurobi", "cplex"):
                more["threads"] = 1
            yield played, replace(solve(problem, method, time_limit=options.seconds, **more), method=name)


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
    parser.add_argument("--traces", type=Path, help="file to which traces are appended")
    parser.add_argument("--play", type=int, default=0, help="rounds to play one after the other")
    parser.add_argument("--forget", action="store_true", help="play them without a memory")
    parser.add_argument("--processor", action="store_true", help="seconds of the process")
    options = parser.parse_args()
    preload()
    load("rlt")
    if options.processor:
        time.perf_counter = time.process_time  # the clock of every run
    names = ["n", "share", "m", "there", "after", "method", "value", "gap_percent", "status", "seconds", "left"]
    with options.csv.open("w", newline="") if options.csv else nullcontext(sys.stdout) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(names)
        for share in options.shares:
            h = distances_of(share, options.clients, options.seed)
            for size, there in itertools.product(options.size, options.there):
                results = played_rounds if options.play else compared
                for played, found in results(h, size, there, options):
                    gap = np.inf if found.gap is None else 100 * found.gap
                    row = [
                        options.clients,
                        share,
                        size,
                        there,
                        played,
                        found.method,
                        f"{found.objective:.6f}",
                        f"{gap:.4f}",
                    ]
                    table.writerow([*row, found.status, f"{found.seconds:.2f}", found.details.get("left", "")])
                    file.flush()
                    if options.traces:
                        points = [[options.clients, share, size, there, played, *point] for point in found.trace]
                        with options.traces.open("a", newline="") as traces:
                            csv.writer(traces, lineterminator="\n").writerows(points)


if __name__ == "__main__":
    main()
