"""The app that ``fedselect export-flower`` writes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from fedselect.errors import ConfigError
from fedselect.experiments import Experiment
from fedselect.integrations.flower import export_app
from tests.waiting import HANG

TABLES = {"experiment": {"rounds": 3, "clients_per_round": 2}, "data": {"name": "digits", "n_clients": 4}}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pathspec")
def test_the_app_is_what_flower_accepts_and_holds_the_experiment(tmp_path):
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.config import validate_config

    experiment = Experiment.from_tables(TABLES | {"selector": {"name": "fedgs", "alpha": 0.5}})
    folder = export_app(experiment, tmp_path / "app")
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    valid, errors, warnings = validate_config(project, check_module=True, project_dir=folder)
    assert (valid, errors, warnings) == (True, [], [])
    # It travels as one archive, in which Flower leaves out much: the configuration must be there.
    assert b"federation/config.toml" in build_fab_from_disk(folder)
    app = runpy.run_path(str(folder / "federation" / "app.py"))
    assert app["experiment"] == experiment
    assert {"server", "client"} <= set(app)
    assert tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"] == {
        "out": str(tmp_path / "app" / "runs"),
        "timeout": 3600.0,
        "identity-timeout": 30.0,
        "patience": 60.0,
    }


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty; a Flower app is written into a directory of its own"):
        export_app(Experiment.from_tables(TABLES), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the Flower app"):
        export_app(Experiment.from_tables(TABLES), tmp_path / "file" / "app")


def test_scripts_travel_in_their_own_encoding_and_one_that_cannot_be_decoded_is_a_sentence(tmp_path):
    script, text = tmp_path / "parts.py", "# coding: latin-1\nNAME = 'M\xe4dchen'\n"
    script.write_bytes(text.encode("latin-1"))
    experiment = Experiment.from_tables(TABLES | {"experiment": TABLES["experiment"] | {"load": [str(script)]}})
    folder = export_app(experiment, tmp_path / "app")
    assert (folder / "federation" / "parts.py").read_bytes() == script.read_bytes()
    script.write_bytes(text.splitlines()[1].encode("latin-1"))
    with pytest.raises(ConfigError, match=r"parts\.py is not in UTF-8, nor in an encoding that its first"):
        export_app(experiment, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def fedselect(*arguments):
    paths = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    command = [sys.executable, "-m", "fedselect", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=os.environ | {"PYTHONPATH": paths})


@pytest.mark.thorough
def test_the_command_writes_it_and_says_how_to_start_it(tmp_path):
    config = tmp_path / "small.toml"
    config.write_text('[experiment]\nclients_per_round = 2\n\n[data]\nname = "digits"\nn_clients = 5\n')
    done = fedselect("export-flower", config, tmp_path / "app", "-c", "selector.name=fedau")
    assert done.returncode == 0, done.stderr
    assert f"flwr run {tmp_path / 'app'} local" in done.stdout
    assert "num-supernodes=5" in done.stdout
    assert 'name = "fedau"' in (tmp_path / "app" / "federation" / "config.toml").read_text()
