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
from objective_on_the_graph import DRAWN, TWO, Scale, Until
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
    study.Runs("digits", ((TWO, 2),), RUNS),
    study.Errors(("digits",), (0.5,), 12, (2, 3), study.DISTANCES, (0, 1, 2), Until(1e-3, 5.0), ("all", "by labels")),
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
        chosen, gap = study.decided(objective, apart, np.arange(12), 3, 0, Until(1e-6, 5.0))
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
    # Errors: 2 availabilities, 2 sizes, 3 splits, 2 rounds; random, and 3 objectives on 5 distances.
    assert len(rows) == 2 * 2 * 3 * 2 * 16
    tested = pd.read_csv(folder / "errors.csv", dtype={"concentration": str})
    pd.testing.assert_frame_equal(study.of_errors(rows), tested, check_dtype=False)
    here = rows[(rows["available"] == "all") & (rows["selected"] == 3)]
    mean = here.groupby(["split", "objective", "distances"])["error"].mean().unstack([1, 2])
    difference = 100 * (mean["coverage", "3DG"] - mean["dispersion", "3DG"]) / mean["random", ""]
    line = tested[tested["available"].eq("all") & tested["selected"].eq(3)].iloc[0]
    assert line["difference %"] == pytest.approx(difference.mean())
    objectives = pd.read_csv(folder / "errors-objectives-3.csv")
    assert len(objectives) == 2 * 15


def test_only_what_is_beyond_chance_and_margin_is_ahead():
    rng, rows = np.random.default_rng(0), []
    losses = {study.COVERAGE: 0.9, study.FEDGS: 1.0, study.UNIFORM: 0.9, study.COUNTS: 1.0}
    for split, (rule, loss) in itertools.product(range(20), losses.items()):
        cell = dict(zip(study.WIDE, ("digits", "0.5", "all", 3), strict=True))
        rows.append(cell | {"split": split, "rule": rule, "loss": loss + 0.0005 * rng.standard_normal()})
    table = study.of_runs(pd.DataFrame(rows))
    assert table["verdict"].tolist() == ["ahead", "the same", "ahead", "the same"]


def test_errors_are_those_of_the_rounds_update():
    rows = study.errors("digits", 0.5, "all", 0, 12, (3,), ("updates",), Until(1e-6, 5.0))
    federation, _ = study.split_of("digits", 0.5, 12, 0)
    updates = study.observed(federation, 0, 0).updates.astype(float)
    apart = np.linalg.norm(updates[:, None] - updates[None], axis=2)
    best = min(itertools.combinations(range(12), 3), key=lambda s: apart[:, s].min(axis=1).sum())
    shares = federation.sizes / federation.sizes.sum()
    chosen = federation.sizes[list(best)] / federation.sizes[list(best)].sum()
    error = np.linalg.norm(chosen @ updates[list(best)] - shares @ updates) / np.linalg.norm(shares @ updates)
    line = rows[(rows["objective"] == "coverage") & (rows["round"] == 0)].iloc[0]
    assert line["error"] == pytest.approx(error, rel=1e-5)


def test_decisions_are_of_clients_that_are_available():
    apart = study.euclidean(np.random.default_rng(2).standard_normal((12, 3)))
    present = np.array([1, 4, 5, 8, 11])
    values = {
        "dispersion": lambda s: apart[np.ix_(s, s)].sum(),
        "coverage": lambda s: (apart.max() - apart[:, s]).max(axis=1).sum(),  # of all clients
    }
    for objective, value in values.items():
        chosen, _ = study.decided(objective, apart, present, 3, 0, Until(1e-6, 5.0))
        best = max(value(list(each)) for each in itertools.combinations(present.tolist(), 3))
        assert value(chosen) == pytest.approx(best, rel=1e-9)
    assert set(study.decided("max-min", apart, present, 3, 0, Until())[0].tolist()) <= set(present.tolist())


