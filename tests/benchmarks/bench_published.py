"""Published tables of max-sum diversity, each row measured again here. A run goes on where it was stopped.

    python tests/benchmarks/bench_published.py euclidean --seconds 60 --out FOLDER
    python tests/benchmarks/bench_published.py k-cluster further --seconds 60 --out FOLDER
    python tests/benchmarks/bench_published.py files --data FILES --seconds 60 --out FOLDER
    python tests/benchmarks/bench_published.py grey --seconds 10 --at-most 64 --out FOLDER
    python tests/benchmarks/bench_published.py grey --seconds 2 --at-least 65 --out FOLDER
    python tests/benchmarks/bench_published.py --tables FOLDER

Every solve is a line of ``FOLDER/solves.csv``, written when it ends; a line that is there is not measured again.
``--tables`` makes the tables of docs/benchmarks from it. Wall and processor seconds stand side by side, so that a busy
machine shows.

* ``euclidean``: the rows of two papers by Spiers, Bui and Loxton (docs/benchmarks/published_euclidean.csv names their
  sources): uniform points of [0, 100]^d (cube), normal vectors scaled to length 50 (ball), seeds 0 to 4. Their own
  files of uniform points cannot be made again to the bit, so that instances differ, and recipes do not.
* ``further``: points of the same recipes that no paper has.
* ``files``: published files, those of them that lie in the folder ``--data`` (docs/benchmarks/published_files.csv names
  them: TSPLIB, MDPLIB's GKD-c, and BiqBin's graphs for the densest subgraph).
* ``k-cluster``: densest subgraphs of G(n, p), as Krislock, Malick and Roupin's (Computers & OR 66, 2016).
* ``grey``: grey patterns of all sizes up to half of the cells: the tree with the torus's symmetries (``memetic`` on
  more than 64 cells), then a bound by ``three-point``, of at most a minute, whose certificate is checked (up to 64
  cells that of ``auto`` as well, where a gap is left).
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.records import three_point  # noqa: F401  (registers its method)
from examples.records.checker import KIND
from examples.records.checker import check as check_record
from examples.records.grey import grey_pattern, torus_symmetries
from solvers import Solution, relative_gap, solve
from solvers.certificates import check
from solvers.dispersion import (
    DispersionProblem,
    PointDispersionProblem,
    read_mdplib,
    read_tsplib,
)
from solvers.dispersion.kernels import preload

PUBLISHED = ROOT / "docs" / "benchmarks" / "published_euclidean.csv"

#: Files of others, with the value and the seconds that a paper states for each size.
FILES = ROOT / "docs" / "benchmarks" / "published_files.csv"

COLUMNS = (
    "part",
    "family",
    "n",
    "m",
    "seed",
    "limit_s",
    "status",
    "value",
    "bound",
    "gap",
    "wall_s",
    "cpu_s",
    "commit",
    "certified",
)

Key = tuple[str, str, int, int, int]


def euclidean() -> Iterator[tuple[Key, PointDispersionProblem]]:
    """Points by recipe, for every row of the published file that has one."""
    with PUBLISHED.open(encoding="utf-8") as stream:
        rows = {(recipe(row["family"]), int(row["n"]), int(row["p"])) for row in csv.DictReader(stream)}
    for (family, n, m), seed in itertools.product(sorted(row for row in rows if row[0]), range(5)):
        yield ("euclidean", family, n, m, seed), by_recipe(family, n, m, seed)


def further() -> Iterator[tuple[Key, PointDispersionProblem]]:
    """Points of the same recipes, larger or of another dimension than in any paper."""
    rows = (("ball d=3", 200, 20), ("ball d=10", 100, 10), ("ball d=10", 100, 20), ("cube d=20", 2000, 50))
    for (family, n, m), seed in itertools.product(rows, range(5)):
        yield ("further", family, n, m, seed), by_recipe(family, n, m, seed)


def by_recipe(family: str, n: int, m: int, seed: int) -> PointDispersionProblem:
    """Return the problem of a recipe, such as 'cube d=5'."""
    shape, dimension = family.split(" d=")
    rng = np.random.default_rng(seed)
    if shape == "cube":
        points = 100 * rng.random((n, int(dimension)))
    else:
        points = rng.normal(size=(n, int(dimension)))
        points *= 50 / np.linalg.norm(points, axis=1)[:, None]
    return PointDispersionProblem(points, size=m, weight=0.5)


def recipe(family: str) -> str:
    """Return the recipe of a published family ('cube d=5'), or nothing where it is a set of files."""
    if family.startswith("GKD-d"):
        return f"cube d={family.removeprefix('GKD-d') or 2}"
    return family.replace("_big", "") if family.startswith(("cube", "ball")) else ""


def files(data: Path) -> Iterator[tuple[Key, DispersionProblem | PointDispersionProblem]]:
    """Files of `FILES` that lie in a folder."""
    with FILES.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        m = int(row["m"])
        for path in sorted(data.glob(f"{row['file']}[._]*")):
            if path.suffix == ".json":
                problem = biqbin_graph(path, m)
            else:
                problem = read_tsplib(path, m) if path.suffix == ".tsp" else read_mdplib(path, m)
            yield ("files", row["file"], problem.n, m, 0), problem


def biqbin_graph(path: Path, m: int) -> DispersionProblem:
    """Read a graph of BiqBin's tests, a QUBO with a penalty on the size: pairs that are an edge cost less."""
    qubo = json.loads(path.read_text())["qubo"]
    entries = list(zip(qubo["row"], qubo["col"], qubo["data"], strict=True))
    least = min(value for i, j, value in entries if i != j)
    edges = np.zeros(qubo["shape"])
    for i, j, value in entries:
        if i != j and value == least:
            edges[i, j] = edges[j, i] = 1.0
    return DispersionProblem(edges, np.zeros(len(edges)), size=m, weight=0.5)


