"""Check a wheel: every tracked file of the packages and nothing else, and what its metadata say."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

ROOT, WHEEL = Path(sys.argv[1]), Path(sys.argv[2])
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIGURATION["project"]
#: The version stands in one file, from which the build reads it.
PROJECT["version"] = re.search(r'"(\d[^"]*)"', (ROOT / "solvers" / "version.py").read_text(encoding="utf-8"))[1]
BUILD = CONFIGURATION["tool"]["hatch"]["build"]["targets"]["wheel"]
#: Where each tracked folder that is shipped lies in the wheel: the packages in their place, the how-to pages in one.
FOLDERS = {folder: folder for folder in BUILD["packages"]} | BUILD["force-include"]


def main() -> None:
    """Exit with a sentence where the wheel is not as it should be."""
    with ZipFile(WHEEL) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        head = f"{PROJECT['name']}-{PROJECT['version']}.dist-info"
        metadata = Parser().parsestr(wheel.read(f"{head}/METADATA").decode())
        commands = wheel.read(f"{head}/entry_points.txt").decode()
    shipped = {name for name in names if not name.startswith(head)}
    tracked = set()
    for folder, place in FOLDERS.items():
        listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, check=True, text=True)
        files = (name for name in listed.stdout.split("\0") if name and (ROOT / name).exists())
        tracked |= {place + name.removeprefix(folder) for name in files}
    expect(shipped == tracked, f"missing: {sorted(tracked - shipped)}; not in git: {sorted(shipped - tracked)}")
    # Named one by one, so that a file that leaves git by mistake is missed all the same.
    for name in (
        *(f"{package}/py.typed" for package in BUILD["packages"]),
        "solvers/instances/index.json",
        "solvers/instances/ledger.json",
        "fedselect/guides/index.md",
        "fedselect/recording/recipes.toml",
        "fedselect/reports/document/page.html",
        "fedselect/reports/document/page.css",
        "fedselect/reports/document/page.js",
    ):
        expect(name in shipped, f"{name} is missing")
    expect(any(name.endswith(".xz") for name in shipped), "the instances' data are missing")
    for field, value in (("Name", "name"), ("Version", "version"), ("Summary", "description")):
        expect(metadata[field] == PROJECT[value], f"{field} is {metadata[field]!r}")
    expect(metadata["License-Expression"] == PROJECT["license"], f"licence {metadata['License-Expression']!r}")
    expect(set(metadata["Requires-Python"].split(",")) == set(PROJECT["requires-python"].split(",")), "Requires-Python")
    expect(set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"]), "the extras differ")
    plain = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    expect(len(plain) == len(PROJECT["dependencies"]), f"dependencies without an extra: {plain}")
    expect(not any("torch" in each or "flwr" in each for each in plain), f"a light install needs {plain}")
    for name, target in PROJECT["scripts"].items():
        expect(f"{name} = {target}" in commands, f"no command {name}")
    size = WHEEL.stat().st_size / 2**20
    print(f"{WHEEL.name}: {len(shipped)} files, {size:.1f} MiB, as tracked; metadata as declared")


def expect(condition: bool, sentence: str) -> None:
    """Exit with a sentence unless a condition holds."""
    if not condition:
        raise SystemExit(f"{WHEEL.name}: {sentence}")


if __name__ == "__main__":
    main()
