"""The rest of the objective study's table: its heuristic, its errors, its tests, and a tiny run."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import objectives_and_distances as study
from objective_on_the_graph import TWO, Scale
from study import run_study

RUNS = Scale(
    splits=(0, 1, 2),
    tuned_on=(3,),
    n_clients=15,
    rounds=12,
    last=4,
    rates=(0.1, 1.0),
    widenings=0,
    random=50,
)
TINY = study.Wide(
    RUNS,
    ((TWO, 2),),
    study.Errors(("digits",), (0.5,), 12, (2, 3), study.DISTANCES, (0, 1, 2), 1e-3, 5.0),
    study.Errors(("digits",), (0.5,), 12, (4,), ("3DG",), (0, 1, 2), 1e-2, 5.0),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_study(study.STUDY, tmp_path_factory.mktemp("wide"), scale=TINY, jobs=1)


def test_farthest_first_is_within_a_factor_of_two_of_the_largest_least_distance():
    rng, seen = np.random.default_rng(0), 0
    for _ in range(20):
        apart = study.euclidean(rng.standard_normal((9, 2)))

        def least(chosen, apart=apart):
            return min(apart[i, j] for i, j in itertools.combinations(chosen, 2))

        found = study.farthest_first(apart, 4)
        assert len(set(found.tolist())) == 4
        best = max(map(least, itertools.combinations(range(9), 4)))
        assert best / 2 - 1e-12 <= least(found.tolist()) <= best + 1e-12
        seen += least(found.tolist()) < best - 1e-9
    assert seen < 20
    # Clients that are all alike are still distinct ones.
    assert len(set(study.farthest_first(np.zeros((5, 5)), 3).tolist())) == 3


def test_a_decision_is_the_best_of_its_objective():
    apart = study.euclidean(np.random.default_rng(1).standard_normal((12, 3)))
    values = {
        "dispersion": lambda s: apart[np.ix_(s, s)].sum(),
        "coverage": lambda s: (apart.max() - apart[:, s]).max(axis=1).sum(),
    }
    for objective, value in values.items():
        chosen, gap = study.decided(objective, apart, 3, 0, 1e-6, 5.0)
        best = max(value(list(each)) for each in itertools.combinations(range(12), 3))
        assert value(chosen) == pytest.approx(best, rel=1e-9)
        assert gap <= 1e-4


@pytest.mark.thorough
def test_tables_follow_from_the_rows_of_splits(folder):
    runs, rows = (pd.read_parquet(folder / f"{name}.parquet") for name in ("runs", "errors"))
    assert len(runs) == 2 * 4 * 3
    assert np.isfinite(runs["loss"]).all()
    table = pd.read_csv(folder / "runs.csv")
    assert len(table) == 2 * 4
    pd.testing.assert_frame_equal(study.of_runs(runs), table, check_dtype=False)
    by_hand = runs[(runs["concentration"] == TWO) & (runs["available"] == "all") & (runs["selected"] == 2)]
    loss = by_hand.set_index(["rule", "split"])["loss"].unstack(0)
    here = table["concentration"].eq(TWO) & table["available"].eq("all") & table["selected"].eq(2)
    line = table[here & table["rule"].eq(study.FEDGS) & table["to"].eq(study.COUNTS)].iloc[0]
    difference = 100 * (loss[study.FEDGS] - loss[study.COUNTS]) / loss[study.UNIFORM]
    assert line["difference %"] == pytest.approx(difference.mean())
    # Errors: 2 sizes, 3 splits, 2 rounds; random, and 3 objectives on 5 distances.
    assert len(rows) == 2 * 3 * 2 * 16
    tested = pd.read_csv(folder / "errors.csv", dtype={"concentration": str})
    pd.testing.assert_frame_equal(study.of_errors(rows), tested, check_dtype=False)
    here = rows[(rows["concentration"] == "0.5") & (rows["selected"] == 3)]
    mean = here.groupby(["split", "objective", "distances"])["error"].mean().unstack([1, 2])
    difference = 100 * (mean["coverage", "3DG"] - mean["dispersion", "3DG"]) / mean["random", ""]
    line = tested[tested["concentration"].astype(str).eq("0.5") & tested["selected"].eq(3)].iloc[0]
    assert line["difference %"] == pytest.approx(difference.mean())
    objectives = pd.read_csv(folder / "errors-objectives-3.csv")
    assert len(objectives) == 15
    assert len(pd.read_csv(folder / "many.csv")) == 1


def test_only_what_is_beyond_chance_and_margin_is_ahead():
    rng, rows = np.random.default_rng(0), []
    losses = {study.COVERAGE: 0.9, study.FEDGS: 1.0, study.UNIFORM: 0.9, study.COUNTS: 1.0}
    for split, (rule, loss) in itertools.product(range(20), losses.items()):
        cell = dict(zip(study.WIDE, ("digits", "0.5", "all", 3), strict=True))
        rows.append(cell | {"split": split, "rule": rule, "loss": loss + 0.0005 * rng.standard_normal()})
    table = study.of_runs(pd.DataFrame(rows))
    assert table["verdict"].tolist() == ["ahead", "the same", "ahead", "the same"]


def test_errors_are_those_of_the_rounds_update():
    rows = study.errors("digits", 0.5, 12, (3,), ("updates",), 1e-6, 5.0, 0)
    federation, _ = study.split_of("digits", 0.5, 12, 0)
    updates = study.observed(federation, 0, 0).updates.astype(float)
    apart = np.linalg.norm(updates[:, None] - updates[None], axis=2)
    best = min(itertools.combinations(range(12), 3), key=lambda s: apart[:, s].min(axis=1).sum())
    shares = federation.sizes / federation.sizes.sum()
    chosen = federation.sizes[list(best)] / federation.sizes[list(best)].sum()
    error = np.linalg.norm(chosen @ updates[list(best)] - shares @ updates) / np.linalg.norm(shares @ updates)
    line = rows[(rows["objective"] == "coverage") & (rows["round"] == 0)].iloc[0]
    assert line["error"] == pytest.approx(error, rel=1e-5)


def test_the_plan_has_the_amendments_cells():
    plan = study.PAPER
    assert len(plan.cells) * 2 == 16
    assert len(plan.errors.plan()) == 2 * 6 * 10
    assert len(plan.many.plan()) == 2 * 5
    assert plan.runs.splits == tuple(range(100, 115))
    again = study.STUDY.plans["errors"]
    assert again.many is None
    assert not again.cells
    assert len(again.errors.plan()) == 2 * 6 * 10
    assert not set(again.errors.splits) & {*plan.errors.splits, *plan.runs.splits, *range(115, 130)}


def test_a_plan_may_have_errors_alone(tmp_path):
    errors = replace(TINY.errors, concentrations=(TWO,), sizes=(2,))
    folder = run_study(study.STUDY, tmp_path, scale=replace(TINY, cells=(), errors=errors, many=None), jobs=1)
    tables = {"errors", "errors-objectives-2"}
    assert {file.stem for file in folder.iterdir() if file.is_file()} == tables
    assert len(pd.read_csv(folder / "errors.csv")) == 1
