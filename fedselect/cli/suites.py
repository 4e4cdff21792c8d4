"""``fedselect bench --suite``: the fixed protocol, and the folder of results that a release keeps."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path
from typing import Any

from fedselect import __version__
from solvers.files import write_atomically

__all__ = ["publish"]


def publish(folder: Path, name: str, benchmark: Any) -> Path:
    """Write a run's rows (Parquet where pyarrow is installed, else CSV), its summary, and the page made of them."""
    from solvers.benchmark.suites import reference_seconds
    from solvers.benchmark.summary import page, summary

    folder.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("pyarrow") is not None:
        benchmark.table.to_parquet(folder / f"{name}.parquet", index=False)
    else:
        benchmark.table.to_csv(folder / f"{name}.csv", index=False)
    sums = summary(benchmark.table)
    sums.to_csv(folder / f"{name}-summary.csv", index=False)
    facts = {
        "version": __version__,
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "reference job": f"{reference_seconds():.3f} CPU s",
        "protocol": "one solve at a time, one thread, every answer checked from outside",
    }
    path = folder / f"{name}.md"
    write_atomically(path, page(f"Suite {name}, version {__version__}", facts, sums).encode())
    return path
