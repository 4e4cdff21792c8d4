"""``fedselect docs``: the how-to pages where there is no network."""

from __future__ import annotations

import re
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
    names |= {"choose", "questions", "exit_codes", "formats"}
    assert set(guides.pages()) == names
    assert len(names) > 10
    for name in names:
        assert name in listed
    assert "Bring your own solver" in listed


@pytest.mark.parametrize("name", sorted(guides.pages()))
def test_a_page_is_text_without_marks_of_the_build(name):
    text = told(name)
    assert text.startswith("# ")
    for mark in (
        "{code-cell}",
        "{csv-table}",
        "{doc}",
        "{ref}",
        "{term}",
        "The the ",
        ":tags:",
        "kernelspec",
        "remove-cell",
    ):
        assert mark not in text
    assert text.count("```") % 2 == 0


def test_a_word_names_the_pages_that_have_it():
    found = told("quotas")
    assert "constraints" in found
    with pytest.raises(ConfigError, match="no how-to page has 'solvin-g'; did you mean 'solving'"):
        told("solvin-g")


def test_the_wheel_has_the_pages_where_the_command_looks():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    place = f"fedselect/{guides._PLACES[0]}"
    further = {f"docs/{name}": f"{place}/{Path(name).name}" for name in guides.FURTHER}
    assert built["wheel"]["force-include"] == {"docs/how_to": place} | further
    for name in built["wheel"]["force-include"]:
        assert any(name.startswith(each) for each in built["sdist"]["include"])
        assert (ROOT / name).exists()


def test_a_page_that_is_not_here_is_said_to_be_online():
    text = told("certificates") + told("solving") + told("own_solver")
    named = set(re.findall(r"the page (\w+)(?! \()\b(?! \()", text))
    assert named
    assert named <= set(guides.pages())
    assert "the page formats" in text
    assert re.search(r"the page \w+ \(online\)", text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("The {doc}`tables <../benchmarks/index>` have both.", "The tables (the page benchmarks, online) have both."),
        ("a {doc}`federation <own_data>`, too", "a federation (the page own_data), too"),
        (
            "So it is. {doc}`../choose` and {doc}`flower` say it.",
            "So it is. The page choose and the page flower say it.",
        ),
        ("{doc}`../examples/own_loop` is one", "The page own_loop (examples of the repository) is one"),
        ("see {ref}`what-can-go-wrong` on a {term}`3DG`", 'see "What can go wrong" on a 3DG'),
    ],
)
def test_a_link_is_read_in_its_sentence(written, read):
    assert guides.plain(written) == read + "\n"
