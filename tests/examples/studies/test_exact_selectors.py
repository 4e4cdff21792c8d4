"""Exact DivFL and Fed-CBS beside the published rules: what is planned, what is measured, and a tiny study."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import exact_selectors as study
from study import run_study


def test_every_rule_meets_the_same_split():
    """Seven arms a split, DivFL's three in another federation, one seed for all, at most a second a decision."""
    planned = study.plans(SimpleNamespace(scale=study.QUICK))
    assert len(planned) == (7 + 3) * 20
    for (_, _, _, split, _), run in planned.items():
        assert (run.seed, run.data.options["seed"], run.time_limit) == (split, split, 1.0)
    arms = {(paper, method): run.selector.options.get("method") for (paper, _, method, *_), run in planned.items()}
    assert arms["DivFL", "exact"] == arms["Fed-CBS", "exact"] == "auto"
    assert {method for paper, method in arms if paper == "Fed-CBS"} == {"exact", "fed-cbs", "greedy", "uniform"}


@pytest.mark.thorough
def test_a_tiny_study(tmp_path, capsys):
    """Nobody is more balanced than the exact runs, and greedy coverage has a gap that is known."""
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=replace(study.QUICK, rounds=4, splits=2))
    assert "Fed-CBS, heuristics" in capsys.readouterr().out
    table = [line.split(",") for line in (out / "runs.csv").read_text(encoding="utf-8").splitlines()]
    rows = [dict(zip(table[0], line, strict=True)) for line in table[1:]]
    imbalance = {row["method"]: float(row["gap"]) for row in rows if row["paper"] == "Fed-CBS" and row["gap"]}
    assert imbalance["exact"] <= min(imbalance["fed-cbs"], imbalance["greedy"]) + 1e-6
    assert all(0 <= float(row["gap"]) < 1 for row in rows if row["paper"] == "DivFL" and row["gap"])
