"""Let every engine do the same work, in turns, and write what it took as a table.

python tests/benchmarks/simulators/measure.py FOLDER [--cases linear mlp] [--engines plain fedselect] [--repeats 5]

FOLDER is that of ``install.py``; every run is appended to FOLDER/runs.jsonl, and ``--csv`` writes the best of all runs
there. ``--ahead`` gives the engines priority over what else the machine does, ``--lock`` holds a file meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import fcntl
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "benchmarks")]

import numpy as np  # noqa: E402
from simulators.work import CASES, write  # noqa: E402

#: Engines, and the environments that they run in.
ENGINES = {
    "plain": "fedselect",
    "fedselect": "fedselect",
    "flower": "flower",
    "flower_ray": "flower",
    "pfl": "pfl",
    "fluke": "fluke",
    "flgo": "flgo",
    "fedjax": "fedjax",
    "blazefl": "blazefl",
}

#: How far weights may be from the plain loop's.
TOLERANCE = defaultdict(lambda: 1e-5, fedjax=1e-4)


def main() -> None:
    """Measure as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    parser.add_argument("--cores", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of rounds, at most, after those that are checked")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one run, at most")
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--ahead", action="store_true")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    log, lock = options.folder / "runs.jsonl", Lock(options.lock)
    for _ in range(options.repeats):
        turn = time.time()
        for case in options.cases:
            path = options.folder / f"{case}.npz"
            if not path.exists():
                write(CASES[case], path)
            for cores in options.cores:
                for engine in options.engines:
                    lock.hold()
                    found = run(options, engine, path, cores)
                    found = {"case": case, "cores": cores, "engine": engine, "turn": turn, **found}
                    print(json.dumps(found), flush=True)
                    with log.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(found) + "\n")
    if options.csv:
        rows = table([json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()])
        with options.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


class Lock:
    """A file's lock, which is given to others now and then."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("w")
        self._since: float | None = None

    def hold(self, seconds: float = 40.0) -> None:
        """Hold the lock; let others have it first where it has been held for so long."""
        if self._file is None:
            return
        if self._since is not None and time.time() - self._since > seconds:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._since = None
            time.sleep(0.5)
        if self._since is None:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._since = time.time()


def run(options: argparse.Namespace, engine: str, path: Path, cores: int) -> dict[str, Any]:
    """Let one engine do one work; return seconds to the first round, milliseconds a round, memory and difference."""
    weights = options.folder / f"weights-{engine}-{path.stem}.npz"
    python = options.folder / ENGINES[engine] / "bin" / "python"
    command = [str(python), "-m", "simulators.one", engine, str(path), str(cores), str(options.seconds), str(weights)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "benchmarks"), str(ROOT)]),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": str(cores),
    }

    def first() -> None:
        if options.ahead:
            with contextlib.suppress(OSError):
                os.nice(-20)
                Path("/proc/self/autogroup").write_text("-20", encoding="utf-8")

    with (options.folder / f"{engine}.log").open("w") as errors:
        start = time.time()
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=options.folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=first,
        )
        memory = 0.0
        while process.poll() is None and time.time() - start < options.limit:
            time.sleep(0.05)
            memory = max(memory, megabytes(process.pid))
        process.kill()
        output = process.communicate()[0]
    try:
        found = json.loads(output.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"failed": f"no answer; see {engine}.log"}
    with np.load(weights) as own, np.load(options.folder / f"weights-plain-{path.stem}.npz") as plain:
        difference = max(float(np.abs(own[name] - plain[name]).max()) for name in plain.files)
    return {
        "first": round(found["first"], 3),
        "round": 1000 * statistics.median(found["rounds"]),
        "rounds": len(found["rounds"]),
        "memory": round(max(memory, found["memory"])),
        "difference": difference,
    }


def megabytes(process: int) -> float:
    """Memory of a process and all its descendants, what they share counted once."""
    total, below = 0.0, [process]
    while below:
        place = Path("/proc") / str(below.pop())
        with contextlib.suppress(OSError, StopIteration, ValueError):
            lines = (place / "smaps_rollup").read_text(encoding="utf-8").splitlines()
            total += float(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
            below += [int(child) for child in (place / "task" / place.name / "children").read_text().split()]
    return total


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Best turn of each case, number of cores and engine, where others use the machine, too; medians of the rest.

    ``round_ms`` is the least over turns of the median round, ``of_fedselect`` is that divided by fedselect's.
    """
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = defaultdict(list)
    for each in runs:
        if each["engine"] != "fedselect" or "failed" not in each:
            groups[each["case"], each["cores"], each["engine"]].append(each)
    rows = []
    for case in CASES:
        for cores in (1, 2):
            ours = least(groups[case, cores, "fedselect"])
            for engine in ENGINES:
                done = [each for each in groups[case, cores, engine] if "failed" not in each]
                row: dict[str, Any] = {"case": case, "cores": cores, "engine": engine, "repeats": len(done)}
                if done:
                    difference = max(each["difference"] for each in done)
                    row |= {
                        "first_seconds": f"{median(done, 'first'):.2f}",
                        "round_ms": f"{least(done):.4g}",
                        "of_fedselect": f"{least(done) / ours:.3g}",
                        "rounds": round(median(done, "rounds")),
                        "memory_mb": round(median(done, "memory")),
                        "difference": f"{difference:.1e}",
                        "counts": "yes" if difference <= TOLERANCE[engine] else "no",
                    }
                elif not groups[case, cores, engine]:
                    continue
                names = ("first_seconds", "round_ms", "of_fedselect", "rounds", "memory_mb", "difference")
                rows.append({**row, **{name: row.get(name, "") for name in names}, "counts": row.get("counts", "no")})
    return rows


def least(runs: list[dict[str, Any]]) -> float:
    """Milliseconds a round in the best turn that was ended; infinite without one."""
    return min((each["round"] for each in runs if "failed" not in each), default=math.inf)


def median(runs: list[dict[str, Any]], name: str) -> float:
    """Median of one number over runs."""
    return statistics.median(each[name] for each in runs)


if __name__ == "__main__":
    main()
