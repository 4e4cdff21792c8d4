"""A full disk, a damaged file, a file in a folder's place: a sentence, exit code 2, and the same command continues."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from fedselect.errors import ConfigError, RunError
from fedselect.experiments import Choice, Experiment, read_config, read_records, run, run_folder
from fedselect.experiments.folder import load_checkpoint
from fedselect.experiments.reading import RecordedRun
from fedselect.reports import read_report

CONFIG = """[experiment]
name = "mini"
rounds = 3
clients_per_round = 2
[data]
name = "digits"
n_clients = 8
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mini.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    pytest.importorskip("torch")
    out = tmp_path_factory.mktemp("damaged")
    experiment = Experiment("mini", rounds=3, clients_per_round=2, data=Choice("digits", {"n_clients": 8}))
    return experiment, out, run(experiment, out, plots=False)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="a limit on the size of files is set with Linux's prlimit")
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
def test_a_full_disk_is_a_sentence_and_the_run_continues(config, tmp_path, call):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "fedselect", "run", str(config), "--out", str(tmp_path / "runs")]
    ended = subprocess.run(["prlimit", "--fsize=4000", *command], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert "cannot write the run folder" in ended.stderr
    assert not list(tmp_path.rglob("*.partial"))
    code, _, _ = call("run", config, "--out", tmp_path / "runs")
    assert code == 0
    assert len(read_records(run_folder(read_config(config)[0], tmp_path / "runs"))) == 3


@pytest.mark.parametrize("arguments", [("run",), ("compare", "--selectors", "uniform", "--seeds", "0")])
def test_a_file_where_the_folders_should_be(config, tmp_path, call, arguments):
    pytest.importorskip("torch")
    (tmp_path / "runs").write_text("")
    code, out, err = call(arguments[0], config, *arguments[1:], "--out", tmp_path / "runs")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot write the run folder" in err
    assert (tmp_path / "runs").read_text() == ""


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"PK\x03\x04 and no more",
        archive(tree="{"),
        archive(a=np.zeros(2)),
        archive(tree='{"a": {"__array__": "x"}}'),
    ],
)
def test_what_is_no_checkpoint_is_a_sentence(tmp_path, data):
    (tmp_path / "checkpoint.npz").write_bytes(data)
    with pytest.raises(RunError, match=r"cannot read .*checkpoint.npz, which is damaged or no checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.npz")


