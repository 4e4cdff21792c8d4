"""Comparisons on another engine than this machine's processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from fedselect.errors import ConfigError, RunError
from fedselect.experiments import Choice, Experiment, carried_by, compare, read_records, run_all

TABLES = {"experiment": {"rounds": 3, "clients_per_round": 2}, "data": {"name": "digits", "n_clients": 6}}


@pytest.mark.parametrize("backend", ["abacus", "dask"])
def test_what_joblib_does_not_have_is_a_sentence(backend):
    with pytest.raises(ConfigError, match=f"joblib cannot use the backend '{backend}': "), carried_by(backend):
        pytest.fail("there is no such backend")


def test_one_job_is_carried_by_nothing(call):
    code, _, err = call("compare", "none.toml", "--backend", "ray")
    assert code == 2
    assert "--backend ray carries two jobs or more, and one runs here; give --jobs 2, say" in " ".join(err.split())


@pytest.mark.thorough
def test_a_worker_that_dies_is_a_sentence(tmp_path):
    with pytest.raises(RunError, match="a worker process died"):
        run_all([Experiment.from_tables(TABLES)], tmp_path, jobs=2, plots=False, callbacks=lambda *run: os._exit(1))


def test_an_address_where_nothing_answers_is_a_sentence(monkeypatch):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(ConfigError, match=f"nothing answers at 127.0.0.1:{port}, where"), carried_by("ray"):
        pass


@pytest.mark.deployment
def test_a_comparison_on_ray_is_the_comparison_here(tmp_path):
    """The same runs, through the command and a Ray that it starts on this machine."""
    pytest.importorskip("ray")
    pytest.importorskip("torch")
    (tmp_path / "small.toml").write_text(tomli_w.dumps(TABLES))
    command = f"{sys.executable} -m fedselect compare small.toml --selectors uniform --seeds 0-1 --jobs 2 --backend ray"
    paths = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    environment = os.environ | {"PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(command.split(), capture_output=True, text=True, timeout=240, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Started a local Ray instance" in done.stderr
    here = compare(Experiment.from_tables(TABLES), {"uniform": Choice("uniform")}, [0, 1], tmp_path / "here")
    for folder in here.folders["uniform"]:
        there = tmp_path / "runs" / folder.relative_to(tmp_path / "here")
        for first, second in zip(read_records(folder), read_records(there), strict=True):
            assert (first["selected"], first["loss"]) == (second["selected"], second["loss"])
