"""Files that appear whole or not at all, and folders that one process has to itself."""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def appearing_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its place only when everything is on the disk.

    What stands there and is no file, a pipe or a device, is written to and not replaced; a link to a file is replaced
    and not followed.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    # A process id would be that of another node, too, where they share a folder; and no link can be planted here.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never a part."""
    with appearing_whole(path) as stream:
        stream.write(data)


@contextmanager
def text_appearing_whole(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """Open as `appearing_whole` does, for UTF-8 text."""
    with appearing_whole(Path(path)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.detach()  # which writes what is left; the file itself is closed where it was opened


def own_folder(path: Path) -> Path:
    """Make a folder below one of ours; raises `OSError` where a link stands in its place, which may lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, which is not followed; remove it or write elsewhere", str(path))
    path.mkdir(parents=True, exist_ok=True)
    return path


def spreadsheet_csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in which a spreadsheet takes no text for a formula.

    Texts, and names of columns, that begin with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return and are no
    numbers get an apostrophe in front.
    """
    safe = table.rename(columns=_no_formula)
    for place, kind in enumerate(table.dtypes):
        if kind.kind not in "biufcmM":
            safe.isetitem(place, table.iloc[:, place].map(_no_formula, na_action="ignore"))
    return bytes(safe.to_csv(index=False).encode())


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


@contextmanager
def alone(folder: Path, refusal: Exception) -> Iterator[None]:
    """Keep other processes out of a folder in the block, or raise ``refusal`` where one is; not on Windows."""
    try:
        import fcntl
    except ImportError:  # Windows: nothing keeps two processes apart
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        yield
    finally:
        os.close(handle)