def test_the_checkpoint_of_something_else_is_a_sentence(finished, tmp_path):
    experiment, out, _ = finished
    shutil.copytree(out, tmp_path, dirs_exist_ok=True)
    folder = run_folder(experiment, tmp_path)
    (folder / "summary.json").unlink()
    (folder / "checkpoint.npz").write_bytes(archive(tree='{"colour": "red"}'))
    with pytest.raises(RunError, match=r"checkpoint.npz is no state of this run"):
        run(experiment, tmp_path, plots=False)


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("origin.json", "[]", "origin.json: it is not of the format"),
        ("origin.json", '{"format": "run-origin/2", "files": {}, "code": {"a": 2}}', "its code must be texts by name"),
        ("origin.json", '{"format": "run-origin/2", "files": {}, "code": {}, "versions": {}}', "its processor must be"),
        ("summary.json", "[]", "summary.json must name results"),
        ("rounds.jsonl", "[]\n", "line 1 is not the record of round 0"),
        ("rounds.jsonl", '{"round": 1}\n', "line 1 is not the record of round 0"),
        ("rounds.jsonl", "{\n", "cannot read .*rounds.jsonl"),
        ("config.toml", "experiment = 3\n", "config.toml has no .experiment."),
    ],
)
def test_a_report_of_a_damaged_folder_is_a_sentence(finished, tmp_path, file, text, sentence):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / file).write_text(text)
    with pytest.raises(RunError, match=sentence):
        read_report(tmp_path / "run")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_what_the_system_says_is_a_sentence_whoever_hears_it():
    """Where nobody has foreseen a full disk, as for stdout."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fedselect", "list"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "fedselect: No space left on device\n")


RECORD = {
    "round": 0, "available": [0, 1], "selected": [0], "applied": [1.0], "returned": [0], "failed": [],
    "solution": None, "loss": 1.0, "accuracy": None, "select_seconds": 0.1, "train_seconds": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"available": [3_000_000_000]}, "available must be a list of clients below 8"),
        ({"available": [-1]}, "available must be"),
        ({"selected": [True]}, "selected must be"),
        ({"selected": [[0]]}, "selected must be"),
        ({"selected": [[0], 1]}, "selected must be"),
        ({"returned": [10**30]}, "returned must be"),
        ({"failed": {}}, "failed must be"),
        ({"applied": ["a"]}, "a weight for each client that is selected"),
        ({"applied": []}, "a weight for each client that is selected"),
        ({"loss": "low"}, "loss must be a number; got 'low'"),
        ({"loss": 10**400}, "loss must be a number; got 1000000"),
        ({"solution": []}, "solution must be a table"),
        ({"solution": {"status": 1}}, "solution: objective is missing"),
        ({"metrics": [1]}, "metrics must be a table"),
        ({"metrics": {"f1": "high"}}, "f1 must be a number; got 'high'"),
        ({"train_seconds": None}, "train_seconds must be a number; got None"),
    ],
)
def test_a_record_says_what_a_record_says(finished, tmp_path, change, sentence):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run/summary.json").unlink()
    (tmp_path / "run/rounds.jsonl").write_text(json.dumps(RECORD) + "\n")
    assert len(RecordedRun.read(tmp_path / "run").table) == 1
    (tmp_path / "run/rounds.jsonl").write_text(json.dumps(RECORD | change) + "\n")
    with pytest.raises(RunError, match=re.escape(sentence)):
        read_report(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"experiment": {"seed": "x"}}, "experiment.seed must be an integer"),
        ({"experiment": {"rounds": -5}}, "experiment.rounds is -5"),
        ({"experiment": {"clients_per_round": [1]}}, "experiment.clients_per_round must be an integer"),
        ({"experiment": {"name": 3}}, "experiment.name must be text"),
        ({"data": {"n_clients": 10**12}}, "data.n_clients must lie between 1 and 10000000"),
        ({"data": {"name": ["digits"]}}, "data.name must be text"),
        ({"selector": {"name": 1}}, "selector.name must be text"),
    ],
)
def test_a_configuration_of_a_run_says_what_its_report_needs(finished, tmp_path, change, sentence):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    tables = tomllib.loads((folder / "config.toml").read_text())
    for section, keys in change.items():
        tables[section] |= keys
    (tmp_path / "run/config.toml").write_bytes(tomli_w.dumps(tables).encode())
    with pytest.raises(RunError, match=sentence):
        read_report(tmp_path / "run")


@pytest.mark.parametrize("file", ["config.toml", "origin.json", "summary.json", "rounds.jsonl"])
@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 5000, b"\0", b'{"a": "\\u0000"}\n', b"9" * 5000])
def test_other_bytes_and_deep_values_are_sentences(finished, tmp_path, file, data):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / file).write_bytes(data + b"\n")
    with pytest.raises(RunError, match="cannot read"):
        read_report(tmp_path / "run")


@pytest.mark.parametrize("file", ["config.toml", "rounds.jsonl", "clients.csv"])
def test_a_pipe_in_a_folder_is_not_waited_for(finished, tmp_path, file):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / file).unlink()
    os.mkfifo(tmp_path / "run" / file)
    with pytest.raises(RunError, match="a pipe, a device or a folder"):
        read_report(tmp_path / "run")


def test_a_finished_run_has_all_its_rounds(finished, tmp_path):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run/rounds.jsonl").write_text("")
    with pytest.raises(RunError, match="it is finished, and has 0 rounds"):
        read_report(tmp_path / "run")


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ({"a": ["../elsewhere"]}, "'../elsewhere', which is no folder inside"),
        ({"a": ["/etc"]}, "'/etc', which is no folder inside"),
        ({"a": ["."]}, "'.', which is no folder inside"),
        ({"a": ["link"]}, "'link', which is no folder inside"),
        ({"a": [3]}, "does not give a run for every label and seed"),
        ({"a": []}, "does not give a run for every label and seed"),
        ([["a"]], "does not give a run for every label and seed"),
    ],
)
def test_a_comparison_stays_inside_its_folder(finished, tmp_path, runs, sentence):
    _, _, folder = finished
    shutil.copytree(folder, tmp_path / "elsewhere")
    there = tmp_path / "compared"
    there.mkdir()
    (there / "link").symlink_to(tmp_path / "elsewhere")
    (there / "comparison.json").write_text(json.dumps({"format": "selectors-comparison/1", "seeds": [0], "runs": runs}))
    with pytest.raises(RunError, match=re.escape(sentence)):
        read_report(there)


def test_the_name_of_an_experiment_can_be_printed():
    for name in ("a\x1b[31mb", "a\nb", "a\u202eb"):
        with pytest.raises(ConfigError, match="name must be usable as a folder name"):
            Experiment(name)
