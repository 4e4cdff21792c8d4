"""Dispersion problems beyond the rounds: where proofs are hard or have not been published.

    python tests/benchmarks/bench_hard.py u100-10 u100-30 --seeds 0 1 2 --seconds 60
    python tests/benchmarks/bench_hard.py sphere2-10 sphere5-20 --seconds 1000 --threads 2
    python tests/benchmarks/bench_hard.py mdplib --mdplib FOLDER --seconds 10
    python tests/benchmarks/bench_hard.py library --seconds 30
    python tests/benchmarks/bench_hard.py tai256c --seconds 60 --method memetic --runs 5

Rows: ``uN-M`` distances uniform on [0, 10]; ``sphereD-M`` 100 normal points of dimension D scaled to radius 50;
``cubeN-M`` points uniform in the unit cube of dimension 20 (or ``--dimension``); ``iN-M`` whole distances 0 to 9. Every
line names what was measured; nothing is asserted. CPU seconds stand beside the wall clock's: a busy machine shows.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.records.grey import grey_pattern, torus_symmetries
from solvers import Solution, instances, solve
from solvers.dispersion import DispersionProblem, read_mdplib
from solvers.dispersion.kernels import warm_up

#: The library's dispersion problems that were open when this was written.
LIBRARY = (
    "fedgs-digits-dirichlet10-n300-m30-ideal-r7",
    "fedgs-synthetic-n1000-m20-bernoulli-r3",
    "fedgs-synthetic-n1000-m50-ideal-r2",
    "fedgs-synthetic-n1000-m200-ideal-alpha100-r2",
)


def uniform(n: int, m: int, seed: int) -> DispersionProblem:
    """Distances uniform on [0, 10]."""
    h = np.triu(np.random.default_rng(seed).uniform(0, 10, (n, n)), 1)
    return DispersionProblem(h + h.T, np.zeros(n), size=m, weight=0.5)


def whole(n: int, m: int, seed: int) -> DispersionProblem:
    """Whole distances from 0 to 9, as in MDPLIB's SOM files."""
    h = np.triu(np.random.default_rng(seed).integers(0, 10, (n, n)), 1).astype(float)
    return DispersionProblem(h + h.T, np.zeros(n), size=m, weight=0.5)


def points(p: np.ndarray, m: int) -> DispersionProblem:
    """Euclidean distances."""
    h = np.linalg.norm(p[:, None] - p, axis=2)
    return DispersionProblem((h + h.T) / 2, np.zeros(len(p)), size=m, weight=0.5)


def sphere(dimension: int, m: int, seed: int, n: int = 100) -> DispersionProblem:
    """ScaledProblem vectors scaled to radius 50."""
    p = np.random.default_rng(seed).normal(size=(n, dimension))
    return points(50 * p / np.linalg.norm(p, axis=1)[:, None], m)


def cube(n: int, m: int, dimension: int, seed: int) -> DispersionProblem:
    """Uniform points."""
    return points(np.random.default_rng(seed).random((n, dimension)), m)


def mdplib(folder: str | None, contains: str) -> Iterator[tuple[str, DispersionProblem, float | None]]:
    """The files of a folder, with their best known values where it has a table of them."""
    if folder is None:
        print("mdplib: skipped, give --mdplib FOLDER or set MDPLIB")
        return
    table = Path(folder) / "best_known.csv"
    best = {}
    if table.exists():
        with table.open() as stream:
            best = {(row["name"], int(row["m"])): float(row["best_known"]) for row in csv.DictReader(stream)}
    for path in sorted(Path(folder).glob("*.txt")):
        if contains in path.name:
            problem = read_mdplib(path)
            yield path.stem, problem, best.get((path.stem, problem.size))


def rows(case: str, options: argparse.Namespace) -> Iterator[tuple[str, DispersionProblem, float | None]]:
    """The instances of one case."""
    if case == "mdplib":
        yield from mdplib(options.mdplib, options.contains)
    elif case == "library":
        for name in LIBRARY:
            yield name, instances.load(name), None
    elif case == "tai256c":
        yield case, grey_pattern(16, 16, 92), 100_000 * 92 * 91 - 44_759_294
    elif match := re.fullmatch(r"(u|i|sphere|cube)(\d+)-(\d+)", case):
        kind, first, m = match[1], int(match[2]), int(match[3])
        for seed in options.seeds:
            if kind == "u":
                problem = uniform(first, m, seed)
            elif kind == "i":
                problem = whole(first, m, seed)
            elif kind == "sphere":
                problem = sphere(first, m, seed)
            else:
                problem = cube(first, m, options.dimension, seed)
            yield f"{case} seed {seed}", problem, None
    else:
        raise SystemExit(f"unknown case {case!r}: mdplib, library, tai256c, uN-M, iN-M, sphereD-M or cubeN-M")


def main() -> None:
    """Run the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--method", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dimension", type=int, default=20, help="of a cube's points")
    parser.add_argument("--mdplib", default=os.environ.get("MDPLIB"))
    parser.add_argument("--contains", default="", help="part of the names of the MDPLIB files")
    parser.add_argument("--runs", type=int, default=1, help="of the method on each instance, with its seeds 0, 1, ...")
    options = parser.parse_args()
    extra = {"threads": options.threads} if options.method in ("auto", "branch-and-bound") else {}
    warm_up()  # no kernel is to be compiled within a limit
    for case in options.cases:
        torus = case == "tai256c" and options.method == "branch-and-bound"
        symmetric = {"symmetries": torus_symmetries(16, 16)} if torus else {}
        for name, problem, best in rows(case, options):
            for seed in range(options.runs):
                began = time.process_time()
                s = solve(problem, options.method, time_limit=options.seconds, seed=seed, **extra, **symmetric)
                cpu = time.process_time() - began
                label = name if options.runs == 1 else f"{name} run {seed}"
                print(line(label, problem, s, best, cpu, case == "tai256c"), flush=True)


def line(name: str, problem: DispersionProblem, s: Solution, best: float | None, cpu: float, attracting: bool) -> str:
    """One solution; an attracting problem's values as QAPLIB has them as well."""
    nodes = s.details.get("nodes", s.nodes)
    found = next(point.second for point in s.trace if point.objective == s.objective)
    original = ""
    if attracting:
        turned = [100_000 * 92 * 91 - of for of in (s.objective, s.bound) if of is not None]
        original = "  as QAPLIB has it " + ", at least ".join(f"{of:.0f}" for of in turned)
    known = "" if best is None or s.objective is None else f"  minus best known {s.objective - best:+.3f}"
    return (
        f"{name:44s} n {problem.n:4d} m {problem.size:3d}  {s.status:8s} objective {s.objective:.9g}  "
        f"found at {found:.2f} s  gap {np.inf if s.gap is None else s.gap:.2e}  {s.seconds:7.1f} s  "
        f"cpu {cpu:7.1f} s  nodes {nodes}{original}{known}"
    )


if __name__ == "__main__":
    main()
