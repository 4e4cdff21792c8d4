"""``fedselect reproduce``."""

from __future__ import annotations

import importlib
import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedselect.cli import app
from fedselect.cli.reproduce import STUDIES
from fedselect.errors import ConfigError
from fedselect.studies.provenance import provenance


def stand_in(folder, called):
    """A study's main that leaves a short and a long table and a figure."""

    def main(arguments):
        called.append(arguments)
        folder.mkdir(exist_ok=True)
        (folder / "table-1.csv").write_text("a\n1\n")
        (folder / "results.csv").write_text("a\n" + "1\n" * 201)
        (folder / "counts.png").write_bytes(b"\x89PNG")
        return folder

    return main


def test_hands_the_settings_on_and_says_where_tables_come_from(tmp_path, monkeypatch):
    called, tables = [], tmp_path / "paper-digits"
    monkeypatch.setattr(importlib.import_module("fedselect.studies.fedss"), "main", stand_in(tables, called))
    command = ["reproduce", "fedss", "--paper", "--dataset", "digits", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert called == [
        ["--paper", "--root", "data", "--jobs", "2", "--out", str(tmp_path), "--dataset", "digits"],
    ]
    written = json.loads((tables / "provenance.json").read_text())
    assert written["command"].startswith("fedselect reproduce fedss --paper")
    assert written["machine"]["cores"] >= 1
    # Called again, as after an interruption: the seconds are those of both calls.
    (tables / "provenance.json").write_text(json.dumps(written | {"seconds": 1000.0}))
    CliRunner().invoke(app, command)
    assert json.loads((tables / "provenance.json").read_text())["seconds"] >= 1000


def test_a_gallery_has_figures_and_short_tables_and_says_where_they_are_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called, gallery = [], tmp_path / "gallery"
    for name in STUDIES.values():
        module = importlib.import_module(f"fedselect.studies.{name}")
        monkeypatch.setattr(module, "main", stand_in(tmp_path / name, called))
    for command in (["fedss", "--dataset", "mnist"], ["all"], ["all"]):
        done = CliRunner().invoke(app, ["reproduce", *command, "--gallery", str(gallery)])
        assert done.exit_code == 0, done.output
    assert len(called) == 1 + 2 * len(STUDIES)
    labels = sorted([*STUDIES.values(), "fedss_mnist"])
    copies = {f"{label}_{name}" for label in labels for name in ("table_1.csv", "counts.png")}
    assert {file.name for file in gallery.iterdir()} == copies | {"provenance.csv"}
    rows = pd.read_csv(gallery / "provenance.csv")
    assert rows["study"].tolist() == labels
    assert rows["command"].str.startswith("fedselect reproduce").all()
    done = CliRunner().invoke(app, ["reproduce", "all", "--dataset", "digits"])
    assert "leave --dataset and --out" in str(done.exception)


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_is_a_module_with_a_main(study):
    module = importlib.import_module(f"fedselect.studies.{STUDIES[study]}")
    with pytest.raises(SystemExit) as end:
        module.main(["--help"])
    assert end.value.code == 0


def test_an_unknown_study_is_named():
    done = CliRunner().invoke(app, ["reproduce", "fedg"])
    assert isinstance(done.exception, ConfigError)
    assert "did you mean 'fedgs'?" in str(done.exception)


def test_provenance_holds_what_one_needs():
    found = provenance("fedselect reproduce fedgs", 12.34)
    assert found["seconds"] == 12.3
    assert found["versions"]["numpy"]
