"""``fedselect reproduce``."""

from __future__ import annotations

import importlib
import json

import pytest
from typer.testing import CliRunner

from fedselect.cli import app
from fedselect.cli.reproduce import STUDIES
from fedselect.errors import ConfigError
from fedselect.studies.provenance import provenance


def test_hands_the_settings_on_and_says_where_tables_come_from(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(importlib.import_module("fedselect.studies.fedss"), "main", called.append)
    done = CliRunner().invoke(app, ["reproduce", "fedss", "--paper", "--dataset", "digits", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert called == [
        ["--paper", "--root", "data", "--out", str(tmp_path), "--jobs", "2", "--dataset", "digits"],
    ]
    written = json.loads((tmp_path / "provenance.json").read_text())
    assert written["command"].startswith("fedselect reproduce fedss --paper")
    assert written["machine"]["cores"] >= 1


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
