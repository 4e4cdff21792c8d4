"""Fetch instances of the maximum diversity library (MDPLIB) from where the user says, and see that they parse."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedselect.errors import DataError
from solvers import InvalidProblem
from solvers.dispersion import DispersionProblem, read_mdplib
from solvers.files import write_atomically
from solvers.reading import Unreadable, check_archive, read_text

#: Seconds a server may stay silent.
_PATIENCE = 60

#: Bytes that are fetched at most: all of MDPLIB has a hundredth of it.
_LARGEST = 2**30


#: What unpacking a damaged archive raises, as its bytes fall.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class Fetched:
    """One instance that was fetched, with one of the sizes it is used with.

    Attributes
    ----------
    path : pathlib.Path
        Its file.
    n, size : int
        Elements, and how many of them to choose.
    best_known : float or None
        The sum over the chosen pairs that the table names.
    source : str
        What the table says about that value.
    """

    path: Path
    n: int
    size: int
    best_known: float | None = None
    source: str = ""


def fetch_mdplib(where: str, out: str | Path, table: str | Path | None = None) -> list[Fetched]:
    """Bring MDPLIB files, and their table of best known values, into a folder.

    A file that is not in the library's format is refused before anything is written.

    Parameters
    ----------
    where : str
        URL or path of a ``.zip`` archive or of one ``.txt`` file, or path of a folder with such files. Folders inside
        are searched too; their structure is not kept.
    out : path-like
        The folder to write to.
    table : path-like, optional
        CSV file with columns ``name`` (of the file, without ``.txt``), ``m``, ``best_known`` and, if wanted,
        ``source``; a file may have several m. By default ``best_known.csv`` beside the files, where there is one.

    Returns
    -------
    list of Fetched
        By name; one entry for the file's own m and for every other m in the table.

    Raises
    ------
    DataError
        When nothing can be read there, or more than 1 GiB, a file is not in the library's format, two files have the
        same name, the table has another shape, or the folder cannot be written.
    """
    with _local(where) as folder:
        files = sorted(path for path in folder.rglob("*.txt") if path.is_file())
        if not files:
            raise DataError(f"there is no .txt file in {where}; MDPLIB's instances are .txt files")
        problems: dict[str, tuple[Path, DispersionProblem]] = {}
        for path in files:
            if path.name in problems:
                raise DataError(
                    f"{where} holds {path.name} twice, in {problems[path.name][0].parent} and {path.parent}"
                )
            try:
                problems[path.name] = path, read_mdplib(path)
            except (InvalidProblem, UnicodeDecodeError, OSError) as error:
                raise DataError(f"{where}: {str(error).replace(str(folder), '').lstrip('/')}") from error
        table = Path(table) if table else next(iter(sorted(folder.rglob("best_known.csv"))), None)
        known = {} if table is None else _best_known(table)
        target = Path(out)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for path, _ in problems.values():
                _copy(path, target / path.name)
            if table is not None:
                _copy(table, target / "best_known.csv")
        except OSError as error:
            raise DataError(f"cannot write to {target}: {error.strerror or error}") from error
    fetched = []
    for name, (path, problem) in sorted(problems.items()):
        values = known.get(path.stem, {})
        for size in sorted({problem.size, *values}):
            fetched.append(Fetched(target / name, problem.n, size, *values.get(size, (None, ""))))
    return fetched


@contextmanager
def _local(where: str) -> Iterator[Path]:
    """A folder with the files, while the block runs."""
    with tempfile.TemporaryDirectory(prefix="fedselect-") as temporary:
        source, folder = Path(where), Path(temporary)
        if urllib.parse.urlsplit(where).scheme in ("http", "https", "file"):
            source = folder / (Path(urllib.parse.urlsplit(where).path).name or "download")
            try:
                with urllib.request.urlopen(where, timeout=_PATIENCE) as answer, source.open("wb") as stream:
                    while block := answer.read(2**20):
                        stream.write(block)
                        if stream.tell() > _LARGEST:
                            raise DataError(f"{where} is larger than {_LARGEST} bytes; fetch it yourself")
            except (urllib.error.URLError, TimeoutError, OSError, ValueError) as error:
                raise DataError(f"cannot fetch {where}: {getattr(error, 'reason', error)}") from error
        if source.is_dir():
            yield source
        elif not source.exists():
            raise DataError(f"there is no file or folder {where}")
        elif zipfile.is_zipfile(source):
            unpacked = folder / "unpacked"
            try:
                with zipfile.ZipFile(source) as archive:
                    check_archive(archive, source.stat().st_size)
                    archive.extractall(unpacked)  # which keeps members inside the folder, whatever they are called
            except _DAMAGE as error:
                raise DataError(f"cannot unpack {where}: {error}") from error
            yield unpacked
        elif source.suffix == ".txt":
            alone = folder / "alone"
            alone.mkdir()
            shutil.copyfile(source, alone / source.name)
            yield alone
        else:
            raise DataError(f"{where} is neither a folder, a .zip archive nor a .txt file")


def _copy(source: Path, target: Path) -> None:
    """Copy a file, in place of a link and not through it."""
    if target.is_symlink() or source.resolve() != target.resolve():
        write_atomically(target, source.read_bytes())


def _best_known(path: Path) -> dict[str, dict[int, tuple[float, str]]]:
    """Values by name and m."""
    known: dict[str, dict[int, tuple[float, str]]] = {}
    try:
        for row in csv.DictReader(io.StringIO(read_text(path), newline="")):
            known.setdefault(row["name"], {})[int(row["m"])] = float(row["best_known"]), row.get("source") or ""
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read the table {path}: {error}") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise DataError(
            f"{path} is no table of best known values: its columns are name, m (an integer) and best_known (a "
            f"number); {error!r} is wrong"
        ) from error
    return known
