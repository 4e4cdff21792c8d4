"""The FedGS study: the paper's numbers, and a tiny run of everything."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import fedgs
from fedgs import DIGITS, as_images
from fedselect.data import load_data
from fedselect.experiments import Choice
from study import run_study

GALLERY = Path(__file__).parents[3] / "docs" / "gallery"

TINY = fedgs.Plan(rounds=3, seeds=2, sizes=2, count_rounds=10, rates=(0.1,))


@pytest.fixture
def small(monkeypatch):
    """The Synthetic setting with two modes, 12 clients, and graphs of 10."""
    setting, table = fedgs.settings(Path())["synthetic"], fedgs.published("synthetic")
    small = dataclasses.replace(
        setting,
        data=Choice("synthetic", {"n_clients": 12}),
        modes=("IDL", "MDF"),
        sizes=(3, 4),
        graphs={"two labels": Choice("digits", {"n_clients": 10})},
    )
    monkeypatch.setattr(fedgs, "settings", lambda root: {"synthetic": small})
    monkeypatch.setattr(fedgs, "published", lambda name: {c: x for c, x in table.items() if c[0] in small.modes})


def test_the_papers_numbers():
    """Spot checks against Table 2, and its shape."""
    synthetic = fedgs.published("synthetic")
    assert len(synthetic) == 5 * 9
    assert synthetic["IDL", "UniformSample"] == 0.302
    assert synthetic["IDL", "Power-of-Choice"] == 0.691
    assert synthetic["MDF", "FedProx μ=0.01"] == 0.410
    assert synthetic["SLN", "FedGS α=1"] == 0.318
    assert synthetic["MDF", "FedGS α=5"] == 0.311
    cifar, fashion = fedgs.published("cifar10"), fedgs.published("fashion-mnist")
    assert (len(cifar), len(fashion)) == (45, 27)
    assert cifar["LN", "FedGS α=0.5"] == 0.973
    assert fashion["YC", "FedGS α=5"] == 0.307
    assert fedgs.published("digits") == {}
    readings = {"MDSample, once each", "FedProx μ=0.01, among all"}  # chosen because they fit
    assert {method for _, method in synthetic} == set(fedgs.methods("labels")) - readings


def test_what_the_paper_says_of_its_table_follows_from_it():
    """19.8 % and 8.6 %, at most 5 %, best but for IDL and MDF (its text)."""
    paper = fedgs.published("synthetic")
    said = fedgs.claims({"paper": paper}, ("IDL", "LN", "SLN", "LDF", "MDF")).iloc[0]
    assert said["UniformSample's worst mode, % over IDL"] == pytest.approx(19.8, abs=0.1)
    assert said["MDSample's"] == pytest.approx(8.6, abs=0.1)
    assert said["FedGS's, worst α"] < 5
    assert said["FedGS is best in"] == "LN SLN LDF"


def test_a_reading_is_judged_by_the_mode_that_it_was_not_chosen_by():
    """M = 10 fits both modes; duplicates counted once fit LN alone, which IDL's choice must not know."""
    paper = {("IDL", "MDSample"): 1.0, ("LN", "MDSample"): 1.0}
    ours = {("IDL", "MDSample"): 1.1, ("IDL", "MDSample, once each"): 1.2}
    ours |= {("LN", "MDSample"): 1.3, ("LN", "MDSample, once each"): 1.0}
    runs = pd.DataFrame(
        {"draw": 0, "seed": 0, "m": m, "mode": mode, "method": method}
        | {"best_loss": loss + apart, "best_loss_plotted": loss + apart + 0.5}
        for (mode, method), loss in ours.items()
        for m, apart in ((6, 0.4), (10, 0.0))
    )
    fits = fedgs.readings(runs, paper)
    assert len(fits) == 2 * 2 * 2 * 2
    # A cell that one M alone has changes nothing.
    alone = {"draw": 0, "seed": 0, "m": 6, "method": "FedGS α=5", "best_loss": 9.0, "best_loss_plotted": 9.0}
    more = pd.concat([runs, pd.DataFrame([alone | {"mode": mode} for mode in ("IDL", "LN")])])
    theirs = paper | {("IDL", "FedGS α=5"): 1.0, ("LN", "FedGS α=5"): 1.0}
    pd.testing.assert_frame_equal(fedgs.readings(more, theirs), fits)
    found = fedgs.held_out(fits).set_index("left out")
    assert found["M"].eq(10).all()
    assert found["T"].eq("all").all()
    assert found["duplicates"].to_dict() == {"IDL": "once", "LN": "as drawn"}
    assert found["apart in it"].to_dict() == pytest.approx({"IDL": 0.2, "LN": 0.3})
    assert found["least"].to_dict() == pytest.approx({"IDL": 0.1, "LN": 0.0})


@pytest.mark.thorough
def test_a_tiny_study_writes_everything(small, tmp_path, capsys):
    out = run_study(fedgs.STUDY, tmp_path, jobs=1, scale=TINY)
    for name in ("results.csv", "runs.parquet", "edges.parquet", "table2.png", "counts.png", "loss.png"):
        assert (out / name).stat().st_size > 500
    printed = capsys.readouterr().out
    assert "Table 2, synthetic" in printed
    assert "100.0 % of the decisions proved" in printed
    runs = pd.read_parquet(out / "runs.parquet")
    # Two seeds; another M under one, without three α. In two modes.
    assert len(runs) == 2 * (2 * 11 + 8)
    left_out = pd.read_csv(out / "held-out.csv")
    assert left_out["left out"].tolist() == ["IDL", "MDF"]
    assert (left_out["apart in it"] >= left_out["least"]).all()
    results = pd.read_csv(out / "results.csv")
    assert results.groupby("table").size().to_dict() == {"Fig. 4": 3, "Table 2": 22, "Table 3": 6}
    cell = results[(results.table == "Table 2") & (results["mode"] == "MDF") & (results.method == "FedGS α=2")]
    mine = runs[(runs["mode"] == "MDF") & (runs.method == "FedGS α=2") & (runs.draw == 0) & (runs.m == 3)]
    assert cell.ours.item() == pytest.approx(mine.best_loss.mean())
    assert cell.paper.item() == 0.311


def test_fedgs_balances_the_counts():
    counted = fedgs.counts(DIGITS["two labels"], "two labels", 60)
    variance = {label: history.counts.var(ddof=1) for label, history in counted.items()}
    assert variance["FedGS α=1"] < 0.5 * min(variance["UniformSample"], variance["MDSample"])
    assert all(history.counts.sum() > 0 for history in counted.values())


def test_digits_become_images():
    federation = as_images(load_data("digits", n_clients=5))
    assert federation.test.features.shape[1:] == (1, 8, 8)
    flat = load_data("digits", n_clients=5).datasets[3].features
    assert np.array_equal(federation.datasets[3].features.reshape(len(flat), 64), flat)
