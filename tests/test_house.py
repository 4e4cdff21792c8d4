"""House rules that no linter knows: names that hide modules, tests that cannot fail, names that do not exist."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("solvers", "graphs", "fedselect")

Defining = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _rooms() -> list[str]:
    """Dotted names of all packages."""
    folders = [path.parent for name in PACKAGES for path in sorted((ROOT / name).rglob("__init__.py"))]
    return [".".join(folder.relative_to(ROOT).parts) for folder in folders]


@cache
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


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _docstrings(path: Path) -> Iterator[str]:
    texts = (ast.get_docstring(node) for node in (_tree(path), *_definitions(_tree(path).body)))
    return (text for text in texts if text)


def _definitions(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and classes at any depth; expressions, where none is, are not walked: they are most of a tree."""
    for statement in _statements(body):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
            yield from _definitions(statement.body)


# -- tests ---------------------------------------------------------------------------------------------------------


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a test at any depth, without those of functions and classes that it defines."""
    for statement in body:
        yield statement
        if not isinstance(statement, Defining):
            inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            inner += [handler.body for handler in getattr(statement, "handlers", [])]
            for statements in inner:
                yield from _statements(statements)


def _evasions(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Ways in which a test passes without its assertions, or by the speed of the machine."""
    for statement in _statements(function.body):
        if isinstance(statement, ast.Return):
            yield "returns"
        elif isinstance(statement, ast.Try):
            if any(isinstance(handler.body[0], ast.Pass) for handler in statement.handlers):
                yield "passes over an exception"
        elif isinstance(statement, ast.Assert):
            compared = [node for node in ast.walk(statement) if isinstance(node, ast.Compare)]
            limits = [(c.left, o) for c in compared for o in c.comparators if isinstance(c.ops[0], ast.Lt | ast.LtE)]
            if any(getattr(a, "attr", "") == "seconds" and isinstance(b, ast.Constant) for a, b in limits):
                yield "asserts a time"


def test_tests_assert_what_they_claim():
    """A case that does not fit is not drawn, or is counted (`asserted` in conftest); a time is for a benchmark."""
    functions = (
        (path, node)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in _definitions(_tree(path).body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )
    found = {f"{_place(path)}:{node.name}": ways for path, node in functions if (ways := sorted(_evasions(node)))}
    assert found == {}


def test_an_evasion_is_found():
    source = """
def test_nothing():
    for case in ():
        if case is None:
            return
    try:
        solve()
    except ValueError:
        pass
    assert solution.seconds < 3.0
    def helper():
        return 1
"""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert list(_evasions(function)) == ["returns", "passes over an exception", "asserts a time"]


# -- names ---------------------------------------------------------------------------------------------------------

_DOTTED = re.compile(r"(?<![\w./-])(?:solvers|graphs|fedselect)(?:\.[A-Za-z_]\w*)+")
_FILE = re.compile(r"(?<![\w./-])(?:solvers|graphs|fedselect|tests|docs|examples)/[\w./-]*\.(?:py|md|toml)\b")
_TEST = re.compile(r"\b(tests/[\w/]+\.py)::(test_\w+)")
_RENAMED = re.compile(r"`[^`\n]+` -> ")


def _stands_in_source(name: str) -> bool:
    """Whether a dotted name is a module or bound in one, or in a class there; nothing is imported to know it."""
    parts = name.split(".")
    for known in range(len(parts), 0, -1):
        file = ROOT / Path(*parts[:known])
        source = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if source.is_file():
            body = _tree(source).body
            for part in parts[known:]:
                if part not in {name for statement in body for name in _bound(statement, room="")}:
                    return False
                body = next((s.body for s in body if isinstance(s, ast.ClassDef) and s.name == part), [])
            return True
    return False


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module or an attribute; where an optional package is missing, it may be."""
    if _stands_in_source(name):
        return True
    parts = name.split(".")
    for known in range(len(parts), 0, -1):
        module = ".".join(parts[:known])
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name and not f"{module}.".startswith(f"{error.name}."):
                return True
            continue
        for attribute in parts[known:]:
            if attribute in getattr(found, "__dataclass_fields__", {}):  # a field without a default
                return True
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def _missing(text: str) -> set[str]:
    """Names and files that a text mentions and that do not exist; what ``->`` renames has existed."""
    text = _RENAMED.sub("", text)
    names = {name for name in _DOTTED.findall(text) if name.rpartition(".")[2] not in ("py", "toml", "md", "npz")}
    files = {file for file in _FILE.findall(text) if "FAMILY" not in file and not (ROOT / file).exists()}
    tests = {
        test for test in _TEST.findall(text) if (ROOT / test[0]).exists() and not _defines(ROOT / test[0], test[1])
    }
    return {name for name in names if not _resolves(name)} | files | {"::".join(test) for test in tests}


def _defines(path: Path, function: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in ast.walk(_tree(path)))


@pytest.mark.parametrize("package", PACKAGES)
def test_names_in_docstrings_exist(package):
    texts = {_place(path): "\n".join(_docstrings(path)) for path in _sources() if _place(path).startswith(package)}
    assert texts
    assert {place: missing for place, text in texts.items() if (missing := _missing(text))} == {}


def test_names_in_pages_exist():
    built = {"_build", "generated"}
    pages = [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if not built & set(path.parts))]
    assert {page.name for page in pages} >= {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
    texts = {_place(path): path.read_text("utf-8") for path in pages}
    sections = [found.start() for found in re.finditer(r"^## \[", texts["CHANGELOG.md"], re.MULTILINE)]
    assert len(sections) > 1
    texts["CHANGELOG.md"] = texts["CHANGELOG.md"][: sections[1]]  # older releases name what there was then
    assert {place: missing for place, text in texts.items() if (missing := _missing(text))} == {}


def test_names_that_mathematics_shortens_exist():
    """Tables of symbols and rules name the code without `solvers.dispersion`."""
    short = re.compile(r"`((?:kernels|tree|relaxations|methods)\.[A-Za-z_][\w.]*)`")
    pages = (ROOT / "docs" / "mathematics").glob("dispersion*.md")
    named = {(path.name, name) for path in pages for name in short.findall(path.read_text("utf-8"))}
    assert len(named) > 10
    assert {(page, name) for page, name in named if not _stands_in_source(f"solvers.dispersion.{name}")} == set()


def test_a_name_that_does_not_exist_is_found():
    text = "`solvers.solve`, `solvers.sovle`, `solvers.old` -> `solvers.solve`; tests/test_house.py, tests/house.py"
    text += "; tests/test_house.py::test_nothing, tests/test_house.py::test_an_evasion_is_found"
    assert _missing(text) == {"solvers.sovle", "tests/house.py", "tests/test_house.py::test_nothing"}
