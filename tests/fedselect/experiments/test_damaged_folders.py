"""A full disk, a damaged file, a file in a folder's place: a sentence, exit code 2, and the same command continues."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedselect.errors import RunError
from fedselect.experiments import Choice, Experiment, read_config, read_records, run, run_folder
from fedselect.experiments.checkpoint import load_checkpoint
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
        ("versions.json", "[]", "versions.json must name versions by package"),
        ("versions.json", '{"numpy": 2}', "versions.json must name versions by package"),
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
