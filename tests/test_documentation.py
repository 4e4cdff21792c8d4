"""What README, the pages and docstrings show is run; what they link to is there."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

from fedselect.rounds.protocol import RoundContext, RoundFeedback
from fedselect.selectors import SELECTORS
from solvers import solve
from solvers.version import __version__

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if not {"_build", "generated"} & set(path.parts)),
]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]


def modules():
    for package in ("solvers", "graphs", "fedselect"):
        yield package
        for found in pkgutil.walk_packages([str(ROOT / package)], prefix=f"{package}."):
            if not found.name.endswith("__main__"):
                yield found.name


@pytest.mark.parametrize("name", list(modules()))
def test_examples_in_docstrings(name, scratch_registry):
    try:
        module = importlib.import_module(name)
    except ImportError as error:  # an optional extra, named by the module itself
        pytest.skip(str(error))
    assert doctest.testmod(module).failed == 0


def test_python_in_the_readme_runs(scratch_registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    solution = namespace["solution"]
    assert solution.gap is not None
    assert solution.selected.size == 8


def test_templates_in_contributing_run(scratch_registry, restoring):
    restoring(SELECTORS)
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, "CONTRIBUTING.md", "exec"), namespace)
    problem = namespace["DispersionProblem"](np.ones((6, 6)) - np.eye(6), size=3)
    assert solve(problem, "my-method").objective == 6.0
    there = np.array([False, True, True, True])
    context = RoundContext(0, there, np.ones(4, dtype=np.int64), np.random.default_rng(0))
    assert namespace["FirstCome"](2).select(context).clients.tolist() == [1, 2]
    covering = namespace["CoveringProblem"](np.eye(3))
    assert (covering.objective([1, 1, 0]), covering.violation([1, 1, 0])) == (2.0, 1.0)


@pytest.mark.parametrize("path", PAGES[2:], ids=NAMES[2:])
def test_code_on_a_page_is_run_by_the_build(path):
    """A page has cells, which the build executes, or other files' text; no Python that nobody runs."""
    assert "```python" not in path.read_text(encoding="utf-8")


def test_the_page_of_own_selectors_has_every_field_and_uses_each():
    """A row with type and meaning for each field of context and feedback, and a selector that reads them all."""
    page = (ROOT / "docs/how_to/own_selector.md").read_text(encoding="utf-8")
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", page, re.DOTALL)
    for name, kind in (("round", RoundContext), ("feedback", RoundFeedback)):
        fields = [each.name for each in dataclasses.fields(kind)]
        rows = re.findall(rf"^\| `{name}\.(\w+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
        assert sorted(rows) == sorted(fields)
        (whole,) = [cell for cell in cells if "class Everything" in cell]
        assert all(f"{name}.{field}" in whole for field in fields)
    namespace: dict[str, object] = {}
    for cell in (cells[0], *(cell for cell in cells if "Everything" in cell)):
        exec(compile(cell, "own_selector.md", "exec"), namespace)
    assert namespace["done"].metrics["validation_loss"] > 0


def test_makefile_has_the_two_commands():
    text = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [link.partition("#") for link in links if not link.startswith("http")]
    assert local or path.name != "README.md"
    assert [file for file, _, _ in local if not (path.parent / file).exists()] == []
    for file, _, place in local:
        if place:
            assert place in anchors(path.parent / file if file else path)


def anchors(path):
    """What ``#...`` may name on a page: its headings, as Sphinx and the common forge write them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_pictures_have_a_text_alternative(path):
    for alternative in re.findall(r"!\[([^\]]*)\]", path.read_text(encoding="utf-8")):
        assert len(alternative) > 10


def test_what_is_cited_is_this_version():
    """Others read CITATION.cff, the page on citing and the changelog; the version is told in `solvers.version`."""
    cited = dict(
        re.findall(r"^(version|date-released): (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    )
    assert cited["version"] == __version__
    assert re.findall(r"version = {(.*)}", (ROOT / "docs/project/citing.md").read_text()) == [__version__]
    released = re.findall(
        r"^## \[(\d.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert released[0] == (__version__, cited["date-released"])


def sentences(text):
    """Yield a page's sentences: no code, formulas, tables, headings, directives, lists of files or targets of links."""
    text = re.sub(r"\A---\n.*?\n---\n|```.*?```|<!--.*?-->|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"^(#|\||:::|!\[|\(|\[\^?\w+\]:).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`|\$[^$]*\$|\{\w+\}", "`x`", text))
    for block in re.split(r"\n\s*\n|\n\s*(?:[*-]|\d+\.) ", text):
        if not block.strip().startswith(("Files", "Command")):
            yield from re.split(r"(?<=[.!?:])\**\s+(?=[A-Z*`\[(])", " ".join(block.split()))


SHORT = [path for path in [*PAGES, ROOT / "paper.md"] if not re.search(r"mathematics|/0\.[12]\.0/", path.as_posix())]


@pytest.mark.parametrize("path", SHORT, ids=[str(path.relative_to(ROOT)) for path in SHORT])
def test_sentences_of_a_page_are_short(path):
    """Half of them have at most 20 words, nine of ten at most 30; fragments below four words do not count."""
    lengths = [len(each.split()) for each in sentences(path.read_text(encoding="utf-8")) if len(each.split()) > 3]
    lengths += [0] * (5 - len(lengths))  # a page of a sentence or two has no quantiles to speak of
    median, most = (round(float(np.quantile(lengths, q)), 6) for q in (0.5, 0.9))
    assert (median <= 20, most <= 30) == (True, True), f"median {median:g} words, nine of ten up to {most:g}"
