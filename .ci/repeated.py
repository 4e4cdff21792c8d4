"""List code that stands twice in the packages: ten statements or more that differ in names, numbers and texts alone.

Advice for a clean-up, not a gate: two places that look alike may be two ideas, and one idea may hide under other names.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("solvers", "graphs", "fedselect")

#: So many statements of one shape in two places are worth a look.
ALIKE = 10


def main() -> None:
    """Print each pair of places, the longest runs first."""
    texts = {}
    for path in sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        body = ast.parse(path.read_text("utf-8")).body
        texts[path.relative_to(ROOT).as_posix()] = list(shapes(body))
    found = repeated(texts)
    for (first, second), lines in sorted(found.items(), key=lambda each: -len(each[1])):
        print(f"{first}:{lines[0]} ~ {second} ({len(lines) + ALIKE - 1} statements)")
    print(f"{len(found)} pairs of files share {ALIKE} statements or more")


def shapes(body: Sequence[ast.stmt | ast.ExceptHandler]) -> Iterator[tuple[int, str]]:
    """Yield the numbered shapes of statements at every depth, without docstrings, imports and fields of classes."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from shapes([each for each in node.body if not isinstance(each, ast.AnnAssign)])
            continue
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        parts = [getattr(node, name, []) for name in ("body", "handlers", "orelse", "finalbody", "cases")]
        if any(parts):
            heads = [ast.unparse(value) for value in ast.iter_child_nodes(node) if isinstance(value, ast.expr)]
            yield node.lineno, shape(f"{type(node).__name__} {heads}")
            for part in parts:
                yield from shapes(part)
        else:
            yield node.lineno, shape(ast.unparse(node))


def shape(line: str) -> str:
    """Write one letter for every name, no text, and the number 0."""
    line = re.sub(r"\b\d[\d_.e]*", "0", re.sub(r"\"[^\"]*\"|'[^']*'", "''", line))
    return re.sub(r"[A-Za-z_]\w*", lambda name: name[0] if keyword.iskeyword(name[0]) else "n", line)


def repeated(texts: dict[str, list[tuple[int, str]]]) -> dict[tuple[str, str], list[int]]:
    """Find pairs of files (or a file twice) with equal windows; the lines of the first file where they begin."""
    windows = defaultdict(list)
    for name, lines in texts.items():
        for start in range(len(lines) - ALIKE + 1):
            windows[tuple(line for _, line in lines[start : start + ALIKE])].append((name, start))
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for places in windows.values():
        for at, (first, line) in enumerate(places):
            for second, other in places[at + 1 :]:
                if first != second or abs(other - line) >= ALIKE:
                    found[first, second].append(texts[first][line][0])
    return found


if __name__ == "__main__":
    main()
