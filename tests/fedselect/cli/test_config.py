"""``fedselect config`` and ``fedselect init``: keys that are all explained, a file that runs."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import replace

import pytest

from fedselect.clock import ClockSettings
from fedselect.experiments import Experiment, read_config
from fedselect.training.settings import TrainingSettings


def test_every_key_has_a_meaning_and_its_default(call):
    code, printed, _ = call("config", "keys", "--format", "json")
    found = {entry["key"]: entry for entry in json.loads(printed)}
    assert code == 0
    training = {f"training.{field.name}" for field in dataclasses.fields(TrainingSettings)}
    choices = {f"{section}.name" for section in ("data", "availability", "dropout", "selector", "clock")}
    choices |= {f"clock.{field.name}" for field in dataclasses.fields(ClockSettings)}
    head = {f.name for f in dataclasses.fields(Experiment)} - {
        "data",
        "availability",
        "dropout",
        "selector",
        "clock",
        "training",
    }
    choices |= {"data.client_test_fraction"} | {f"experiment.{name}" for name in head}
    assert set(found) == training | choices
    assert all(len(entry["meaning"]) > 10 and "`" not in entry["meaning"] for entry in found.values())
    assert found["training.decay"]["default"] == TrainingSettings().decay
    assert found["experiment.time_limit"]["default"] == Experiment().time_limit
    assert found["data.name"]["default"] == "digits"


def test_keys_are_found_by_section_and_part(call):
    assert "server_momentum" in call("config", "keys", "momentum")[1]
    assert "learning_rate" not in call("config", "keys", "experiment")[1]
    code, _, error = call("config", "keys", "learning_rat_e")
    assert code == 2
    assert "did you mean" in error


@pytest.mark.thorough
def test_the_starting_file_runs(tmp_path, call, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert call("init")[0] == 0
    code, printed, error = call("compare", "experiment.toml", "--seeds", "0", "-c", "experiment.rounds=2")
    assert code == 0, error
    assert "fedgs" in printed
    assert call("run", "experiment.toml", "-c", "experiment.rounds=1")[0] == 0
    code, _, error = call("config", "init")
    assert (code, error) == (2, "fedselect: experiment.toml is there already; name another file, or remove it\n")
    assert "ends in .toml" in call("init", "a.json")[2]
    assert "there is no folder" in call("init", "none/a.toml")[2]


def test_comments_of_the_starting_file_are_the_defaults(tmp_path, call):
    """Taking all the marks away changes nothing but what a run is called."""
    path = tmp_path / "all.toml"
    assert call("init", path)[0] == 0
    plain, variants = read_config(path)
    text = path.read_text()
    opened = re.sub(r"^# (\w+ = |\[clock\])", r"\1", text, flags=re.MULTILINE)
    assert opened.count("\n") == text.count("\n")
    path.write_text(opened)
    full, with_options = read_config(path)
    assert full.training == plain.training
    choices = ("data", "availability", "dropout", "selector", "clock")
    assert replace(full, **{name: getattr(plain, name) for name in choices}) == plain
    assert list(variants) == list(with_options)
    assert len(with_options["fedgs"]) > len(variants["fedgs"])
    assert re.findall(r"^# \w+ = ", text, flags=re.MULTILINE)
