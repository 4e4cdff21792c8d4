"""``fedselect reproduce``."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import fedselect.studies
from fedselect.cli import app
from fedselect.errors import ConfigError
from fedselect.studies import STUDIES, fedss
from fedselect.studies.study import Picture, Setup, Table, load_study, provenance


def stand_in(name, monkeypatch, seen):
    """Put a study of the same data sets in its place, which leaves a short and a long table and a figure."""

    def results(setup):
        seen.append(setup)
        yield Table(pd.DataFrame({"a": [1]}), file="table-1")
        yield Table(pd.DataFrame({"a": [1] * 201}), file="results")
        yield Picture(Figure(figsize=(1, 1)), "counts")

    module = importlib.import_module(f"fedselect.studies.{name.replace('-', '_')}")
    monkeypatch.setattr(module, "STUDY", replace(module.STUDY, results=results))


def test_hands_the_settings_on_and_says_where_tables_come_from(tmp_path, monkeypatch):
    seen, tables = [], tmp_path / "paper-digits"
    stand_in("fedss", monkeypatch, seen)
    command = ["reproduce", "fedss", "--paper", "--dataset", "digits", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert seen == [Setup(fedss.PAPER, "digits", Path("data"), tables, 2)]
    written = json.loads((tables / "provenance.json").read_text())
    assert written["command"] == (
        f"fedselect reproduce fedss --paper --root data --jobs 2 --out {tmp_path} --dataset digits"
    )
    assert written["machine"]["cores"] >= 1
    # Called again, as after an interruption: the seconds are those of both calls.
    (tables / "provenance.json").write_text(json.dumps(written | {"seconds": 1000.0}))
    CliRunner().invoke(app, command)
    assert json.loads((tables / "provenance.json").read_text())["seconds"] >= 1000


def test_a_gallery_has_figures_and_short_tables_and_says_where_they_are_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen, gallery = [], tmp_path / "gallery"
    for name in STUDIES:
        stand_in(name, monkeypatch, seen)
    for command in (["fedss", "--dataset", "mnist"], ["all"], ["all"]):
        done = CliRunner().invoke(app, ["reproduce", *command, "--gallery", str(gallery)])
        assert done.exit_code == 0, done.output
    assert len(seen) == 1 + 2 * len(STUDIES)
    assert seen[1].out == Path("studies/fedgs/quick-synthetic")
    labels = sorted([*(name.replace("-", "_") for name in STUDIES), "fedss_mnist"])
    copies = {f"{label}_{name}" for label in labels for name in ("table_1.csv", "counts.png")}
    assert {file.name for file in gallery.iterdir()} == copies | {"provenance.csv"}
    rows = pd.read_csv(gallery / "provenance.csv")
    assert rows["study"].tolist() == labels
    assert rows["command"].str.startswith("fedselect reproduce").all()
    done = CliRunner().invoke(app, ["reproduce", "all", "--dataset", "digits"])
    assert "leave --dataset and --out" in str(done.exception)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_loaded_and_says_what_it_shows(name):
    study = load_study(name)
    assert study.title
    assert len(set(study.datasets)) == len(study.datasets) > 0
    assert type(study.quick) is type(study.paper)
    assert study.quick != study.paper


def test_every_module_that_defines_a_study_is_listed():
    folder = Path(fedselect.studies.__file__).parent
    defining = {path.stem.replace("_", "-") for path in folder.glob("*.py") if "\nSTUDY = " in path.read_text()}
    assert defining == set(STUDIES)


@pytest.mark.parametrize("bad", [["--jobs", "two"], ["--nothing"]])
def test_arguments_that_are_not_accepted_end_the_command(bad):
    done = CliRunner().invoke(app, ["reproduce", "fedss", *bad])
    assert done.exit_code == 2
    assert bad[0] in done.output


def test_a_data_set_that_the_study_does_not_have_is_an_error(tmp_path):
    done = CliRunner().invoke(app, ["reproduce", "graph-worth", "--dataset", "mnist", "--out", str(tmp_path)])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "the data set of this study must be one of 'digits'; got 'mnist'"


def test_an_unknown_study_is_named():
    done = CliRunner().invoke(app, ["reproduce", "fedg"])
    assert isinstance(done.exception, ConfigError)
    assert "did you mean 'fedgs'?" in str(done.exception)


def test_provenance_holds_what_one_needs():
    found = provenance("fedselect reproduce fedgs", 12.34)
    assert found["seconds"] == 12.3
    assert found["versions"]["numpy"]
