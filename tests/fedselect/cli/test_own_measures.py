"""Measures of a user's own: of the model at every client, and of the run; four lines each, in every table and page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedselect.errors import ConfigError
from fedselect.experiments import read_records
from fedselect.measures import MEASURES, Measure, known_run_measures, measure, measures_of, run_measures
from fedselect.reports import read_report
from fedselect.training.losses import METRICS

SCRIPT = """
from fedselect.measures import measure

@measure("zeros-found", of="model", title="zeros found", better="more")
def zeros(outputs, labels):
    "Share of the zeros that are classified rightly."
    return float((outputs.argmax(1)[labels == 0] == 0).float().mean()) if (labels == 0).any() else float("nan")

@measure("never_selected", of="run", better="less", form="{:.2f}")
def never(run):
    "Share of the clients that were never selected."
    return float((run.counts == 0).mean())

@measure("half", of="client")
def half(run):
    "Half its selections."
    return run.counts / 2

@measure("twice", of="round")
def twice(record):
    "Twice the selected."
    return 2 * len(record["selected"])
"""

CONFIG = """
[experiment]
name = "own"
rounds = 3
clients_per_round = 2
[data]
name = "digits"
n_clients = 6
partition = "iid"
[training]
metrics = ["zeros-found"]
evaluate_clients_every = 1
[compare.a]
name = "uniform"
[compare.b]
name = "fedgs"
method = "brute-force"
"""


@pytest.fixture
def compared(tmp_path, call, monkeypatch, forgetting):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # parallel workers have 80, where columns are left out
    (tmp_path / "mine.py").write_text(SCRIPT)
    (tmp_path / "own.toml").write_text(CONFIG)
    code, out, err = call("compare", "own.toml", "--seeds", "0-1", "--load", "mine.py", "--out", ".")
    assert code == 0, err
    return tmp_path / "own", out


def test_they_are_in_every_file_table_and_page(compared, call):
    folder, printed = compared
    run = sorted(folder.glob("uniform-*-s0"))[0]
    records, clients, rounds = read_records(run), pd.read_csv(run / "clients.csv"), pd.read_csv(run / "metrics.csv")
    results = json.loads((run / "summary.json").read_text())
    at_clients = np.array(records[-1]["client_scores"]["zeros-found"], dtype=float)
    assert clients["zeros-found"].tolist() == at_clients.tolist()
    assert results["client_zeros-found_worst"] == at_clients.min()
    assert results["client_zeros-found_mean"] == pytest.approx(at_clients.mean())
    assert results["final_zeros-found"] == records[-1]["metrics"]["zeros-found"] == rounds["zeros-found"].iloc[-1]
    assert results["never_selected"] == (clients["selected"] == 0).mean()
    assert clients["half"].tolist() == (clients["selected"] / 2).tolist()
    assert rounds["twice"].tolist() == [4, 4, 4]
    assert "metric 'zeros-found' (mine.py)" in json.loads((run / "origin.json").read_text())["code"]
    assert "never selected" in printed
    assert "test zeros found" in printed
    report = read_report(folder)
    heads = {table.key: [column.heading for column in table.columns] for table in report.tables}
    for table, title in (
        ("results", "never selected"), ("runs", "never selected"), ("paired-differences", "never selected"),
        ("results", "test zeros found"), ("runs", "test zeros found"), ("course", "worst client's zeros found"),
    ):  # fmt: skip
        assert title in heads[table], (title, heads[table])
    shares = [json.loads((each / "summary.json").read_text())["never_selected"] for each in folder.glob("uniform-*-s?")]
    table = report.tables[0]
    assert table.rows[0][heads["results"].index("never selected")].text == f"{np.mean(shares):.2f}"
    assert re.fullmatch(r"[01]\.\d{3} ± 0\.\d{3}", table.rows[0][heads["results"].index("test zeros found")].text)
    assert dict(report.glossary)["never selected"] == "Share of the clients that were never selected."
    meaning = dict(report.glossary)["test zeros found"]
    assert meaning.startswith("Share of the zeros that are classified rightly: of the final model")
    assert "zeros-found" in [column.heading for column in read_report(run).tables[1].columns]
    assert "never_selected" in call("list", "measure")[1]


def test_the_page_of_somebody_who_has_not_the_script_has_their_names(compared):
    folder, _ = compared
    for name in list(MEASURES.names):
        if any(each in name for each in ("zeros-found", "never_selected", "half", "twice")):
            MEASURES.discard(name)
    heads = [column.heading for table in read_report(folder).tables for column in table.columns]
    assert "test zeros-found" in heads
    assert "never selected" not in heads


def test_clients_by_rounds_are_one_long_table(compared, call):
    folder, _ = compared
    code, out, _ = call("report", folder, "--as", "csv")
    assert (code, out) == (0, f"report: {folder / 'report/client_rounds.csv'}\n")
    table = pd.read_csv(folder / "report/client_rounds.csv")
    columns = ["selector", "seed", "round", "client", "selected", "weight", "loss", "accuracy", "seconds"]
    columns += ["zeros-found"]
    assert list(table.columns) == columns
    assert len(table) == 2 * 2 * 3 * 6
    assert table.groupby(["selector", "seed", "round"])["selected"].sum().eq(2).all()
    pytest.importorskip("pyarrow")
    assert call("report", folder, "--as", "parquet,md")[0] == 0
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "report/client_rounds.parquet"), table)


def test_a_finished_run_of_another_measure_is_found_with_a_warning(compared, call, forgetting):
    folder, _ = compared
    run = sorted(folder.glob("uniform-*-s0"))[0]
    before = json.loads((run / "summary.json").read_text())["never_selected"]
    changed = SCRIPT.replace("(run.counts == 0).mean()", "(run.counts == 0).mean() + 7.0")
    assert changed != SCRIPT
    Path("mine.py").write_text(changed)
    again = ("compare", "own.toml", "--seeds", "0-1", "--load", "mine.py", "--out", ".")
    code, _, err = call(*again)
    assert code == 0
    assert "the code of measure 'never_selected' (mine.py) has changed since" in " ".join(err.split())
    assert json.loads((run / "summary.json").read_text())["never_selected"] == before
    assert call(*again, "--strict")[0] != 0
    (run / "summary.json").unlink()
    lines = (run / "rounds.jsonl").read_bytes()
    assert call(*again)[0] == 0
    assert (run / "rounds.jsonl").read_bytes() == lines  # nothing was trained
    assert json.loads((run / "summary.json").read_text())["never_selected"] == before + 7.0


def test_a_table_of_nothing_is_a_sentence(tmp_path, call):
    code, _, err = call("report", tmp_path, "--as", "csv")
    assert code == 2
    assert re.search("holds no run of a selector", err)


def test_what_is_measured_is_one_of_four(forgetting):
    with pytest.raises(ConfigError, match="a measure is of 'model', 'round', 'client' or 'run'; got 'round trip'"):
        measure("x", of="round trip")


def test_every_built_in_measure_has_a_meaning_and_a_title_of_its_own():
    every = [MEASURES[name] for name in MEASURES.names]
    assert all(each.meaning and each.title for each in every)
    derived = run_measures(each.name for each in measures_of("model"))
    assert all(isinstance(each, Measure) and each.of == "run" and each.compute for each in derived)
    for attribute in ("name", "title"):
        found = [getattr(each, attribute) for each in derived]
        assert len(found) == len(set(found))
    assert {f"model {name}" for name in METRICS.names} <= set(MEASURES.names)
    assert [each.name for each in known_run_measures(each.name for each in derived)] == [each.name for each in derived]
