"""Dispersion without a matrix: TSPLIB, uniform points up to a million, clients of few kinds, and FedGS simulated.

Every row states seconds by the wall and by the processors, the certified gap, and the peak memory of a process of its
own. TSPLIB's files are not part of the project: name their folder in the environment variable TSPLIB.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])

from fedselect.availability.independent import Independent
from fedselect.measures import absences, jain_index
from fedselect.rounds import History, simulate
from fedselect.selectors import FedGS
from fedselect.selectors.geometry import Kinds, Points
from solvers import solve
from solvers.dispersion import KindDispersionProblem, PointDispersionProblem, read_tsplib
from tests.benchmarks.bench_published import FILES

#: Spiers, Bui and Loxton (EJOR 311(2), 2023), CPLEX 22.1: values (sums over unordered pairs) and seconds.
with FILES.open(encoding="utf-8") as stream:
    PUBLISHED = {
        (row["file"], int(row["m"])): (float(row["value"]), float(row["seconds"]))
        for row in csv.DictReader(stream)
        if row["source"].startswith("spiers") and row["value"]
    }


def measured(problem: Any, limit: float) -> dict[str, Any]:
    """Solve, and say all that the table states."""
    start, processors = time.perf_counter(), time.process_time()
    solution = solve(problem, time_limit=limit)
    return {
        "seconds": time.perf_counter() - start,
        "processors": time.process_time() - processors,
        "status": solution.status,
        "objective": solution.objective,
        "gap": solution.gap,
        "nodes": solution.nodes,
        "branched": solution.details.get("branched"),
    }


def uniform(n: int, dimensions: int, m: int, *, costs: bool = False, limit: float = 120.0) -> dict[str, Any]:
    """Uniform points in a cube; costs up to what a client's distances are worth."""
    rng = np.random.default_rng(0)
    points = rng.random((n, dimensions))
    return measured(
        PointDispersionProblem(points, rng.random(n) * 0.5 * m if costs else np.zeros(n), size=m, weight=0.5), limit
    )


def tsplib(name: str, m: int) -> dict[str, Any]:
    """A file of TSPLIB, against the published value."""
    value, seconds = PUBLISHED[name, m]
    found = measured(read_tsplib(Path(os.environ["TSPLIB"]) / f"{name}.tsp", m), 120.0)
    return found | {"published": value, "published_seconds": seconds, "off": found["objective"] / value - 1}


def two_labels(clients: int) -> np.ndarray:
    """Label distributions of clients with two of ten labels, evenly: at most 45 kinds."""
    pairs = np.array(list(itertools.combinations(range(10), 2)))
    rows = np.zeros((clients, 10))
    chosen = pairs[np.random.default_rng(0).integers(0, 45, clients)]
    rows[np.arange(clients)[:, None], chosen] = 0.5
    return rows


def kinds(m: int, rounds: int = 6) -> dict[str, Any]:
    """Rounds of FedGS over a million two-label clients on their 3DG, counts as costs; the slowest after the first."""
    clients = 1_000_000
    geometry = Kinds.of_rows(two_labels(clients))
    counts, rows = np.zeros(clients, dtype=np.int64), []
    for round in range(rounds):
        available = np.random.default_rng(round).random(clients) < 0.8
        start, processors = time.perf_counter(), time.process_time()
        problem = KindDispersionProblem.fedgs(geometry.distances, geometry.kinds, counts, available, m, 1.0)
        solution = solve(problem, time_limit=30.0)
        seconds, processors = time.perf_counter() - start, time.process_time() - processors
        counts[solution.selected] += 1
        rows.append((seconds, processors, solution.status, solution.gap, solution.nodes))
    later = max(rows[1:])
    names = ("seconds", "processors", "status", "gap", "nodes")
    proved = sum(row[2] == "optimal" for row in rows)
    return dict(zip(names, later, strict=True)) | {"proved": f"{proved} of {rounds}", "first": rows[0][0]}


def simulated(m: int, rounds: int, kind: str) -> dict[str, Any]:
    """FedGS by points over a million clients, seven in ten available; seconds are the mean round's, all included."""
    clients = 1_000_000
    rng = np.random.default_rng(0)
    if kind == "uniform":
        points = Points(rng.random((clients, 10)))
    else:
        points = Points(rng.dirichlet(np.full(10, 0.3), clients), "hellinger")
    selector = FedGS(m, distances=points, scale="pairs", time_limit=1.5)
    statuses, gaps = [], []

    def told() -> Iterator[Any]:
        for played in simulate(selector, Independent(np.full(clients, 0.7), 0), sizes=sizes, rounds=rounds):
            statuses.append(played.selection.solution.status)
            gaps.append(played.selection.solution.gap)
            yield played

    sizes = np.ones(clients, dtype=np.int64)
    start, processors = time.perf_counter(), time.process_time()
    history = History.collect(told(), clients)
    report = {"jain": jain_index(history.counts), "longest_absence": int(absences(history).max())}
    return report | {
        "seconds": (time.perf_counter() - start) / rounds,
        "processors": (time.process_time() - processors) / rounds,
        "status": f"{statuses.count('optimal')} of {rounds} proved",
        "gap": max(gaps),
    }


ROWS: dict[str, tuple[Any, ...]] = {
    **{f"{name} m={m}": (tsplib, name, m) for name, m in PUBLISHED},
    **{f"uniform 85900 x 2 m={m}": (uniform, 85_900, 2, m) for m in (8_590, 17_180, 42_950)},
    "uniform 1e6 x 10 m=1000": (uniform, 1_000_000, 10, 1_000),
    "uniform 1e6 x 10 m=1000 costs": (uniform, 1_000_000, 10, 1_000, True),
    **{f"two labels 1e6 m={m}": (kinds, m) for m in (10, 1_000)},
    **{f"simulate 1e6 {kind} m={m}": (simulated, m, 100, kind) for kind in ("uniform", "dirichlet") for m in (10, 100)},
    **{f"scale n={10**p}": (uniform, 10**p, 10, min(1_000, 10**p // 10)) for p in (2, 3, 4, 5, 6)},
}


def run(name: str) -> dict[str, Any]:
    """One row, in this process; its kernels loaded before."""
    function, *values = ROWS[name]
    uniform(5_000, 2, 50)
    keywords = {"costs": True} if name.endswith(" costs") else {}
    result = function(*values[: 3 if keywords else None], **keywords)
    return result | {"mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Print rows, each measured in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="beginnings of names; all rows by default")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(run(options.row)))
        return
    for name in ROWS:
        if options.rows and not any(name.startswith(wanted) for wanted in options.rows):
            continue
        if ROWS[name][0] is tsplib and "TSPLIB" not in os.environ:
            continue
        command = [sys.executable, __file__, "--row", name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        head = f"{name:<34}{found.pop('seconds'):8.2f} s {found.pop('processors'):8.2f} s of processor"
        parts = (f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in found.items())
        tail = "  ".join(parts)
        print(f"{head}  {tail}", flush=True)


if __name__ == "__main__":
    main()
