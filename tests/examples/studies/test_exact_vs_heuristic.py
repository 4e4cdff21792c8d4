"""The comparison of exact with heuristic selection: its arithmetic, and a tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

pytest.importorskip("torch")

import exact_vs_heuristic as study
from exact_vs_heuristic import CONTROLS, PAPER, QUICK, ca_fed, e3cs, fedgs, fedss
from fedselect.experiments import Choice
from fedselect.training.settings import TrainingSettings
from study import Setup, run_study


def runs(**losses):
    """Runs of one regime that differ in the test loss alone."""
    rows = []
    for method, values in losses.items():
        for split, loss in enumerate(values):
            outcomes = dict.fromkeys(study.OUTCOMES, 1.0) | {"final_loss": loss}
            cell = {"paper": "P", "regime": "R", "method": method, "split": split, "seed": 0}
            rows.append({**cell, "gap": 0.01, "proved": 0.5, "ms": 1.0, **outcomes})
    return pd.DataFrame(rows)


def test_differences_are_paired_by_split():
    """Losses that vary by 1 between splits and differ by 0.1 ± 0.01 within them."""
    exact = np.array([1.0, 2.0, 3.0, 4.0])
    shift = np.array([0.09, 0.11, 0.1, 0.1])
    played = runs(exact=exact, heuristic=exact + shift, uniform=exact)
    effects = study.compare(played)
    found = effects.set_index(["method", "outcome"])
    loss = found.loc["heuristic", "final_loss"]
    assert loss.difference == pytest.approx(0.1)
    assert loss.half == pytest.approx(t.ppf(0.975, 3) * shift.std(ddof=1) / 2)
    assert loss.p == pytest.approx(2 * t.sf(0.1 / (shift.std(ddof=1) / 2), 3))
    assert loss.adjusted == pytest.approx(min(1.0, len(study.OUTCOMES) * loss.p))  # the smallest; controls are apart
    assert loss.p_equivalent > 0.5  # twice the margin, 2 % of 2.5
    nothing = found.loc["uniform", "final_loss"]
    assert (nothing.difference, nothing.half, nothing.p, nothing.p_equivalent) == (0.0, 0.0, 1.0, 0.0)
    twice = pd.concat([played.assign(seed=seed) for seed in range(5)])  # more seeds are no more splits
    pd.testing.assert_frame_equal(study.compare(twice), effects)


def test_gaps_are_of_whole_runs():
    def solution(objective, bound, status="feasible", **details):
        return {"solution": {"objective": objective, "bound": bound, "status": status, "details": details}}

    found = study.decisions([solution(9.0, 10.0), solution(2.0, 2.0, "optimal"), {"solution": None}], size=5)
    assert found == {"gap": pytest.approx(1 / 12), "proved": 0.5}
    short = study.decisions([solution(None, None, shortfall=1.0), solution(None, None, shortfall=0.0)], size=5)
    assert short["gap"] == pytest.approx(0.1)
    assert np.isnan(study.decisions([{"solution": None}], size=5)["gap"])


@pytest.mark.thorough
def test_a_tiny_study_writes_everything(tmp_path, capsys):
    data = Choice("digits", {"n_clients": 16, "partition": "dirichlet-prior"})
    regimes = (
        fedgs("small", data=data, clients_per_round=3),
        ca_fed("small", 1.0, data, TrainingSettings()),
        fedss("small", 12),
        e3cs("small", 0.0),
    )
    scale = study.Scale(rounds=4, splits=3, seeds=1, regimes=regimes)
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=scale)
    printed = capsys.readouterr().out
    assert "The gap and what it did" in printed
    assert "FedGS, heuristics" in printed
    for name in ("results.csv", "runs.csv", "exact_vs_heuristic.png"):
        assert (out / name).stat().st_size > 500
    played = pd.read_csv(out / "runs.csv")
    assert len(played) == 3 * (6 + 4 + 4 + 3)
    solved = played[played.method.isin(["exact", "local-search", "greedy", "Algorithm 1", "proportional"])]
    assert solved.gap.notna().all()
    assert (played[(played.method == "exact") & (played.paper != "CA-Fed")].gap < 1e-5).all()
    greedy = played[played.method == "greedy"].gap.to_numpy()
    light = played[(played.paper == "FedGS") & (played.method == "random")].gap.to_numpy()
    assert (light > greedy).all()
    results = pd.read_csv(out / "results.csv")
    assert len(results) == len(study.OUTCOMES) * (5 + 3 + 3 + 2)
    assert results[results.method.isin(CONTROLS)].groupby("paper").method.nunique().min() >= 1


def test_the_regimes_are_distinct_and_say_what_they_are():
    for scale in (QUICK, PAPER):
        names = [(regime.paper, regime.title) for regime in scale.regimes]
        assert len(set(names)) == len(names)
        assert all(set(regime.others) & set(CONTROLS) for regime in scale.regimes)
    assert {paper for paper, _ in names} == {"FedGS", "CA-Fed", "FedSS", "E3CS"}
    shared = study.planned(Setup(QUICK, "digits", Path(), Path()))
    few, less = (shared["FedGS", title, "uniform", 0, 0] for title in ("3 a round", "3 a round, α = 0.1"))
    assert few == less  # played once
