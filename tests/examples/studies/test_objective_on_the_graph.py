"""The study of the objective on the graph: its decisions, its errors, its verdicts, and a tiny run."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import objective_on_the_graph as study
from fedselect.rounds.protocol import Selection
from fedselect.selectors.base import SelectorBase, data_weights
from fedselect.training.fedavg import FedAvg
from study import run_study

TINY = study.Scale(
    splits=(0, 1, 2),
    tuned_on=(3,),
    concentrations=(0.5,),
    n_clients=15,
    size=3,
    rounds=12,
    last=4,
    rates=(0.1, 1.0),
    widenings=0,
    random=50,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_study(study.STUDY, tmp_path_factory.mktemp("objective"), scale=TINY, jobs=1)


def test_a_rule_decides_as_enumeration_does():
    h = study.split_of("digits", 0.5, 10, 0)[1]
    present, counts, rng = np.array([0, 2, 3, 5, 6, 8]), np.arange(10) % 3, np.random.default_rng(0)
    triples = [list(each) for each in itertools.combinations(present.tolist(), 3)]

    def covered(chosen):
        return (h.max() - h[:, chosen]).max(axis=1).sum()

    values = {
        "coverage, no counts": covered,
        "coverage, α = 100": lambda s: 100 * covered(s) / (10 * h.max()) - counts[s].sum(),
        "dispersion, α = 9.9": lambda s: 9.9 * h[np.ix_(s, s)].sum() / (9 * 2) - 2 * counts[s].sum() / 9,
        "counts alone": lambda s: -counts[s].sum(),
    }
    for rule, value in values.items():
        chosen, gap, _ = study.select(rule, h, counts, present, 3, rng, 0)
        assert value(chosen.tolist()) >= max(map(value, triples)) * (1 - 1.1e-3) - 1e-9 or gap > 0.1
        assert value(chosen.tolist()) == pytest.approx(max(map(value, triples)), rel=2e-3)
        assert set(chosen.tolist()) <= set(present.tolist())


def test_max_min_with_counts_keeps_the_lowest_counts_and_is_within_a_factor_of_two():
    h = study.euclidean(np.random.default_rng(0).standard_normal((10, 2)))
    present, seen = np.array([0, 1, 2, 3, 5, 6, 8, 9]), 0
    for counts in (np.zeros(10, dtype=int), np.arange(10) % 2, np.arange(10) % 4, np.arange(10)):
        chosen, gap, proved = study.select("max-min, α = 1", h, counts, present, 4, None, 0)
        even = list(itertools.combinations(present.tolist(), 4))
        fewest = min(counts[list(s)].sum() for s in even)
        even = [s for s in even if counts[list(s)].sum() == fewest]
        assert tuple(chosen.tolist()) in even
        assert np.isnan(gap)
        assert not proved
        # Added clients are farthest first, those that the counts force are as they are.
        least = [min(h[i, j] for i, j in itertools.combinations(s, 2)) for s in even]
        assert min(h[i, j] for i, j in itertools.combinations(chosen.tolist(), 2)) >= max(least) / 2 - 1e-12
        seen += len(even)
    assert seen == 70 + 1 + 3 + 1  # selections as even as can be


def test_a_schedule_is_what_deciding_every_round_anew_gives():
    federation, h = study.split_of("digits", 0.5, 20, 1)
    availability = study.there(federation, "by labels", 1)
    scale = study.replace(study.QUICK, rounds=12, size=3)
    found, counts = study.schedule(study.COVERAGE, h, availability, scale, 1)
    anew = np.zeros(20, dtype=int)
    for t, (clients, _, _) in enumerate(found):
        present = np.flatnonzero(availability.available(t))
        again = study.select(study.COVERAGE, h, anew, present, 3, None, 1)[0] if present.size else present
        assert again.tolist() == clients.tolist()
        anew[clients] += 1
    assert counts.tolist() == anew.tolist()


class Scheduled(SelectorBase):
    """Select what was decided before."""

    def __init__(self, selections):
        self.selections = selections

    def select(self, round):
        clients = self.selections[round.round]
        return Selection(clients, data_weights(round.sizes, clients), None, "renormalise")


def test_training_in_one_stack_is_training_one_by_one():
    rng, plans, rates, one_by_one = np.random.default_rng(0), [], [0.1, 1.0, 0.3], {True: [], False: []}
    for split, rate in zip((0, 1, 0), rates, strict=True):
        federation, _ = study.split_of("digits", 0.5, 20, split)
        availability = study.there(federation, "all", split)
        chosen = [np.sort(rng.choice(20, size, replace=False)) for size in (3, 0, 2, 3, 3, 1)]
        plans.append((split, federation, chosen))
        settings = replace(study.SETTINGS, learning_rate=rate)
        loop = FedAvg(federation, Scheduled(chosen), availability, settings=settings, seed=split)
        tested, trained = [], []
        for _ in chosen:
            loop.step(evaluate=False)
            tested.append(loop.evaluate()[0])
            trained.append(np.average(loop.losses(range(20)), weights=federation.sizes))
        one_by_one[False].append(np.mean(tested[-5:]))
        one_by_one[True].append(np.mean([trained[1], trained[5]]))
    for tuning, losses in one_by_one.items():
        np.testing.assert_allclose(study.play(plans, rates, 5, tuning=tuning), losses, rtol=1e-4)


def test_a_difference_is_ahead_only_beyond_chance_and_margin():
    cells = dict(zip(study.CELL, ("digits", 0.5, "all"), strict=True))
    rng, noise = np.random.default_rng(0), 0.001
    rows = []
    for split in range(20):
        for rule, loss in ((study.COVERAGE, 0.90), (study.FEDGS, 1.0), (study.UNIFORM, 0.902)):
            rows.append(cells | {"split": split, "rule": rule, "loss": loss + noise * rng.standard_normal()})
    errors = [
        cells | {"split": split, "round": t, "objective": name, "error": error + 0.5 * rng.standard_normal()}
        for split in range(20)
        for t in (0, 10)
        for name, error in (("coverage", 0.9), ("dispersion", 0.92), ("random", 1.0))
    ]
    table = study.primary(pd.DataFrame(errors), pd.DataFrame(rows)).set_index("outcome")
    assert table["verdict"].tolist() == ["inconclusive", "ahead", "the same"]
    assert table.loc["loss: coverage - FedGS", "difference %"] == pytest.approx(100 * -0.1 / 0.902, abs=0.2)


@pytest.mark.thorough
def test_tables_follow_from_the_rows_of_splits(folder):
    updates, tuning, runs = (pd.read_parquet(folder / f"{name}.parquet") for name in ("updates", "tuning", "runs"))
    primary = pd.read_csv(folder / "primary.csv")
    assert len(primary) == 6
    again = study.primary(updates, runs)
    pd.testing.assert_frame_equal(again, primary, check_dtype=False)
    assert set(runs["rule"]) == set(study.RULES)
    assert len(runs) == 2 * 6 * 3
    assert np.isfinite(runs["loss"]).all()
    assert (runs["largest gap %"] <= 100 * study.CLOSE.gap).all()
    # The rate of every run is the best of its rule's trials in the cell.
    cells = [*study.CELL, "rule"]
    best = tuning.groupby([*cells, "rate"])["training loss"].mean().reset_index()
    best = best.loc[best.groupby(cells)["training loss"].idxmin()].set_index(cells)["rate"]
    rates = runs.groupby(cells)["rate"].unique()
    assert all(rates[key].tolist() == [rate] for key, rate in best.items())
    # The most even rule leaves the smallest variance.
    even = runs.groupby("rule")["variance of counts"].mean()
    assert even["counts alone"] <= even.min() + 0.2
    assert (folder / "objective_on_the_graph.png").exists()
    assert len(pd.read_csv(folder / "predictions.csv")) == len(study.FUNCTIONS)


def test_what_confirms_is_of_splits_that_no_run_had_used():
    published = set(study.QUICK.splits) | set(study.QUICK.tuned_on)
    for data, splits in study.CONFIRMED.values():
        assert data == "digits" or data in study.IMAGES
        assert not published & set(splits)
        assert len(splits) >= 10
    assert set(study.CONFIRMED) < set(study.STUDY.datasets)
    runs = pd.read_parquet(study.BEFORE)
    assert runs["split"].max() < min(study.CONFIRMED["digits-new"][1])


@pytest.mark.parametrize(("label", "splits"), [("", 15), ("_letters", 15), ("_digits_new", 15), ("_letters_208", 10)])
def test_every_interval_of_the_gallery_follows_from_its_rows_of_splits(label, splits):
    """Student's t, written out, on the published rows; adjustments and verdicts by the study's own function."""
    gallery = Path(__file__).parents[3] / "docs" / "gallery"
    updates, runs = (
        pd.read_parquet(gallery / f"objective_on_the_graph{label}_{name}.parquet") for name in ("updates", "runs")
    )
    table = pd.read_csv(gallery / f"objective_on_the_graph{label}_primary.csv")
    pd.testing.assert_frame_equal(study.primary(updates, runs), table, check_dtype=False)
    errors = updates.groupby([*study.CELL, "split", "objective"])["error"].mean().unstack()
    losses = runs.set_index([*study.CELL, "split", "rule"])["loss"].unstack()
    differences = {
        "error: coverage - dispersion": (errors["coverage"] - errors["dispersion"]) / errors["random"],
        "loss: coverage - FedGS": (losses[study.COVERAGE] - losses[study.FEDGS]) / losses[study.UNIFORM],
        "loss: coverage - uniform": losses[study.COVERAGE] / losses[study.UNIFORM] - 1,
    }
    for row in table.to_dict("records"):
        values = 100 * differences[row["outcome"]].loc[tuple(row[name] for name in study.CELL)].to_numpy()
        assert len(values) == row["splits"] == splits
        half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        assert (values.mean(), half) == (pytest.approx(row["difference %"]), pytest.approx(row["+-"]))
    assert len(table) == 12
