"""Rounds of ten or twenty of a thousand: what `rlt`, `auto` and other methods prove in their time.

    python tests/benchmarks/bench_few_of_many.py --clients 1000 --size 10 20 --seconds 5 --methods rlt auto

Clients hold 26 labels in Dirichlet shares; the counts are those after so many rounds of greedy selections. A line for
each round: the value, the gap in per cent, seconds, and the clients that ``rlt`` leaves. Run it on a quiet machine.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fedselect.data.partitions import dirichlet
from graphs import dependency_graph, distances, similarity
from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.kernels import load, preload

CLASSES = 26


def rounds(h: np.ndarray, size: int, after: list[int]) -> Iterator[tuple[int, DispersionProblem]]:
    """FedGS's problems with everybody there, after so many rounds."""
    counts = np.zeros(len(h))
    for played in range(max(after) + 1):
        problem = DispersionProblem.fedgs(h, counts, np.ones(len(h), bool), size, 1.0)
        if played in after:
            yield played, problem
        counts[solve(problem, "greedy").selected] += 1


def main() -> None:
    """Solve what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--size", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.3, 0.5], help="Dirichlet parameters")
    parser.add_argument("--after", type=int, nargs="+", default=[5, 50, 200])
    parser.add_argument("--methods", nargs="+", default=["rlt", "auto"])
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    preload()
    load("rlt")
    print("share  m   after  method    value      gap %    seconds  left")
    for share in options.shares:
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(CLASSES), 60 * options.clients // CLASSES + 1)
        parts = dirichlet(labels, options.clients, rng, concentration=share * CLASSES)
        held = np.array([np.bincount(labels[part], minlength=CLASSES) / len(part) for part in parts])
        h = distances(dependency_graph(similarity(held), preset="reference"))
        for size in options.size:
            for played, problem in rounds(h, size, options.after):
                for name in options.methods:
                    found = solve(problem, name, time_limit=options.seconds)
                    gap = np.inf if found.gap is None else 100 * found.gap
                    left = found.details.get("left", "")
                    print(
                        f"{share:<5g} {size:3d}  {played:5d}  {name:8s}  {found.objective:.5f}  {gap:8.3f}  "
                        f"{found.seconds:7.2f}  {left}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
