"""How the house is kept: what a name stands for, how long a file and a function may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("solvers", "graphs", "fedselect")

#: Lines a file and a function may have.
FILE, FUNCTION = 600, 80


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
    assert bound & modules == set()


def _reason(lines: list[str], most: int) -> bool:
    """Whether one of the lines says why it is longer than so many: ``# Longer than 300 lines: because ...``."""
    return any(re.match(rf"\s*# Longer than {most} lines: \S.{{15,}}", line) for line in lines)


def _own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    first = function.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return _lines(function) - (_lines(first) if is_text else 0)


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_files_are_short_or_say_why_not():
    long = set()
    for path in _sources():
        lines = path.read_text("utf-8").splitlines()
        if len(lines) > FILE and not _reason(lines[:10], FILE):
            long.add(path.relative_to(ROOT).as_posix())
    assert long == set()


def test_functions_are_short_or_say_why_not():
    """The docstring does not count; the reason stands in the three lines above, or in the first ones of the body."""
    long = set()
    for path in _sources():
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _own_lines(node) > FUNCTION:
                start, body = node.lineno - 1, node.body[1 if len(node.body) > 1 else 0].lineno
                near = text.splitlines()[max(0, start - 3) : body]
                if not _reason(near, FUNCTION):
                    long.add(f"{path.relative_to(ROOT).as_posix()}:{node.name}")
    assert long == set()
