"""Environment of a computation: versions of packages, the processor, the commit of the code."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from solvers.version import __version__

#: Where this code lies, which is a checkout for those who publish results.
_HERE = Path(__file__).parent


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of those of the ``packages`` that are installed here."""
    found = {package: version for package in packages if (version := _version(package)) is not None}
    return {"python": platform.python_version()} | found


@cache
def _version(package: str) -> str | None:
    """Version of a package, read once in a process: hundreds of short runs write it down."""
    if package == "fedselect":  # the code that runs; what pip knows of a checkout is of the day it was installed
        return __version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def how_to_install(extra: str) -> str:
    """Return the command that brings what an extra of this package names, from where it stands.

    In a checkout pip takes the folder with the extra; elsewhere, as from a wheel, the packages themselves, since the
    package may be on no index.
    """
    if (_HERE.parent / "pyproject.toml").is_file():
        return f"pip install '{_HERE.parent}[{extra}]'"
    wanted = extra.split(",")
    try:
        stated = [each.partition(";") for each in importlib.metadata.requires("fedselect") or ()]
    except importlib.metadata.PackageNotFoundError:
        stated = []
    named = ((name.strip(), re.fullmatch(r"extra == ['\"](.+)['\"]", marker.strip())) for name, _, marker in stated)
    packages = [name for name, found in named if found and found[1] in wanted]
    return "pip install " + " ".join(f"'{each}'" for each in packages or [f"fedselect[{extra}]"])


def processor() -> str:
    """Return the processor's own name, where the system tells, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def machine() -> str:
    """Return processor, number of cores and system, as a table of seconds states them."""
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}"


def commit() -> str | None:
    """Return the commit of the checkout that this code lies in, ``-dirty`` where tracked files differ, or None."""
    if not (_HERE.parent / ".git").exists():
        return None
    described = ("git", "-C", str(_HERE), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        return subprocess.run(described, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
