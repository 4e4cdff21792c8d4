"""What is received is not executed: reading commands load no plugin, and commands that run name what they load."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedselect import plugins
from fedselect.errors import missing_extra
from fedselect.terminal import print_table
from solvers import instances
from solvers.files import appearing_whole, own_folder, spreadsheet_csv, write_atomically
from tests.thoroughly import few_of
from tests.waiting import HANG

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
    for known in plugins.loaded_plugins():  # as in a process that has not loaded it yet
        plugins._forget(known)
    code, _, err = call("report", folder)
    assert (code, err) == (0, "")
    assert not (received / "executed").exists()
    assert "loading" in call("list", "--load", "evil.py")[2]
    assert (received / "executed").exists()


def fedselect(*arguments, **options):
    command = [sys.executable, "-m", "fedselect", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=HANG, **options)


def test_a_closed_stdout_is_a_sentence():
    command = f"{shlex.quote(sys.executable)} -m fedselect list uniform >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, timeout=HANG)
    assert (done.returncode, done.stderr) == (
        2,
        "fedselect: standard output is closed; send it to a file, or to /dev/null\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_stdout_is_a_sentence_however_little_is_printed():
    with open("/dev/full", "w") as full:
        done = fedselect("--version", stdout=full)
    assert (done.returncode, done.stderr) == (2, "fedselect: No space left on device\n")


@pytest.mark.parametrize(
    "environment",
    few_of(
        [
            {"PYTHONIOENCODING": "ascii", "COLUMNS": "²", "MPLBACKEND": "no such thing"},
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        ],
        1,
    ),
    ids=["ascii, COLUMNS and MPLBACKEND", "C"],
)
def test_any_environment_lists_what_there_is(environment):
    done = fedselect("list", env=os.environ | environment, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fedgs" in done.stdout


def test_a_window_system_that_is_not_there_costs_no_picture(call, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "no such thing")
    call("list", "uniform")
    assert os.environ["MPLBACKEND"] == "agg"


def test_escape_codes_reach_no_terminal(call, tmp_path, capsys):
    name = "a\x1b]0;b\x07c.npz"
    (tmp_path / name).write_bytes(b"nothing")
    code, out, err = call("solve", tmp_path / name)
    assert code == 2
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
    print_table(("\x1b[31m",), [("\x1b[31mred\u202e",)], caption="\x1b[0m")
    assert not re.search("[\x1b\u202e]", capsys.readouterr().out)


@pytest.mark.parametrize(
    "text", ['name = "a\\u0000b"', "rounds = " + "[" * 5000, "[experiment]\nname = 3", "compare = 1"]
)
def test_a_damaged_configuration_is_a_sentence(call, tmp_path, text):
    (tmp_path / "bad.toml").write_text(text if text[0] == "[" or "compare" in text else f"[experiment]\n{text}")
    for command in (("run",), ("compare",), ("report",), ("instances", "record", "--rounds", "0")):
        code, out, err = call(*command, tmp_path / "bad.toml")
        assert (code, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("script.toml", "pipe.py"),
        ("trace.toml", "/dev/zero"),
        pytest.param("trace.toml", "pipe.py", marks=pytest.mark.thorough),
        pytest.param("folder.toml", "pipe.py", marks=pytest.mark.thorough),
        pytest.param("folder.toml", "/dev/zero", marks=pytest.mark.thorough),
    ],
)
def test_a_configuration_that_names_a_pipe_or_a_device_is_a_sentence(received, file, named):
    """Both would be read without an end: in a process of its own, which a time limit ends."""
    os.mkfifo(received / "pipe.py")
    plain = CONFIG.replace('load = ["evil.py"]', "")
    (received / "trace.toml").write_text(f'{plain}\n[availability]\nname = "trace"\npath = "{named}"\n')
    (received / "folder.toml").write_text(f'{plain}\n[selector]\nname = "fedgs"\ndistances_file = "{named}"\n')
    (received / "script.toml").write_text(f'load = ["pipe.py"]\n{plain}')
    done = fedselect("run", file, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "it is a pipe" in done.stderr


@pytest.mark.parametrize("override", ["experiment=1", "experiment.rounds.deep=1", "data.n_clients=" + "9" * 400])
def test_a_damaged_override_is_a_sentence(received, call, override):
    (received / "plain.toml").write_text(CONFIG.replace('load = ["evil.py"]', ""))
    code, out, err = call("run", "plain.toml", "-c", override)
    assert (code, out, err.count("\n")) == (2, "", 1), err


def test_a_report_is_not_written_through_a_planted_link(call, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/report").symlink_to(tmp_path / "elsewhere")
    code, _, err = call("report", tmp_path / "run")
    assert code == 2
    assert "run/report is a link, which is not followed" in err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_files_replace_links_and_formulas_are_text(tmp_path):
    (tmp_path / "kept").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    write_atomically(tmp_path / "link", b"new")
    assert ((tmp_path / "kept").read_text(), (tmp_path / "link").read_bytes()) == ("mine", b"new")
    (tmp_path / f".link.{os.getpid()}.partial").symlink_to(tmp_path / "kept")
    write_atomically(tmp_path / "link", b"newer")
    assert ((tmp_path / "kept").read_text(), (tmp_path / "link").read_bytes()) == ("mine", b"newer")
    (tmp_path / "folder").symlink_to(tmp_path)
    with pytest.raises(OSError, match="it is a link, which is not followed"):
        own_folder(tmp_path / "folder")
    cells = ["=cmd|' /C calc'!A0", "+1+1", "@a", "-0.5", "-a", "plain", None, "-inf"]
    table = pd.DataFrame({"=head": cells, "number": np.arange(8) - 4.5})
    back = pd.read_csv(io.BytesIO(spreadsheet_csv(table)))
    assert back["'=head"].tolist()[:6] == ["'=cmd|' /C calc'!A0", "'+1+1", "'@a", "-0.5", "'-a", "plain"]
    assert back["number"].tolist() == table["number"].tolist()
    plain = table.drop(columns="=head")
    assert spreadsheet_csv(plain) == plain.to_csv(index=False).encode()


def test_two_writers_of_one_process_id_both_write_a_whole_file(tmp_path):
    """As on two nodes that share a folder: neither takes the other's partial file."""
    path = tmp_path / "index.html"
    with appearing_whole(path) as first:
        first.write(b"first, ")
        with appearing_whole(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"whole")
    assert path.read_bytes() == b"first, whole"
    assert [each.name for each in tmp_path.iterdir()] == ["index.html"]


@pytest.mark.parametrize("suffix", few_of([".lp", ".mps", ".qubo", ".pb"], 1))
def test_an_export_on_a_full_disk_leaves_no_file(tmp_path, suffix):
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed")
    name = next(each for each in instances.names("dispersion") if instances.info(each).n >= 40)
    command = ["instances", "export", name, tmp_path / f"model{suffix}"]
    done = subprocess.run(
        ["prlimit", "--fsize=2000", sys.executable, "-m", "fedselect", *map(str, command)],
        capture_output=True, text=True, check=False, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_loaded_is_not_called_missing():
    error = missing_extra(
        "numpy", "NumPy is not installed", ImportError("libx.so: failed to map segment from shared object")
    )
    assert str(error).startswith("numpy is installed, and cannot be loaded: there is not enough memory")
    assert str(missing_extra("no_such_module", "It is not installed", ImportError())) == "It is not installed"
    assert "is installed, and cannot be loaded (wrong version)" in str(
        missing_extra("numpy", "", ImportError("wrong version"))
    )
