"""A benchmark's folder: what is compared, one line a row as it comes, and the finished table."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solvers.benchmark.plan import Cell, Instance
from solvers.errors import BenchmarkError
from solvers.files import alone, appearing_whole, write_atomically

__all__ = ["FORMAT", "Store", "holds_benchmark", "read_manifest", "read_records"]

FORMAT = "solvers-benchmark/1"

MANIFEST, ROWS = "benchmark.json", "rows.jsonl"

#: What the manifest was called, and said of itself, while a benchmark was called a comparison; read, never written.
OLD_MANIFEST, OLD_FORMAT = "comparison.json", "solvers-comparison/1"


class Store:
    """The folder of a benchmark that is running; see `solvers.benchmark.run_benchmark` for what it holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[Cell, dict[str, Any]] = {}

    @contextmanager
    def alone(self) -> Iterator[Store]:
        """Keep other processes out of the folder for as long as the block runs."""
        sentence = f"another process is at work in {self.folder}; wait for it or stop it"
        with alone(self.folder, BenchmarkError(sentence)):
            yield self

    def claim(self, manifest: dict[str, Any], retry: Collection[str]) -> None:
        """Write down what is compared, or refuse where the folder is of another benchmark; read the rows there are.

        A folder may grow, by methods, instances, seeds or limits; what it holds must stay what it was.
        """
        if (self.folder / MANIFEST).exists() or (self.folder / OLD_MANIFEST).exists():
            if difference := _difference(read_manifest(self.folder), manifest):
                raise BenchmarkError(
                    f"{self.folder} holds another benchmark: {difference}; choose another folder or remove it"
                )
        elif any(self.folder.glob("*")):
            raise BenchmarkError(f"{self.folder} is not empty and holds no benchmark; choose another folder")
        kept = [record for record in read_records(self.folder) if record["verdict"] not in retry]
        self.records = {cell_of(record): record for record in kept}
        lines = "".join(json.dumps(record) + "\n" for record in self.records.values())
        write_atomically(self.folder / ROWS, lines.encode())
        write_atomically(self.folder / MANIFEST, json.dumps({"format": FORMAT, **manifest}, indent=1).encode())
        (self.folder / OLD_MANIFEST).unlink(missing_ok=True)

    def problem_file(self, instance: Instance) -> str:
        """Where the solver processes find an instance."""
        name = re.sub(r"[^\w.+-]+", "-", instance.name)[:80]
        path = self.folder / "instances" / f"{name}-{instance.digest[:12]}.npz"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            instance.problem.save(path)
        return str(path.resolve())

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Yield ``write(cell, facts)``, which puts a row on the disk before it returns."""
        with (self.folder / ROWS).open("a", encoding="utf-8") as lines:

            def write(cell: Cell, facts: Mapping[str, Any]) -> None:
                self.records[cell] = {**cell._asdict(), **facts}
                lines.write(json.dumps(self.records[cell]) + "\n")
                lines.flush()

            yield write

    def finish(self, table: Any) -> None:
        """Write the table as CSV, and as Parquet where that can be written."""
        write_atomically(self.folder / "results.csv", table.to_csv(index=False).encode())
        if importlib.util.find_spec("pyarrow") is None:
            warnings.warn(
                "results.parquet needs pyarrow, which is not installed: pip install 'fedselect[parquet]'; "
                f"the table is in {self.folder / 'results.csv'}",
                stacklevel=3,
            )
            return
        with appearing_whole(self.folder / "results.parquet") as stream:
            table.to_parquet(stream, index=False)


def cell_of(record: Mapping[str, Any]) -> Cell:
    """The key of a stored row."""
    return Cell(*(record[field] for field in Cell._fields))


def holds_benchmark(folder: str | Path) -> bool:
    """Whether a folder says of itself that it is a benchmark's, of whatever version and readable or not."""
    if (Path(folder) / MANIFEST).exists():
        return True
    try:
        return json.loads((Path(folder) / OLD_MANIFEST).read_text(encoding="utf-8")).get("format") == OLD_FORMAT
    except (OSError, ValueError, AttributeError):
        return False


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """What a folder's benchmark compares.

    Raises
    ------
    BenchmarkError
        When the folder holds none, or one of another format.
    """
    path, format = Path(folder) / MANIFEST, FORMAT
    if not path.exists() and (Path(folder) / OLD_MANIFEST).exists():
        path, format = Path(folder) / OLD_MANIFEST, OLD_FORMAT
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BenchmarkError(f"{folder} is not a benchmark's folder: it has no {MANIFEST}") from None
    except ValueError as error:
        raise BenchmarkError(f"{path} cannot be read: {error}") from None
    if manifest.get("format") != format:
        raise BenchmarkError(f"{path} has format {manifest.get('format')!r}; this version reads {FORMAT!r}")
    return manifest


def read_records(folder: str | Path) -> list[dict[str, Any]]:
    """The rows on the disk; a last line that was cut off in the middle of writing is no row."""
    path = Path(folder) / ROWS
    if not path.exists():
        return []
    whole = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in whole]


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What of a stored benchmark is gone or has changed, in words; empty if it has only grown."""
    for axis, what in (("seeds", "seed"), ("time_limits", "time limit")):
        for value in before[axis]:
            if value not in now[axis]:
                return f"it has {what} {value}"
    for axis, what in (("methods", "method"), ("instances", "instance")):
        for name, described in before[axis].items():
            if name not in now[axis]:
                return f"it has {what} {name!r}"
            for key, value in described.items():
                if key not in ("best_known", "witnessed") and now[axis][name][key] != value:
                    return f"{what} {name!r} differs in its {key}, {value!r} there and {now[axis][name][key]!r} here"
    for name, code in before["code"].items():
        if now["code"].get(name, code) != code:
            return f"the code of {name.replace(':', ' method ')} has changed"
    for key, value in before["conditions"].items():
        if now["conditions"][key] != value:
            return f"{key} was {value!r} there and is {now['conditions'][key]!r} here"
    for package, version in before["versions"].items():
        if now["versions"].get(package, version) != version:
            return f"it was made with {package} {version}, and {now['versions'][package]} is installed here"
    return ""
