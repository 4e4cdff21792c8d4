"""What a first branching on the orbits of a grey pattern is worth: the three-point bound with one black cell fixed.

    python examples/records/one_cell_fixed.py > one_cell_fixed.csv

All cells of a torus are alike, so that one may be taken as black. What is left has the symmetries that keep that cell.
Repulsions, to be minimised; processor seconds of one thread. A minute or so.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import csv
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.records import three_point  # noqa: F401  (registers its method)
from examples.records.grey import grey_pattern, torus_symmetries
from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.symmetry import closure


def main() -> None:
    """Write a row per pattern."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    ends = ("at least", "gap, %", "processor s")
    writer.writerow(["torus", "m", "best", *ends, *(f"{end}, one cell fixed" for end in ends)])
    for side, m in ((4, 6), (6, 7), (6, 11), (6, 13)):
        problem, generators = grey_pattern(side, side, m), torus_symmetries(side, side)
        best = solve(problem, "branch-and-bound", symmetries=generators, time_limit=60)
        zero = 100_000 * m * (m - 1)
        row = [f"{side} x {side}", m, round(zero - best.objective)]
        keeping = np.unique([g for g in closure(problem, generators) if g[0] == 0], axis=0)
        for bounded, symmetries in ((problem, generators), (without_first(problem), keeping[:, 1:] - 1)):
            began = time.process_time()
            least = zero - solve(bounded, "three-point", symmetries=symmetries, time_limit=300).bound
            seconds = time.process_time() - began
            row += [f"{least:.1f}", f"{100 * (row[2] - least) / row[2]:.2f}", f"{seconds:.1f}"]
        writer.writerow(row)
        sys.stdout.flush()


def without_first(problem: DispersionProblem) -> DispersionProblem:
    """The problem of all clients but the first, which is selected; its distances to the others become part of costs."""
    distances = problem.distances[1:, 1:]
    costs = problem.costs[1:] - 2 * problem.weight * problem.distances[0, 1:]
    return DispersionProblem(distances, costs, size=problem.size - 1, weight=problem.weight)


if __name__ == "__main__":
    main()
