"""A benchmark's folder: what is compared, one line a row as it comes, and the finished table."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from solvers.benchmark.plan import Cell, Instance
from solvers.environment import how_to_install
from solvers.errors import BenchmarkError
from solvers.files import alone, appearing_whole, own_folder, spreadsheet_csv, write_atomically
from solvers.options import matches
from solvers.reading import Unreadable, check_facts, parse_json, read_bytes, read_json

FORMAT = "solvers-benchmark/1"

MANIFEST, ROWS = "benchmark.json", "rows.jsonl"


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
        if (self.folder / MANIFEST).exists():
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

    def problem_file(self, instance: Instance) -> str:
        """Return the file in which solver processes find an instance; write it where it is missing."""
        name = re.sub(r"[^\w.+-]+", "-", instance.name)[:80]
        path = self.folder / "instances" / f"{name}-{instance.digest[:12]}.npz"
        if not path.exists():
            own_folder(path.parent)
            instance.problem.save(path)
        return str(path.resolve())

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Yield ``write(cell, facts)``, which has written a row to the file when it returns."""
        with (self.folder / ROWS).open("a", encoding="utf-8") as lines:

            def write(cell: Cell, facts: Mapping[str, Any]) -> None:
                self.records[cell] = {**cell._asdict(), **facts}
                lines.write(json.dumps(self.records[cell]) + "\n")
                lines.flush()

            yield write

    def finish(self, table: Any) -> None:
        """Write the table as CSV, and as Parquet where that can be written."""
        write_atomically(self.folder / "results.csv", spreadsheet_csv(table))
        if importlib.util.find_spec("pyarrow") is None:
            warnings.warn(
                f"results.parquet needs pyarrow, which is not installed: {how_to_install('parquet')}; "
                f"the table is in {self.folder / 'results.csv'}",
                stacklevel=3,
            )
            return
        with appearing_whole(self.folder / "results.parquet") as stream:
            table.to_parquet(stream, index=False)


def cell_of(record: Mapping[str, Any]) -> Cell:
    """Return the key of a stored row."""
    return Cell(*(record[field] for field in Cell._fields))


def holds_benchmark(folder: str | Path) -> bool:
    """Return whether a folder says of itself that it is a benchmark's, of whatever version and readable or not."""
    return (Path(folder) / MANIFEST).exists()


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Read the manifest of a folder's benchmark: what it compares.

    Raises
    ------
    BenchmarkError
        When the folder holds none, or one that cannot be read or is of another format.
    """
    path = Path(folder) / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise BenchmarkError(f"{folder} is not a benchmark's folder: it has no {MANIFEST}") from None
    except (OSError, Unreadable) as error:
        raise BenchmarkError(f"{path} cannot be read: {error}") from None
    found = manifest.get("format") if isinstance(manifest, dict) else manifest
    if found != FORMAT:
        raise BenchmarkError(f"{path} has format {found!r:.80}; this version reads {FORMAT!r}")
    try:
        _check_manifest(manifest)
    except Unreadable as error:
        raise BenchmarkError(f"{path} cannot be read: {error}") from None
    return manifest


#: What a manifest says of each instance, and what a row says beside its cell.
_INSTANCE: dict[str, Any] = {
    "family": str, "type": str, "n": int, "sense": Literal["min", "max"], "scale": float | None,
    "best_known": float | None,
}  # fmt: skip
_ROW: dict[str, Any] = {
    "verdict": str, "message": str, "status": str | None, "stopped": str | None, "objective": float | None,
    "bound": float | None, "seconds": float, "build_seconds": float | None, "nodes": int | None,
    "relaxed": bool, "trace": list, "versions": dict,
}  # fmt: skip


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise `Unreadable` where a manifest lacks something."""
    tables = dict.fromkeys(("methods", "kinds", "code", "instances", "conditions", "versions"), dict)
    check_facts("it", manifest, {**tables, "seeds": list[int], "time_limits": list[float | None]})
    for name, instance in manifest["instances"].items():
        check_facts(f"instance {name!r}", instance, _INSTANCE)
    for label, method in manifest["methods"].items():
        check_facts(f"method {label!r}", method, {"name": str, "options": dict})
        for instance in manifest["instances"].values():
            check_facts("its kinds", manifest["kinds"], {f"{instance['type']}:{method['name']}": str})
    check_facts("its versions", manifest["versions"], dict.fromkeys(manifest["versions"], str))


def read_records(folder: str | Path) -> list[dict[str, Any]]:
    """Read the rows on the disk; a last line that was cut off in the middle of writing is no row."""
    path = Path(folder) / ROWS
    if not path.exists():
        return []
    manifest = read_manifest(folder)
    records = []
    try:
        for number, line in enumerate(read_bytes(path).split(b"\n")[:-1], start=1):
            record = parse_json(line)
            _check_row(f"line {number}", record, manifest)
            records.append(record)
    except (OSError, Unreadable) as error:
        raise BenchmarkError(f"{path} cannot be read: {error}") from None
    return records


def _check_row(where: str, record: Any, manifest: Mapping[str, Any]) -> None:
    """Raise `Unreadable` where a row lacks something, or is of no cell of the benchmark."""
    check_facts(where, record, _ROW)
    axes = {"instance": "instances", "method": "methods", "seed": "seeds", "time_limit": "time_limits"}
    for key, axis in axes.items():
        value = record.get(key, axes)  # a table is in no axis
        if isinstance(value, list | dict) or value not in manifest[axis]:
            raise Unreadable(f"{where}: it is of no {key.replace('_', ' ')} of this benchmark")
    for point in record["trace"]:
        if not (isinstance(point, list) and len(point) == 3 and all(map(_is_number, point)) and point[0] is not None):
            raise Unreadable(f"{where}: its trace must be a list of second, objective and bound")


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, float) or (matches(value, int) and abs(value) < 2**63)


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe what of a stored benchmark is gone or has changed; empty if it has only grown."""
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
