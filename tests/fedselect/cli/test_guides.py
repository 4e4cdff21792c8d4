"""``fedselect docs``: the how-to pages where there is no network."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedselect.cli import app, guides
from fedselect.errors import ConfigError

ROOT = Path(__file__).parents[3]


def told(*words):
    done = CliRunner().invoke(app, ["docs", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0
    return done.stdout


def test_the_list_has_every_page_with_its_title():
    listed = told()
    names = {path.stem for path in (ROOT / "docs" / "how_to").glob("*.md")} - {"index"}
    assert set(guides.pages()) == names
    assert len(names) > 10
    for name in names:
        assert name in listed
    assert "Bring your own solver" in listed


@pytest.mark.parametrize("name", sorted(guides.pages()))
def test_a_page_is_text_without_marks_of_the_build(name):
    text = told(name)
    assert text.startswith("# ")
    for mark in ("{code-cell}", "{doc}", ":tags:", "kernelspec", "remove-cell"):
        assert mark not in text
    assert text.count("```") % 2 == 0


def test_a_word_names_the_pages_that_have_it():
    found = told("quotas")
    assert "constraints" in found
    with pytest.raises(ConfigError, match="no how-to page has 'solvin-g'; did you mean 'solving'"):
        told("solvin-g")


def test_the_wheel_has_the_pages_where_the_command_looks():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert built["wheel"]["force-include"] == {"docs/how_to": f"fedselect/{guides._PLACES[0]}"}
    assert "docs/how_to" in built["sdist"]["include"]
