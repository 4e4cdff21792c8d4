"""What a user meets on the screen: sentences for what is wrong with files and scripts, names that are never cut."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedselect
import solvers
from tests.thoroughly import few_of
from tests.waiting import HANG

ROOT = Path(fedselect.__file__).parents[1]
SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"
LONG = "fedgs-digits-dirichlet-n100-m10-bernoulli-papergraph-r25"


def command(*words, cwd, before):
    """The command line in a process of its own, which ``before`` prepares."""
    # Under a limit on files, bytecode that it cached would be cut short, and no later process could import it.
    environment = os.environ | {"COLUMNS": "80", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "fedselect", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=before,
        timeout=HANG,
    )


def refused(code, errors, sentence):
    assert code == 2, errors
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("fedselect: ")
    assert sentence in errors


def test_the_version_is_told_everywhere(call):
    assert call("--version")[1] == f"fedselect {fedselect.__version__}\n"
    assert solvers.__version__ == fedselect.__version__


def garbage(tmp_path):
    (tmp_path / "bytes.npz").write_bytes(bytes(range(256)))
    (tmp_path / "bytes.txt").write_bytes(bytes(range(128, 256)))
    with (tmp_path / "array.npz").open("wb") as stream:
        np.save(stream, np.ones(3))
    np.savez(tmp_path / "list.npz", header=np.array("[]"))
    header = '{"format": "solvers-problem/1", "type": "DispersionProblem", "family": "dispersion", "scalars": {}}'
    np.savez(tmp_path / "nothing.npz", header=np.array(header))
    np.savez(tmp_path / "untyped.npz", header=np.array('{"format": "solvers-problem/1"}'))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bytes.npz", "is not a problem file"),
        ("bytes.txt", "is not an MDPLIB file"),
        ("array.npz", "is not a problem file (solvers-problem/1): it holds a single array"),
        ("list.npz", "its header is no table"),
        ("nothing.npz", "does not state a DispersionProblem"),
        ("untyped.npz", "its header lacks the type or the scalars"),
    ],
)
def test_garbage_is_no_problem(name, sentence, tmp_path):
    from solvers import InvalidProblem
    from solvers.benchmark.plan import resolve_instance

    garbage(tmp_path)
    with pytest.raises(InvalidProblem) as refusal:
        resolve_instance(tmp_path / name)
    assert sentence in str(refusal.value)


def no_room():
    """A disk that is full after 600 bytes, as far as this process can tell."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))


def test_solve_on_a_full_disk(tmp_path):
    done = command("solve", SMALL, "--method", "greedy", "--out", "found.json", cwd=tmp_path, before=no_room)
    refused(done.returncode, done.stderr, "cannot write found.json: File too large")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_bench_on_a_full_disk(tmp_path):
    words = ("bench", "dispersion", "--instances", SMALL, "--methods", "greedy", "--out", "b", "--jobs", "1")
    done = command(*words, cwd=tmp_path, before=no_room)
    refused(done.returncode, done.stderr, "cannot write b: File too large")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no device that is always full")
def test_a_device_is_written_to_and_not_replaced():
    from solvers.files import write_atomically

    with pytest.raises(OSError, match="No space left"):
        write_atomically(Path("/dev/full"), b"x" * 100_000)
    assert Path("/dev/full").is_char_device()


def test_solve_into_a_folder(call, tmp_path):
    code, _, errors = call("solve", SMALL, "--method", "greedy", "--out", tmp_path)
    refused(code, errors, "it is a folder; give the name of a file")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("def (", "line 1 of"),
        ("import nothing_there", "No module named 'nothing_there'"),
        ("\n1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_broken_script_is_named_with_its_line(script, sentence, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(script)
    words = ("bench", "dispersion", "--instances", SMALL, "--methods", "greedy", "--load", "own.py")
    code, _, errors = call(*words)
    refused(code, errors, "own.py: ")
    assert sentence in errors


def test_names_are_whole_at_80_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = call("instances", "list", "--family", "dispersion")
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    first = "".join(line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│"))
    assert LONG in first
    assert "left out for want of width: KiB, problem" in out
    monkeypatch.setenv("COLUMNS", "200")
    wide = call("instances", "list", "--family", "dispersion")[1]
    assert "KiB" in wide.splitlines()[1]


def test_bench_shows_both_lenses_at_80_columns(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    words = ("bench", "dispersion", "--instances", SMALL, "--methods", "milp,greedy", "--no-repeat")
    code, out, errors = call(*words, "--out", "b")
    assert code == 0, errors
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    cells = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert cells == ["milp", "greedy"]
    assert "native" in out
    assert "|bound - objective| / |objective|" in out.replace("\n", " ")


@pytest.mark.parametrize("name", few_of(["solvers", "graphs"], 1))
def test_a_module_that_shadows_ours_is_named(name, tmp_path):
    (tmp_path / f"{name}.py").write_text("def greedy(): ...\n")
    (tmp_path / "script.py").write_text("import fedselect\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: fedselect needs its own package '{name}', but ")
    assert str(tmp_path / f"{name}.py") in last
