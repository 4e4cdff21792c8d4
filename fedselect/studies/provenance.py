"""Where a study's tables come from: command, commit, machine, versions, seconds; kept beside them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fedselect
from solvers.versions import installed

__all__ = ["provenance", "write_provenance"]


def provenance(command: str, seconds: float) -> dict[str, Any]:
    """What one has to know to run a study again.

    Parameters
    ----------
    command : str
        What was typed.
    seconds : float
        How long it took.

    Returns
    -------
    dict
        JSON values. ``commit`` is the one of the checkout the code lies in, with ``-dirty`` where files differ from
        it, and None where it is installed and not a checkout.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "fedselect": fedselect.__version__,
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.platform(terse=True)},
        "python": platform.python_version(),
        "versions": installed(("numpy", "scipy", "numba", "scikit-learn", "torch")),
        "seconds": round(seconds, 1),
    }


def write_provenance(folder: Path, command: str, seconds: float) -> Path:
    """Write it as ``provenance.json`` into ``folder``, and return the file's path.

    Where the same command was stopped and called again on the same commit and machine, the seconds add up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, found = folder / "provenance.json", provenance(command, seconds)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if all(before.get(key) == found[key] for key in ("command", "commit", "machine", "versions")):
            found["seconds"] = round(found["seconds"] + before["seconds"], 1)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def _commit() -> str | None:
    root = Path(fedselect.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    described = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        return subprocess.run(described, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
