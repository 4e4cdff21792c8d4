"""Run folders of commit 49b4068, with `clients` and `importance` renamed: read, found finished, continued."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fedselect.errors import RunError
from fedselect.experiments import Choice, Experiment, read_records, read_summary, run, run_folder
from fedselect.reports import read_report

OLD = Path(__file__).parent / "folders_of_0_1"

EXPERIMENT = Experiment(
    name="before",
    rounds=4,
    clients_per_round=3,
    data=Choice("digits", {"n_clients": 8}),
    availability=Choice("lognormal", {"beta": 0.3}),
    dropout=Choice("bernoulli", {"rate": 0.3}),
    selector=Choice("fedgs", {"method": "brute-force"}),
)

#: What processor and version do not change.
DECIDED = ("available", "selected", "weights", "applied", "returned", "failed", "missing")


def test_a_finished_folder_is_read():
    folder = run_folder(EXPERIMENT, OLD / "finished")
    assert folder.name == "fedgs-ed0a44cb-s0"
    assert len(read_records(folder)) == read_summary(folder)["rounds"] == 4
    assert read_report(folder).tables[0].key == "results"


def test_a_finished_folder_is_found_finished(tmp_path):
    shutil.copytree(OLD / "finished", tmp_path, dirs_exist_ok=True)
    folder = run(EXPERIMENT, tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in (OLD / "finished" / "before" / folder.name).iterdir()
    }


def test_a_folder_that_was_stopped_is_continued_to_the_same_decisions(tmp_path):
    pytest.importorskip("torch")
    shutil.copytree(OLD / "stopped", tmp_path, dirs_exist_ok=True)
    records = read_records(run(EXPERIMENT, tmp_path, plots=False))
    finished = read_records(run_folder(EXPERIMENT, OLD / "finished"))
    assert records[:2] == read_records(run_folder(EXPERIMENT, OLD / "stopped"))
    assert [[record[key] for key in DECIDED] for record in records] == [
        [record[key] for key in DECIDED] for record in finished
    ]
    for ours, theirs in zip(records, finished, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["solution"]["objective"] == pytest.approx(theirs["solution"]["objective"], rel=1e-12)


def test_a_folder_of_another_run_is_refused(tmp_path):
    pytest.importorskip("torch")
    shutil.copytree(OLD / "stopped", tmp_path, dirs_exist_ok=True)
    config = run_folder(EXPERIMENT, tmp_path) / "config.toml"
    config.write_text(config.read_text().replace("learning_rate = 0.1\n", "learning_rate = 0.2\n", 1))
    with pytest.raises(RunError, match="holds a run of another configuration"):
        run(EXPERIMENT, tmp_path, plots=False)
