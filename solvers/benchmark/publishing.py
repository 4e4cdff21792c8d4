"""The folder of a suite's results that a release keeps: rows, sums, pictures, and the page made of them."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from solvers.benchmark.figures import gap_figure, profile_figure
from solvers.benchmark.page import page
from solvers.benchmark.results import Benchmark
from solvers.benchmark.summary import summary
from solvers.environment import commit, processor
from solvers.files import write_atomically
from solvers.version import __version__

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Reference", "publish"]


@dataclass(frozen=True)
class Reference:
    """Seconds that a fixed piece of work takes: to compare machines by, and to see how busy one is.

    ``processor`` is the least processor time of three runs, ``wall`` the wall time of the same run.
    """

    processor: float
    wall: float

    @classmethod
    def measured(cls) -> Self:
        """Run the job three times and keep the fastest."""
        from threadpoolctl import threadpool_limits

        matrix = np.cos(np.arange(300)[:, None] * np.arange(300) * 0.37)
        best = cls(np.inf, np.inf)
        for _ in range(3):
            processor, wall = time.process_time(), time.perf_counter()
            with threadpool_limits(1):
                for _ in range(5):
                    np.linalg.eigvalsh(matrix + matrix.T)
            total = 0
            for k in range(1_000_000):
                total += k & 7
            found = cls(time.process_time() - processor, time.perf_counter() - wall)
            best = found if found.processor < best.processor else best
        return best


def publish(folder: str | Path, name: str, benchmark: Benchmark, ours: Sequence[str], command: str) -> Path:
    """Write a run's rows (Parquet where pyarrow is installed, else CSV), its sums, its pictures, and the page of them.

    Parameters
    ----------
    folder : path-like
        One a release, beside those of earlier releases, whose sums the page repeats.
    name : str
        The suite's.
    benchmark : Benchmark
        The run.
    ours : sequence of str
        Methods that are this project's, the one that is compared with others first.
    command : str
        The line that makes this page again.

    Returns
    -------
    pathlib.Path
        The page.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table = benchmark.table
    if importlib.util.find_spec("pyarrow") is not None:
        table.to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    else:
        table.to_csv(folder / f"{name}.csv", index=False)
    reference, sums = Reference.measured(), summary(table)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    stamped = sums.assign(version=__version__, date=today, reference=round(reference.processor, 3))
    stamped.to_csv(folder / f"{name}-summary.csv", index=False, float_format="%.6g")
    path = folder / f"{name}.md"
    facts = _facts(benchmark, reference, command, today)
    pictures = _pictures(folder, name, benchmark, ours)
    text = page(f"Suite {name}, {__version__}", facts, sums, table, _releases(folder.parent, name), pictures, ours)
    write_atomically(path, text.encode())
    return path


def _facts(benchmark: Benchmark, reference: Reference, command: str, today: str) -> dict[str, str]:
    table = benchmark.table
    solved = table[(table["cpu_seconds"] > 0.05) & (table["verdict"] == "ok")]
    share = f"{(solved['seconds'] / solved['cpu_seconds']).median():.2f}" if len(solved) else "not measured"
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg()) if hasattr(os, "getloadavg") else "not known"
    versions = benchmark.manifest.get("versions", {})
    return {
        "date, commit": f"{today}, {commit() or 'no checkout'}",
        "command": f"`{command}`",
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "reference job": f"{reference.processor:.3f} processor s, {reference.wall:.3f} wall s",
        "how busy the machine was": (
            f"load average over 1, 5 and 15 minutes at the end: {load}; a solve's wall seconds over its processor "
            f"seconds, median: {share} (1 is a core of one's own)"
        ),
        "protocol": (
            "one thread a solve, seed 0, an untimed call of 10 ms before the first, wall seconds; every answer is "
            "checked from outside"
        ),
    }


def _pictures(folder: Path, name: str, benchmark: Benchmark, ours: Sequence[str]) -> list[tuple[str, str]]:
    """Draw performance and anytime profiles at the longest limit: our methods, and each external solver's best form."""
    table, traces = benchmark.table, benchmark.traces
    limits = table["time_limit"]
    if limits.notna().any():
        table, traces = table[limits == limits.max()], traces[traces["time_limit"] == limits.max()]
    limit = f"{limits.max():g} s" if limits.notna().any() else "no limit"
    proofs, answers = (_best_forms(table, ours, measure) for measure in ("time_to_proof", "primal_integral"))
    anytime = f"Distance to the best value over time, {limit}: median and middle half."
    drawn: list[tuple[str, str, Any]] = [
        ("profile", f"Performance profile of the time to a proof, {limit}.", profile_figure(proofs)),
        ("anytime", anytime, gap_figure(answers, traces)),
    ]
    found = []
    for kind, caption, figure in drawn:
        figure.savefig(folder / f"{name}-{kind}.png", dpi=100, metadata={"Software": None})
        found.append((f"{name}-{kind}.png", caption))
    return found


def _best_forms(table: pd.DataFrame, ours: Sequence[str], measure: str) -> pd.DataFrame:
    """Return the rows of our methods, and of each external solver's best form (label ``solver:form``).

    The best form is that of the least mean measure, where the time limit stands for a missing one.
    """
    value = table[measure].fillna(table["time_limit"].fillna(table["seconds"])).groupby(table["method"]).mean()
    best: dict[str, str] = {}
    for label in dict.fromkeys(table["method"]):
        solver = label if label in ours else label.partition(":")[0]
        if solver not in best or value[label] < value[best[solver]]:
            best[solver] = label
    decided = table.groupby("method")[measure].count()
    kept = [label for label in best.values() if decided[label]]
    return table[table["method"].isin(kept)]


def _releases(above: Path, name: str) -> pd.DataFrame:
    """A row a release and limit: what its first method did, from the sums beside each other."""
    import pandas as pd

    columns = [
        "version",
        "date",
        "time_limit",
        "method",
        "rows",
        "proved",
        "mean_all",
        "best",
        "primal_integral",
        "reference",
    ]
    parts = [pd.read_csv(path, dtype={"version": str}) for path in sorted(above.glob(f"*/{name}-summary.csv"))]
    rows = pd.concat([part[part["method"] == part["method"].iloc[0]] for part in parts])
    return rows[columns].rename(columns={"reference": "reference job s"})
