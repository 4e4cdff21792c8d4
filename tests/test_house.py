"""How the house is kept: what a name stands for, how long a file and a function may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("solvers", "graphs", "fedselect")

#: Names that still hide a module; nothing may join them.
HIDDEN: dict[str, set[str]] = {
    "fedselect.cli": {"bench", "report"},
    "fedselect.data": {"digits"},
    "fedselect.experiments": {"compare", "run"},
    "fedselect.recording": {"recipes", "record"},
    "fedselect.reports.document": {"html", "latex", "markdown", "save"},
}

#: Lines a file and a function may have.
FILE, FUNCTION = 300, 80


def _rooms() -> list[str]:
    """Dotted names of all packages."""
    folders = [path.parent for name in PACKAGES for path in sorted((ROOT / name).rglob("__init__.py"))]
    return [".".join(folder.relative_to(ROOT).parts) for folder in folders]


def _sources() -> list[Path]:
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]


def _bound(statement: ast.stmt, room: str) -> Iterator[str]:
    """Names that a statement of a package's own module binds to something that is no module of it."""
    if isinstance(statement, ast.ImportFrom) and (statement.module != room or statement.level):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


@pytest.mark.parametrize("room", _rooms())
def test_no_name_of_a_package_hides_a_module_in_it(room):
    """``from solvers.x import y`` must mean the module y wherever there is a module y."""
    folder = ROOT / Path(*room.split("."))
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    tree = ast.parse((folder / "__init__.py").read_text("utf-8"))
    bound = {name for statement in tree.body for name in _bound(statement, room)}
    assert (bound & modules) - HIDDEN.get(room, set()) == set()
