"""What files and code contain, in a few digits: cheap to ask again, and the same for a copy."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import fedselect
import graphs
import solvers

__all__ = ["contents", "package_sources"]

#: Larger files are known by their size and their two ends.
_WHOLE = 256 * 2**20
_END = 2**20

#: Folders with more files are known by their files' names and sizes.
_MANY = 5000

#: Where the code is that decides a run. What only shows, records or drives it may change.
_DECIDING = (
    (fedselect, ("availability", "data", "rounds", "selectors", "training", "embeddings.py", "randomness.py")),
    (graphs, (".",)),
    (solvers, (".",)),
)
_ASIDE = {"benchmark", "instances", "log.py", "outline.py", "shown.py", "stored.py", "suggestions.py", "versions.py"}


def contents(path: str | Path) -> str:
    """Sixteen hex digits of what a file, or every file in a folder, holds; ``"missing"`` where there is nothing.

    Names of a folder's files count, its own name and times do not. A file that cannot be read is as good as missing:
    whoever needs it says so.
    """
    path = Path(path)
    try:
        if not path.is_dir():
            return _file(path)
        found = sorted(each for each in path.rglob("*") if each.is_file())
        told = hashlib.sha256()
        for each in found:
            held = str(each.stat().st_size) if len(found) > _MANY else _file(each)
            told.update(f"{each.relative_to(path).as_posix()}\0{held}\n".encode())
        return told.hexdigest()[:16] if found else "missing"
    except OSError:
        return "missing"


@lru_cache(maxsize=1)
def package_sources() -> dict[str, str]:
    """Digests of the toolkit's own code that decides a run, by room: ``"fedselect/selectors"``, ``"graphs"``."""
    rooms: dict[str, str] = {}
    for package, parts in _DECIDING:
        home = Path(package.__path__[0])
        for part in parts:
            place = home / part
            files = [place] if place.is_file() else sorted(place.rglob("*.py"))
            told = hashlib.sha256()
            for file in files:
                relative = file.relative_to(home)
                if package is solvers and relative.parts[0] in _ASIDE:
                    continue
                told.update(f"{relative.as_posix()}\0".encode() + file.read_bytes())
            rooms[(Path(home.name) / part).as_posix()] = told.hexdigest()[:16]
    return rooms


def _file(path: Path) -> str:
    stat = path.stat()
    return _digest(str(path.resolve()), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=100_000)
def _digest(path: str, size: int, modified: int) -> str:
    """Size and time are there to ask again when they change."""
    told = hashlib.sha256(str(size).encode())
    with open(path, "rb") as stream:
        if size <= _WHOLE:
            while block := stream.read(_END):
                told.update(block)
        else:
            told.update(stream.read(_END))
            stream.seek(-_END, 2)
            told.update(stream.read(_END))
    return told.hexdigest()[:16]
