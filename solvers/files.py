"""Files that appear whole or not at all, and folders that one process has to itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["alone", "appearing_whole", "write_atomically"]


@contextmanager
def appearing_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its place only when everything is on the disk.

    What stands there and is no file, a pipe or a device, is written to and not replaced.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
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
def alone(folder: Path, refusal: Exception) -> Iterator[None]:
    """Keep other processes out of a folder, or raise ``refusal`` where one is; the lock ends with this process."""
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