def test_a_rule_that_sees_the_models_decides_on_what_everybody_has_there():
    federation, _ = study.split_of("digits", 0.5, 15, 0)
    scale, seen = replace(RUNS, rounds=2, last=1, size=3), {}
    for name in study.LEARNED:
        rule = f"{study.COVERAGE} on {name}"
        own = study.Onlooker(rule, federation, study.there(federation, "all", 0), 0, scale)
        keep = own.apart
        own.apart = lambda t, stack, model, keep=keep, name=name: seen.setdefault((name, t), keep(t, stack, model))
        study.play([(0, federation, own)], [study.LEARNED_RATE], 1, tuning=False)
        assert [len(clients) for clients, *_ in own.found] == [3, 3]
        assert own.counts.sum() == 6
        # The counts force other clients in the second round.
        assert not set(own.found[0][0].tolist()) & set(own.found[1][0].tolist())
    updates = study.observed(federation, 0, 0).updates.astype(float)
    losses = np.asarray(study.observed(federation, 0, 0).probed, dtype=float)
    apart = np.linalg.norm(updates[:, None] - updates[None], axis=2)
    # `observed` trains at a rate of 0.1 and this at 3, so that only the order of steps is the same.
    assert np.corrcoef(seen["updates", 0].ravel(), apart.ravel())[0, 1] > 0.5
    np.testing.assert_allclose(seen["losses", 0], np.abs(losses[:, None] - losses), rtol=1e-3, atol=1e-6)


@pytest.mark.thorough
def test_other_distances_are_tested_against_uniform_selection_and_counts(tmp_path):
    rules = (*study.GRAPHS, "coverage, no counts", study.COUNTS, study.UNIFORM)
    scale = replace(RUNS, splits=(0, 1, 2, 4, 5, 6))
    folder = run_study(
        study.STUDY, tmp_path, scale=study.Wide(study.Runs("digits", ((0.5, 2),), scale, rules), None), jobs=1
    )
    table, rows = pd.read_csv(folder / "runs.csv"), pd.read_parquet(folder / "runs.parquet")
    assert len(table) == 2 * 12 * 2
    assert len(rows) == 2 * 15 * 6
    assert np.isfinite(rows["loss"]).all()
    predictions = pd.read_csv(folder / "predictions.csv")
    assert predictions["rules"].tolist() == [15] * 6 + [14] * 6


def test_the_plans_have_the_amendments_cells():
    plans, before = study.PLANS, {*range(90, 93), *range(100, 160)}
    cells = {
        "errors": (0, 2 * 6 * 10),
        "runs": (8 * 2 * 4, 0),
        "labels": (0, 2 * 6 * 10),
        "synthetic": (2 * 4, 2 * 10),
        "many": (4 * 4, 4 * 5),
        "distances": (4 * 15, 0),
    }
    for name, (runs, errors) in cells.items():
        plan = plans[name]
        assert (len(plan.runs.plan()) if plan.runs else 0, len(plan.errors.plan()) if plan.errors else 0) == (
            runs,
            errors,
        )
        if name != "errors":
            assert not before & {
                *(plan.runs.scale.splits if plan.runs else ()),
                *(plan.errors.splits if plan.errors else ()),
            }
    assert plans["runs"].runs.scale.splits == tuple(range(160, 175))
    assert plans["errors"].errors.splits == tuple(range(130, 140))


def test_synthetic_data_have_the_graph_of_their_models():
    federation, h = study.split_of("synthetic", DRAWN, 12, 0)
    graph = study.fixed_distances("synthetic", DRAWN, 12, 0)["3DG"]
    np.testing.assert_array_equal(h, graph)
    assert federation.parameters is not None
    rows = study.errors("synthetic", DRAWN, "by labels", 0, 12, (3,), ("3DG",), Until())
    assert len(rows) == 2 * 4


def test_a_plan_may_have_errors_alone(tmp_path):
    errors = replace(TINY.errors, concentrations=(TWO,), sizes=(2,), available=("all",))
    folder = run_study(study.STUDY, tmp_path, scale=study.Wide(None, errors), jobs=1)
    tables = {"errors", "errors-objectives-2"}
    assert {file.stem for file in folder.iterdir() if file.is_file()} == tables
    assert len(pd.read_csv(folder / "errors.csv")) == 1
