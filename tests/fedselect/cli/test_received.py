"""What is received is not executed: reading commands load no plugin, and commands that run name what they load."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONFIG = """
load = ["evil.py"]

[experiment]
name = "received"
rounds = 1
clients_per_round = 2

[data]
name = "digits"
n_clients = 6
"""

#: Leaves a trace where it is executed, and registers something, as a plugin must.
EVIL = """
from pathlib import Path
from fedselect.selectors import SELECTORS

Path(__file__).with_name("executed").touch()

@SELECTORS.register("evil")
def evil(scenario):
    raise RuntimeError("built")
"""

READING = {
    "report": ("report", "received.toml"),
    "export-flower": ("export-flower", "received.toml", "app"),
    "record": ("instances", "record", "received.toml", "--rounds", "0"),
    "show": ("instances", "show", "received.toml"),
    "submit": ("instances", "submit", "received.toml", "--check"),
    "verify": ("verify", "received.toml"),
}


@pytest.fixture
def received(tmp_path, monkeypatch, forgetting):
    (tmp_path / "received.toml").write_text(CONFIG)
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_a_command_that_reads_executes_nothing_that_a_file_names(received, call, command):
    if command[0] == "export-flower":
        pytest.importorskip("flwr")
    code, out, err = call(*command)
    assert not (received / "executed").exists()
    assert (code, out, err.count("\n")) == (2, "", 1) or (command[0] == "verify" and code == 3)
    if command[1] in ("received.toml", "record") and command[0] != "verify":
        assert "received.toml names the plugin evil.py" in err
        assert "give it with --load if you trust it" in err


def test_the_section_may_not_hide_it(received, call):
    (received / "received.toml").write_text(
        CONFIG.replace('load = ["evil.py"]', "").replace("rounds", 'load = ["evil.py"]\nrounds', 1)
    )
    assert "names the plugin evil.py" in call("report", "received.toml")[2]
    assert not (received / "executed").exists()


@pytest.mark.parametrize("load", ["evil.py", "./evil.py"])
def test_the_person_may_trust_it(received, call, load):
    code, _, err = call("report", "received.toml", "--load", load, "--out", "page")
    assert code == 0, err
    assert (received / "executed").exists()
    assert (received / "page/report.html").is_file()
    assert err == f"fedselect: loading {received / 'evil.py'}, which executes it\n"


@pytest.mark.parametrize(
    "command",
    [
        ("run", "received.toml", "-c", "selector.name=nothing"),
        ("compare", "received.toml", "--selectors", "nothing"),
        ("solve", "nothing", "--load", "evil.py"),
        ("bench", "dispersion", "--instances", "nothing", "--load", "evil.py"),
        ("list", "--load", "evil.py"),
    ],
)
def test_a_command_that_runs_names_what_it_executes(received, call, command):
    _, _, err = call(*command)
    assert err.startswith(f"fedselect: loading {received / 'evil.py'}, which executes it\n")
    assert (received / "executed").exists()


def test_a_run_folder_that_is_reported_executes_nothing(received, call):
    pytest.importorskip("torch")
    assert call("run", "received.toml", "--out", "runs")[0] == 0
    (received / "executed").unlink()
    (folder,) = (received / "runs/received").iterdir()
    # A process that has not loaded it yet.
    done = subprocess.run(
        [sys.executable, "-m", "fedselect", "report", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "loading" not in done.stderr
    assert not (received / "executed").exists()
