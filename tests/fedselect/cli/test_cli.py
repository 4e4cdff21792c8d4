"""The command line as a person or a script meets it: in this process, and in its own where the process is the point."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from fedselect.experiments.folder import save_checkpoint
from solvers.environment import how_to_install
from tests.thoroughly import few_of
from tests.waiting import HANG, pressing_ctrl_c, until

CONFIG = """
[experiment]
name = "cli"
rounds = 3
clients_per_round = 3

[data]
name = "digits"
n_clients = 12

[compare.apart]
name = "fedgs"
method = "brute-force"
"""


INTERRUPTED = "fedselect: interrupted; what was finished is kept, and the same command continues\n"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "cli.toml"
    path.write_text(CONFIG)
    return path


def fedselect(*arguments):
    """The command line in a process whose environment is as bare as a cron job's or a container's, without a home."""
    command = [sys.executable, "-m", "fedselect", *map(str, arguments)]
    paths = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths}
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment)


@pytest.mark.thorough
def test_run_in_a_bare_environment_prints_a_table_and_its_folder(config, tmp_path):
    pytest.importorskip("torch")
    done = fedselect("run", config, "--out", tmp_path / "out", "--seed", 4)
    assert done.returncode == 0, done.stderr
    assert "final accuracy" in done.stdout
    folder = done.stdout.strip().splitlines()[-1].removeprefix("run folder: ")
    assert folder.endswith("-s4")
    assert done.stderr == ""  # no progress bar in a pipe


def test_run_as_json(call, config, tmp_path):
    pytest.importorskip("torch")
    _, out, _ = call("run", config, "--out", tmp_path, "-c", "selector.name=fedgs", "--format", "json")
    results = json.loads(out)
    assert results["rounds"] == 3
    assert results["proved"] == 1.0


def test_compare_tables_and_registered_names(call, config, tmp_path):
    pytest.importorskip("torch")
    arguments = ("compare", config, "--selectors", "uniform,apart", "--seeds", "0,2", "--out", tmp_path / "out")
    code, out, err = call(*arguments, "--report", tmp_path / "report", "--format", "json")
    assert code == 0, err
    rows = json.loads(out, parse_constant=pytest.fail)["runs"]  # NaN is not JSON
    assert [(row["selector"], row["seed"]) for row in rows] == [
        ("uniform", 0),
        ("uniform", 2),
        ("apart", 0),
        ("apart", 2),
    ]
    assert (tmp_path / "report" / "report.md").exists()


def test_list_names_what_there_is(call):
    found = json.loads(call("list", "--format", "json")[1])
    assert {"uniform", "fedgs"} <= {entry["name"] for entry in found["selector"]}
    assert {"cp-sat", "greedy", "auto"} <= {entry["name"] for entry in found["method for a DispersionProblem"]}
    assert "exact-search" in {entry["name"] for entry in found["method for a CappingProblem"]}
    assert "lognormal" in call("list")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-c", "experiment.roundz=3"], "unknown key 'roundz'"),
        (["-c", "availability.name=bernoulli", "-c", "availability.rate=0.0"], "none would ever be there"),
        (["-c", "experiment.clients_per_round=13"], "there are only 12 clients"),
        (["-c", "selector.name=fedgs", "-c", "selector.distances_file=nan.npy"], "entry (3, 7) is nan"),
        (["-c", "selector.name=fedgs", "-c", "selector.distances_file=skew.npy"], "must be symmetric"),
        (["--format", "yaml"], "--format must be 'text' or 'json'"),
    ],
)
def test_bad_input_is_one_sentence_exit_2_and_nothing_written(call, config, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    h = np.ones((12, 12)) - np.eye(12)
    h[3, 7] = 2
    np.save("skew.npy", h)
    h[3, 7] = np.nan
    np.save("nan.npy", h)
    code, _, err = call("run", config, "--out", "out", *arguments)
    assert code == 2
    assert err.startswith("fedselect: ")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_ctrl_c_says_that_nothing_is_lost(call, config, tmp_path, interruptible):
    pytest.importorskip("torch")
    with pressing_ctrl_c(lambda: any(tmp_path.glob("cli/*/checkpoint.npz"))):
        code, _, err = call("run", config, "-c", "experiment.rounds=100000", "--out", tmp_path)
    assert (code, err) == (130, INTERRUPTED)
    (folder,) = tmp_path.glob("cli/*")
    assert (folder / "checkpoint.npz").is_file()
    assert not (folder / "summary.json").exists()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_is_lost_ends_the_run_before_the_next_round(
    call, config, tmp_path, interruptible, monkeypatch, stop
):
    """As one that is raised in a ``__del__`` is."""
    pytest.importorskip("torch")

    def losing(path, state):
        save_checkpoint(path, state)
        with suppress(KeyboardInterrupt):
            signal.raise_signal(stop)

    monkeypatch.setattr("fedselect.experiments.folder.save_checkpoint", losing)
    code, _, err = call("run", config, "--out", tmp_path)
    assert (code, err) == (130, INTERRUPTED)
    (records,) = tmp_path.glob("cli/*/rounds.jsonl")
    assert len(records.read_text().splitlines()) == 1
    monkeypatch.undo()
    assert call("run", config, "--out", tmp_path)[0] == 0  # it is forgotten then


def test_only_what_is_kept_is_said_to_be(call, config, monkeypatch):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedselect.rounds.engine.decide", interrupted)
    monkeypatch.setattr("fedselect.cli.catalogue._everything", interrupted)
    for words in (("run", config, "--without-training"), ("list",)):
        assert call(*words) == (130, "", "fedselect: interrupted\n")


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_and_says_that_nothing_is_lost(config, tmp_path, stop):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "fedselect", "run", str(config), "-c", "experiment.rounds=100000"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    until(lambda: any(tmp_path.glob("cli/*/checkpoint.npz")), process)
    process.send_signal(stop)
    _, errors = process.communicate(timeout=HANG)
    assert (process.returncode, errors) == (130, INTERRUPTED)


@pytest.mark.thorough
def test_bad_seeds_are_a_sentence_from_the_process_too(config):
    done = fedselect("compare", config, "--seeds", "a-b")
    assert (done.returncode, done.stderr) == (2, "fedselect: seeds read like '0-4' or '0,3,7'; got 'a-b'\n")


def test_without_torch_training_says_what_to_install(config, tmp_path):
    """Stand in for an installation without the extra: a finder that refuses to import torch."""
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ImportError('No module named torch')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.argv = ['fedselect', 'run', {str(config)!r}, '--out', {str(tmp_path / 'out')!r}]\n"
        "from fedselect.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 2
    assert done.stderr == f"fedselect: training needs PyTorch, which is not installed: {how_to_install('fl')}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("stop", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("moment", few_of(["typer", "fedselect.cli.common", "command"], 1))
def test_a_signal_before_a_command_begins_is_a_line(stop, code, moment):
    """The signal comes while a module is imported, or while the tree of commands is put together."""
    script = (
        "import os, signal, sys\n"
        "def end():\n"
        f"    os.kill(os.getpid(), signal.{stop})\n"
        "class Ending:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {moment!r}:\n"
        "            end()\n"
        "sys.meta_path.insert(0, Ending())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from fedselect.__main__ import main\n"
        f"if {moment!r} == 'command':\n"
        "    import fedselect.cli\n"
        "    fedselect.cli.command = end\n"
        "sys.argv = ['fedselect', 'list', 'methods']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == "fedselect: ended before the command began\n"


def test_forked_workers_die_by_sigterm_at_once():
    """A handler in Python may never run in a worker that has begun to wait; its pool would wait for it without end."""
    code = (
        "import os, signal\n"
        "from fedselect.signals import end_as_by_ctrl_c\n"
        "end_as_by_ctrl_c()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "assert callable(signal.getsignal(signal.SIGTERM))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
