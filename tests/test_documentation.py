"""What README and docstrings show is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


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


def test_commands_in_the_readme_exist():
    """Every ``fedselect`` command that README shows parses: its files are there and its options are known."""
    from typer.main import get_command

    from fedselect.cli import app

    lines = [line.split("#")[0] for line in README.splitlines() if line.startswith("fedselect ")]
    assert len(lines) >= 3
    for line in lines:
        arguments, command = shlex.split(line)[1:], get_command(app)
        while hasattr(command, "commands"):  # a group: fedselect, fedselect instances, ...
            name, *arguments = arguments
            command = command.commands[name]
        context = command.make_context(name, arguments)
        if "config" in context.params:
            assert (ROOT / context.params["config"]).exists()


def test_makefile_has_the_two_commands():
    text = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", text, flags=re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    local = [link.split("#")[0] for link in links if not link.startswith("http")]
    assert local or page != "README.md"
    assert [link for link in local if not (ROOT / link).exists()] == []
