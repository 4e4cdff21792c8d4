"""Suites and their summary: fixed instances, means against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from solvers import instances
from solvers.benchmark import BenchmarkError, run_benchmark
from solvers.benchmark.profiles import lost, shifted_geometric_mean, summary
from solvers.benchmark.rounds import KINDS, Round
from solvers.benchmark.suites import SUITES, suite
from solvers.instances import digest, ledger


def test_suites_are_what_they_were():
    """The same instances to the bit, whenever they are made."""
    for name in SUITES:
        one, other = suite(name), suite(name)
        assert list(one.instances) == list(other.instances)
        assert next(iter(one.methods)) == "auto"
    made, again = suite("diversity").instances, suite("diversity").instances
    assert all(digest(made[name]) == digest(again[name]) for name in made)
    rounds, constrained = set(suite("selection").instances), set(suite("constrained").instances)
    assert rounds | constrained == set(instances.names("dispersion"))
    assert len(constrained) >= 16
    for name in sorted(rounds | constrained)[::5]:
        assert instances.load(name).is_constrained == (name in constrained)


def test_tiers_split_a_suite_and_nonsense_is_refused():
    tiers = [set(suite("selection", tier).instances) for tier in ("easy", "benchmark", "open")]
    assert set.union(*tiers) == set(suite("selection").instances) & set(ledger.entries())
    assert sum(map(len, tiers)) == len(set.union(*tiers))
    for wrong in (
        ("selectoin", None),
        ("selection", "hard"),
        ("diversity", "easy"),
        ("tenth", "easy"),
        ("selection", None, "."),
    ):
        with pytest.raises(BenchmarkError):
            suite(*wrong)


def test_rounds_of_a_tenth_are_made_by_recipe():
    recipes = suite("tenth").instances
    assert len(recipes) == 48
    for kind in KINDS:
        for share in ("0.3", "two"):
            recipe = Round(60, share, kind)
            problem = recipe()
            assert digest(problem) == digest(Round(60, share, kind)())
            assert digest(problem) != digest(Round(60, share, kind, seed=1)())
            assert problem.size == 6
            assert (problem.n == 60) == (kind != "half")
            turns = np.rint((problem.costs - problem.costs.min()) * 59 / 2)  # counts, less the smallest
            assert (turns.std() < 1.2) == (kind != "drawn")  # played rounds keep them nearly equal
            assert turns.max() > 0
    run = run_benchmark(["greedy"], {"one": Round(60, "0.3", "drawn")}, time_limits=[1.0])
    assert run.table["verdict"].tolist() == ["ok"]


def test_means():
    assert shifted_geometric_mean([3.0, 3.0]) == pytest.approx(3.0)
    assert shifted_geometric_mean([0.0, 3.0]) == pytest.approx(1.0)  # sqrt(1 · 4) - 1
    assert math.isnan(shifted_geometric_mean([]))


def test_a_summary_by_hand():
    rows = [  # instance, method, seconds to a proof (NaN: none)
        ("a", "fast", 0.0),
        ("a", "slow", 3.0),
        ("b", "fast", 3.0),
        ("b", "slow", math.nan),
        ("a", "never", math.nan),
        ("b", "never", math.nan),
    ]
    table = pd.DataFrame(rows, columns=["instance", "method", "time_to_proof"])
    table = table.assign(
        seed=0, time_limit=8.0, verdict="ok", native_status=None, seconds=8.0, cpu_seconds=4.0, gap_to_best=0.0
    )
    table["primal_integral"] = [0.0, 2.0, 4.0, 6.0, 8.0, 8.0]
    found = summary(table).set_index("method")
    assert found["proved"].to_dict() == {"fast": 2, "slow": 1, "never": 0}
    assert found.loc["fast", "mean_all"] == pytest.approx(1.0)
    assert found.loc["slow", "mean_all"] == pytest.approx(5.0)  # sqrt(4 · 9) - 1
    assert found.loc["never", "mean_all"] == pytest.approx(8.0)
    assert found.loc["fast", "mean_common"] == pytest.approx(0.0)  # a alone was proved by both that prove anything
    assert found.loc["slow", "mean_common"] == pytest.approx(3.0)
    assert np.isnan(found.loc["never", "mean_common"])
    assert found.loc["slow", "primal_integral"] == pytest.approx(4.0)
    refused = table.assign(verdict=["ok", "ok", "ok", "refused", "ok", "ok"])
    found = summary(refused).set_index("method")  # b is no race of "slow": neither its limit nor its integral counts
    assert found.loc["slow", ["rows", "ok", "proved"]].tolist() == [2, 1, 1]
    assert found.loc["slow", "mean_all"] == pytest.approx(3.0)
    assert found.loc["slow", ["primal_integral", "primal_of_first"]].tolist() == [2.0, 0.0]


def test_lost_races_by_hand():
    rows = [  # instance, method, seconds to a proof, gap to best, gap, objective
        ("proof", "auto", math.nan, 0.0, 0.1, 1.0),
        ("proof", "rival", 3.0, 0.0, 0.0, 1.0),
        ("sooner", "auto", 1.0, 0.0, 0.0, 1.0),
        ("sooner", "rival", 0.4, 0.0, 0.0, 1.0),
        ("near", "auto", 0.15, 0.0, 0.0, 1.0),
        ("near", "rival", 0.06, 0.0, 0.0, 1.0),
        ("decision", "auto", math.nan, 0.01, 0.2, 0.99),
        ("decision", "rival", math.nan, 0.0, math.nan, 1.0),
        ("bound", "auto", math.nan, 0.0, 0.2, 1.0),
        ("bound", "rival", math.nan, 0.0, 0.1, 1.0),
    ]
    table = pd.DataFrame(rows, columns=["instance", "method", "time_to_proof", "gap_to_best", "gap", "objective"])
    table = table.assign(seed=0, time_limit=8.0, verdict="ok", relaxed=False)
    found = lost(table)
    assert found["instance"].tolist() == found["how"].tolist() == ["proof", "sooner", "decision", "bound"]
    assert set(found["by"]) == {"rival"}
    assert lost(table, others=lambda method: method != "rival").empty
    assert lost(table.assign(verdict=["ok", "invalid"] * 5)).empty


def test_a_run_ends_in_a_summary(tmp_path):
    found = suite("convex", "easy")
    few = dict(list(found.instances.items())[:3])
    benchmark = run_benchmark(["auto"], few, time_limits=5.0, out=tmp_path / "run", repeat=False)
    (row,) = summary(benchmark.table).to_dict("records")
    assert (row["rows"], row["ok"], row["proved"]) == (3, 3, 3)


def test_public_instances_are_known_by_what_they_state(tmp_path):
    """A file of the right name that states something else is refused, and so is a folder without any of them."""
    with pytest.raises(BenchmarkError, match="none of the files"):
        suite("diversity", data=tmp_path)
    with pytest.raises(BenchmarkError, match="no folder"):
        suite("diversity", data=tmp_path / "nowhere")
    (tmp_path / "GKD-b_11_n50_m5.txt").write_text("3 2\n0 1 1.0\n0 2 2.0\n1 2 3.0\n")
    with pytest.raises(BenchmarkError, match="another problem"):
        suite("diversity", data=tmp_path)


def test_a_licence_or_a_method_that_does_not_take_a_problem_is_a_row(tmp_path):
    problem = suite("diversity").instances["sphere-n100-m20"]
    table = run_benchmark(["brute-force", "greedy"], {"sphere": problem}, time_limits=1.0, repeat=False).table
    assert table["verdict"].tolist() == ["refused", "ok"]
