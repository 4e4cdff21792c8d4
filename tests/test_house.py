"""House rules that no linter knows: names, lengths, first words of docstrings, repeated code."""

from __future__ import annotations

import ast
import importlib
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.house_debts import REPEATED, SHORT, SHORT_FOR_A_REASON, WHAT

ROOT = Path(__file__).parents[1]
PACKAGES = ("solvers", "graphs", "fedselect")

#: Lines a function may have without its docstring; ruff holds its branches (C901).
FUNCTION = 80

#: A module of fewer lines belongs to its neighbour, or there is a reason for it.
MODULE = 40

#: So many lines in two places are one thing.
ALIKE = 10

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


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def test_modules_are_not_scraps():
    """``__init__`` and ``__main__`` are as long as Python wants them."""
    modules = [path for path in _sources() if not path.name.startswith("__")]
    short = {_place(path) for path in modules if len(path.read_text("utf-8").splitlines()) < MODULE}
    assert short - set(SHORT_FOR_A_REASON) - SHORT == set()


def test_functions_are_short_or_say_why_not():
    """The docstring does not count; the reason stands in the three lines above, or in the first ones of the body."""
    long = set()
    for path in _sources():
        text = path.read_text("utf-8")
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _own_lines(node) > FUNCTION:
                start, body = node.lineno - 1, node.body[1 if len(node.body) > 1 else 0].lineno
                near = text.splitlines()[max(0, start - 3) : body]
                if not _reason(near, FUNCTION):
                    long.add(f"{_place(path)}:{node.name}")
    assert long == set()


def _docstrings(path: Path) -> Iterator[str]:
    texts = (ast.get_docstring(node) for node in ast.walk(_tree(path)) if isinstance(node, Defining))
    return (text for text in texts if text)


def test_docstrings_begin_with_a_verb_or_a_noun():
    """A first line says what is done, or names the thing; "What is left" makes the reader guess."""
    found = {_place(path) for path in _sources() if any(text.startswith("What") for text in _docstrings(path))}
    assert found - WHAT == set()


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
        for node in ast.walk(_tree(path))
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
    assert {_place(path): missing for path in pages if (missing := _missing(path.read_text("utf-8")))} == {}


def test_a_name_that_does_not_exist_is_found():
    text = "`solvers.solve`, `solvers.sovle`, `solvers.old` -> `solvers.solve`; tests/test_house.py, tests/house.py"
    text += "; tests/test_house.py::test_nothing, tests/test_house.py::test_nothing_stands_twice"
    assert _missing(text) == {"solvers.sovle", "tests/house.py", "tests/test_house.py::test_nothing"}


# -- repetition ----------------------------------------------------------------------------------------------------


def _telling(path: Path, *, docstrings: bool) -> list[tuple[int, str]]:
    """Numbered lines without imports, tables, fields, comments, blank lines and, unless wanted, docstrings."""
    left_out: set[int] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ClassDef):  # fields are data
            left_out.update(field.lineno for field in node.body if isinstance(field, ast.AnnAssign))
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_import or (is_text and not docstrings):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
    for node in _tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List | ast.Tuple | ast.Dict):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(path.read_text("utf-8").splitlines(), 1))
    return [(number, line) for number, line in lines if line and not line.startswith("#") and number not in left_out]


def _shape(line: str) -> str:
    """A line with one letter for every name, no text and the number 0."""
    line = re.sub(r"\"[^\"]*\"", '""', line)
    line = re.sub(r"\b\d[\d_.e]*", "0", line)
    return re.sub(r"[A-Za-z_]\w*", lambda name: name[0] if keyword.iskeyword(name[0]) else "n", line)


def _in_statements(body: Sequence[ast.stmt | ast.ExceptHandler]) -> Iterator[tuple[int, str]]:
    """Numbered shapes of the statements at every depth, one line each however they are wrapped, without data."""
    for node in body:
        if isinstance(node, ast.ClassDef):  # fields are data
            yield from _in_statements([each for each in node.body if not isinstance(each, ast.AnnAssign)])
            continue
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        parts = [getattr(node, name, []) for name in ("body", "handlers", "orelse", "finalbody", "cases")]
        if any(parts):  # the head of a block
            said = [ast.unparse(value) for value in ast.iter_child_nodes(node) if isinstance(value, ast.expr)]
            yield node.lineno, _shape(f"{type(node).__name__} {said}")
            for part in parts:
                yield from _in_statements(part)
        else:
            yield node.lineno, _shape(ast.unparse(node))


def _repeated(texts: dict[str, list[tuple[int, str]]]) -> dict[tuple[str, str], list[int]]:
    """Pairs of files (or a file twice) with equal windows of lines, and the lines of the first where they begin."""
    windows = defaultdict(list)
    for name, lines in texts.items():
        for start in range(len(lines) - ALIKE + 1):
            window = tuple(line for _, line in lines[start : start + ALIKE])
            windows[window].append((name, start))
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for places in windows.values():
        for at, (first, line) in enumerate(places):
            for second, other in places[at + 1 :]:
                if first != second or abs(other - line) >= ALIKE:
                    found[first, second].append(texts[first][line][0])
    return found


@pytest.mark.parametrize("alike", ["lines", "shapes", "statements"])
def test_nothing_stands_twice(alike):
    """Ten lines or more, docstrings with them; or ten of code that differ in names, numbers and texts alone.

    Statements are compared whole, too: a line that is wrapped in one place and not in the other hides nothing.
    """
    if alike == "statements":
        texts = {_place(path): list(_in_statements(_tree(path).body)) for path in _sources()}
    elif alike == "lines":
        texts = {_place(path): _telling(path, docstrings=True) for path in _sources()}
    else:
        code = {_place(path): _telling(path, docstrings=False) for path in _sources()}
        texts = {name: [(number, _shape(line)) for number, line in lines] for name, lines in code.items()}
    assert {pair: lines for pair, lines in _repeated(texts).items() if frozenset(pair) not in REPEATED} == {}


def test_a_repetition_is_found():
    lines = [(number, f"step({number})") for number in range(1, 12)]
    assert _repeated({"a": lines, "b": lines[1:], "c": lines[2:]}) == {("a", "b"): [2]}
    wrapped = "total = (\n    one\n    + two\n)\nif total:\n    show(total)"
    assert [line for _, line in _in_statements(ast.parse(wrapped).body)] == ["n = n + n", "n ['n']", "n(n)"]
    assert _shape('total = 3 * cost["x"] if new else 0') == 'n = 0 * n[""] if n else 0'
