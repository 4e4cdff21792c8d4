"""Published tables of max-sum diversity, each row measured again here: one command, which goes on where it was stopped.

    python tests/benchmarks/bench_published.py euclidean --seconds 60 --out FOLDER
    python tests/benchmarks/bench_published.py k-cluster grey --seconds 60 --out FOLDER
    python tests/benchmarks/bench_published.py --tables FOLDER

Every solve is a line of ``FOLDER/solves.csv``, written when it ends; a line that is there is not measured again.
``--tables`` makes the tables of docs/benchmarks from it. Wall and processor seconds stand side by side, so that a busy
machine shows.

* ``euclidean``: the rows of two papers by Spiers, Bui and Loxton (docs/benchmarks/published_euclidean.csv names their
  sources): uniform points of [0, 100]^d (cube), normal vectors scaled to length 50 (ball), seeds 0 to 4. Their own
  files of uniform points cannot be made again to the bit, so that instances differ, and recipes do not.
* ``k-cluster``: densest subgraphs of G(n, p), as Krislock, Malick and Roupin's (Computers & OR 66, 2016).
* ``grey``: grey patterns of all sizes up to half of the cells.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from solvers import solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem, grey_pattern
from solvers.dispersion.kernels import preload

PUBLISHED = ROOT / "docs" / "benchmarks" / "published_euclidean.csv"

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
)

Key = tuple[str, str, int, int, int]


def euclidean() -> Iterator[tuple[Key, PointDispersionProblem]]:
    """Points by recipe, for every row of the published file that has one."""
    with PUBLISHED.open(encoding="utf-8") as stream:
        rows = {(recipe(row["family"]), int(row["n"]), int(row["p"])) for row in csv.DictReader(stream)}
    for (family, n, m), seed in itertools.product(sorted(row for row in rows if row[0]), range(5)):
        shape, dimension = family.split(" d=")
        rng = np.random.default_rng(seed)
        if shape == "cube":
            points = 100 * rng.random((n, int(dimension)))
        else:
            points = rng.normal(size=(n, int(dimension)))
            points *= 50 / np.linalg.norm(points, axis=1)[:, None]
        yield ("euclidean", family, n, m, seed), PointDispersionProblem(points, size=m, weight=0.5)


def recipe(family: str) -> str:
    """Return the recipe of a published family ('cube d=5'), or nothing where it is a set of files."""
    if family.startswith("GKD-d"):
        return f"cube d={family.removeprefix('GKD-d') or 2}"
    return family.replace("_big", "") if family.startswith(("cube", "ball")) else ""


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


PARTS = {"euclidean": euclidean, "k-cluster": k_cluster, "grey": grey}


def measure(part: str, seconds: float, threads: int, folder: Path, at_most: int) -> None:
    """Solve what the folder's file lacks, and append it line by line."""
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
        for key, problem in PARTS[part]():
            if key[2] > at_most or (*map(str, key), f"{seconds:g}") in done:
                continue
            began = time.process_time()
            s = solve(problem, time_limit=seconds, **({} if part == "euclidean" else {"threads": threads}))
            cpu = time.process_time() - began
            row = [*key, f"{seconds:g}", s.status, repr(s.objective), repr(s.bound), f"{s.gap:.2e}"]
            writer.writerow([*row, f"{s.seconds:.3f}", f"{cpu:.3f}", commit.stdout.strip()])
            stream.flush()
            print(*row, f"{s.seconds:.2f} s", flush=True)


def tables(folder: Path) -> None:
    """Write docs/benchmarks/published_vs_here.csv, and a table for each other part that was measured."""
    with (folder / "solves.csv").open(encoding="utf-8") as stream:
        solves = list(csv.DictReader(stream))
    groups: dict[tuple[str, str, int, int], list[dict[str, str]]] = {}
    for row in solves:
        groups.setdefault((row["part"], row["family"], int(row["n"]), int(row["m"])), []).append(row)
    with PUBLISHED.open(encoding="utf-8") as stream:
        published = list(csv.DictReader(stream))
    made: dict[str, list[list[str]]] = {"euclidean": [], "k-cluster": [], "grey": []}
    for row in published:
        found = groups.get(("euclidean", recipe(row["family"]), int(row["n"]), int(row["p"])))
        if found:
            theirs = [
                f"{row['solved']} of {row['of']}",
                _short(row["mean_s_solved"]),
                _short(row["max_gap_pct_unsolved"]),
            ]
            made["euclidean"].append([row["source"], row["family"], row["n"], row["p"], *theirs, *_summary(found)])
    for (part, family, n, m), found in sorted(groups.items()):
        if part != "euclidean":
            made[part].append([family, str(n), str(m), *_summary(found)])
    here = ["proved", "mean s", "longest s", "mean processor s", "widest gap, %"]
    heads = {part: ["family", "n", "m", *here] for part in made}
    heads["euclidean"] = ["source", "family", "n", "m", "proved there", "mean s there", "widest gap there, %", *here]
    for part, lines in made.items():
        if lines:
            with (PUBLISHED.parent / f"published_{part.replace('-', '_')}_here.csv").open(
                "w", encoding="utf-8"
            ) as stream:
                csv.writer(stream, lineterminator="\n").writerows([heads[part], *lines])


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
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--at-most", type=int, default=1 << 30, help="clients of a problem")
    parser.add_argument("--out", type=Path, default=Path("runs/published"))
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)!r} (known: {', '.join(PARTS)})")
    for part in options.parts:
        measure(part, options.seconds, options.threads, options.out, options.at_most)
    if options.tables:
        tables(options.tables)


if __name__ == "__main__":
    main()