def k_cluster() -> Iterator[tuple[Key, DispersionProblem]]:
    """Random graphs of 80 to 160 vertices; k is a quarter, a half and three quarters of them."""
    for n, share, quarter, seed in itertools.product((80, 100, 120, 140, 160), (25, 50, 75), (1, 2, 3), range(5)):
        rng = np.random.default_rng([n, share, seed])
        edges = np.triu(rng.random((n, n)) < share / 100, 1).astype(float)
        problem = DispersionProblem(edges + edges.T, np.zeros(n), size=n * quarter // 4, weight=0.5)
        yield ("k-cluster", f"p={share}%", n, problem.size, seed), problem


def grey() -> Iterator[tuple[Key, DispersionProblem]]:
    """Patterns on square tori."""
    for side in (6, 7, 8, 10, 12):
        for m in range(2, side * side // 2 + 1):
            yield ("grey", f"{side} x {side}", side * side, m, 0), grey_pattern(side, side, m)


#: Parts whose problems are made by recipe; ``files`` is the other one.
RECIPES = {"euclidean": euclidean, "further": further, "k-cluster": k_cluster, "grey": grey}


def grey_answer(problem: DispersionProblem, side: int, seconds: float) -> tuple[Solution, float]:
    """Return the best solution, and the best bound of which a certificate was checked."""
    symmetries = torus_symmetries(side, side)
    if problem.n <= 64:
        s = solve(problem, "branch-and-bound", time_limit=seconds, symmetries=symmetries)
    else:
        s = solve(problem, "memetic", time_limit=seconds)
    bounds = [np.inf]
    if problem.size > 2:
        proved = solve(problem, "three-point", time_limit=60.0, symmetries=symmetries, certificate=True)
        bounds.append(_checked(problem, proved))
    if problem.size == 2 or (problem.n <= 64 and min(bounds) > s.objective * (1 + 1e-6)):
        bounds.append(_checked(problem, solve(problem, time_limit=seconds, certificate=True)))
    return s, min(bounds)


def _checked(problem: DispersionProblem, solution: Solution) -> float:
    if solution.certificate is None:
        return np.inf
    reader = check_record if solution.certificate.kind == KIND else check
    return float(reader(problem, solution.certificate))


def measure(part: str, problems: Iterator[Any], folder: Path, options: argparse.Namespace) -> None:
    """Solve what the folder's file lacks, and append it line by line."""
    seconds = options.seconds
    path = folder / "solves.csv"
    folder.mkdir(parents=True, exist_ok=True)
    done = set()
    if path.is_file():
        with path.open(encoding="utf-8") as stream:
            done = {tuple(row[name] for name in COLUMNS[:6]) for row in csv.DictReader(stream)}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    preload()
    with path.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if stream.tell() == 0:
            writer.writerow(COLUMNS)
        for key, problem in problems:
            if not options.at_least <= key[2] <= options.at_most or (*map(str, key), f"{seconds:g}") in done:
                continue
            began = time.process_time()
            if part == "grey":
                s, certified = grey_answer(problem, int(key[1].split()[0]), seconds)
            else:
                s, certified = solve(problem, time_limit=seconds, **_threads(problem, options.threads)), None
            cpu = time.process_time() - began
            bound = certified if s.bound is None else s.bound
            row = [*key, f"{seconds:g}", s.status, repr(s.objective), repr(bound)]
            row += [f"{relative_gap(s.objective, bound):.2e}", f"{s.seconds:.3f}", f"{cpu:.3f}", commit.stdout.strip()]
            writer.writerow([*row, "" if certified is None else repr(certified)])
            stream.flush()
            print(*row, f"{s.seconds:.2f} s", flush=True)


def _threads(problem: DispersionProblem | PointDispersionProblem, threads: int) -> dict[str, int]:
    return {"threads": threads} if isinstance(problem, DispersionProblem) else {}


def tables(folder: Path) -> None:
    """Write a table of docs/benchmarks for each part that was measured, and the solves beside them."""
    with (folder / "solves.csv").open(encoding="utf-8") as stream:
        solves = list(csv.DictReader(stream))
    groups: dict[tuple[str, str, int, int], list[dict[str, str]]] = {}
    for row in solves:
        groups.setdefault((row["part"], row["family"], int(row["n"]), int(row["m"])), []).append(row)
    with PUBLISHED.open(encoding="utf-8") as stream:
        published = list(csv.DictReader(stream))
    parts = ("euclidean", "further", "files", "k-cluster", "grey", "grey-tori")
    made: dict[str, list[list[str]]] = {part: [] for part in parts}
    for row in published:
        found = groups.get(("euclidean", recipe(row["family"]), int(row["n"]), int(row["p"])))
        if found:
            theirs = [
                f"{row['solved']} of {row['of']}",
                _short(row["mean_s_solved"]),
                _short(row["max_gap_pct_unsolved"]),
            ]
            made["euclidean"].append([row["source"], row["family"], row["n"], row["p"], *theirs, *_summary(found)])
    for (part, family, n, m), found in sorted(groups.items(), key=lambda group: _place(*group[0])):
        if part == "grey":
            made[part] += [_grey_row(row) for row in found]
        elif part in ("further", "k-cluster"):
            made[part].append([family, str(n), str(m), *_summary(found)])
    with FILES.open(encoding="utf-8") as stream:
        made["files"] = [
            _file_row(row, solved)
            for row in csv.DictReader(stream)
            for solved in groups.get(("files", row["file"], int(row["n"]), int(row["m"])), [])
        ]
    made["grey-tori"] = _tori(made["grey"])
    here = ["proved", "mean s", "longest s", "mean processor s", "widest gap, %"]
    heads = {part: ["family", "n", "m", *here] for part in made}
    heads["grey"] = ["torus", "m", "least repulsion found", "at least", "gap, %", "proved", "s", "processor s"]
    heads["grey-tori"] = ["torus", "m", "patterns", "closed by a certificate", "by the tree alone", "open"]
    heads["grey-tori"] += ["certified gap, median %", "widest %"]
    heads["files"] = ["source", "file", "n", "m", "value there", "s there", "value here"]
    heads["files"] += ["above theirs by", "status", "gap, %", "s", "processor s"]
    heads["euclidean"] = ["source", "family", "n", "m", "proved there", "mean s there", "widest gap there, %", *here]
    for part, lines in made.items():
        if lines:
            with (PUBLISHED.parent / f"published_{part.replace('-', '_')}_here.csv").open(
                "w", encoding="utf-8"
            ) as stream:
                csv.writer(stream, lineterminator="\n").writerows([heads[part], *lines])
    (PUBLISHED.parent / "published_solves.csv").write_bytes((folder / "solves.csv").read_bytes())


def _grey_row(row: dict[str, str]) -> list[str]:
    """A pattern as the literature states it: the repulsion, to be minimised, and a bound from below."""
    m, value, certified = int(row["m"]), float(row["value"]), float(row["certified"])
    zero = 100_000 * m * (m - 1)
    # Every repulsion is a whole even number: each pair counts twice.
    found, least = round(zero - value), max(0, 2 * math.ceil((zero - certified) / 2 - 1e-6))
    gap = 100 * (found - least) / found
    proved = "by certificate" if found == least else "by the tree" if row["status"] == "optimal" else ""
    return [row["family"], row["m"], str(found), str(least), f"{gap:.2g}", proved, row["wall_s"], row["cpu_s"]]


def _tori(rows: list[list[str]]) -> list[list[str]]:
    """A line per torus."""
    found = []
    for torus in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == torus]
        ways = [row[5] for row in mine]
        counts = [str(ways.count(way)) for way in ("by certificate", "by the tree", "")]
        gaps = [float(row[4]) for row in mine]
        sizes = f"{min(int(row[1]) for row in mine)} to {max(int(row[1]) for row in mine)}"
        found.append([torus, sizes, str(len(mine)), *counts, f"{np.median(gaps):.2f}", f"{max(gaps):.1f}"])
    return found


def _file_row(theirs: dict[str, str], row: dict[str, str]) -> list[str]:
    """A file of others beside what a paper has for it."""
    above = f"{float(row['value']) / float(theirs['value']) - 1:.1e}" if theirs["value"] else ""
    there = [theirs[name] for name in ("source", "file", "n", "m", "value", "seconds")]
    here = [row["value"], above, row["status"], f"{100 * float(row['gap']):.2g}", row["wall_s"], row["cpu_s"]]
    return [*there, *here]


def _place(part: str, family: str, n: int, m: int) -> tuple[str, str, int, int]:
    return part, "" if part == "grey" else family, n, m


def _short(text: str) -> str:
    return f"{float(text):.3g}" if text else ""


def _summary(found: list[dict[str, str]]) -> list[str]:
    """Proved of how many; seconds of those proved; the widest gap left."""
    proved = [row for row in found if row["status"] == "optimal"]
    wall, cpu = ([float(row[name]) for row in proved] for name in ("wall_s", "cpu_s"))
    times = [f"{np.mean(wall):.3g}", f"{max(wall):.3g}", f"{np.mean(cpu):.3g}"] if proved else ["", "", ""]
    gap = 100 * max(float(row["gap"]) for row in found)
    return [f"{len(proved)} of {len(found)}", *times, f"{gap:.2g}" if len(proved) < len(found) else ""]


def main() -> None:
    """Measure the parts asked for, or make the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=", ".join([*RECIPES, "files"]))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--at-least", type=int, default=0, help="clients of a problem")
    parser.add_argument("--at-most", type=int, default=1 << 30, help="clients of a problem")
    parser.add_argument("--out", type=Path, default=Path("runs/published"))
    parser.add_argument("--data", type=Path, help="folder of the part 'files'")
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    if unknown := set(options.parts) - {*RECIPES, "files"}:
        parser.error(f"there is no part {min(unknown)!r} (known: {', '.join([*RECIPES, 'files'])})")
    if "files" in options.parts and options.data is None:
        parser.error("the part 'files' needs --data, the folder where they lie")
    for part in options.parts:
        problems = files(options.data) if part == "files" else RECIPES[part]()
        measure(part, problems, options.out, options)
    if options.tables:
        tables(options.tables)


if __name__ == "__main__":
    main()
