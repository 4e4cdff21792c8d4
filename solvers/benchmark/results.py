"""Results of a benchmark: its rows, as a tidy table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvers.benchmark import table
from solvers.benchmark.store import read_manifest, read_records

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Benchmark"]


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Rows of a benchmark, finished or not.

    Attributes
    ----------
    manifest : dict
        What is compared: methods, instances, seeds, time limits, conditions, versions.
    records : list of dict
        The stored rows; `table` is made from them.
    folder : pathlib.Path or None
        Where it is kept.
    """

    manifest: dict[str, Any]
    records: list[dict[str, Any]]
    folder: Path | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Benchmark:
        """Read a benchmark's folder; it may be unfinished, or still running.

        Raises
        ------
        BenchmarkError
            When the folder holds no benchmark of this format.
        """
        return cls(read_manifest(folder), read_records(folder), Path(folder))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a solve; `run_benchmark` describes the columns."""
        return table.tidy(self.manifest, self.records)

    @cached_property
    def traces(self) -> pd.DataFrame:
        """Every improvement of every solve: instance, method, seed, time_limit, second, objective, bound."""
        return table.traces(self.records)

    @property
    def missing(self) -> int:
        """Number of rows that are still to come."""
        axes = ("instances", "methods", "seeds", "time_limits")
        cells = 1
        for axis in axes:
            cells *= len(self.manifest[axis])
        return cells - len(self.records)
