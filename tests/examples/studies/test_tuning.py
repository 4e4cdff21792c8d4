"""Grid search over training settings."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import study
from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, run_folder
from fedselect.training.settings import TrainingSettings
from study import Setup, Trial, Tuning, tune, widened

SMALL = Experiment(
    name="tuning", rounds=2, clients_per_round=3, data=Choice("clustered", {"n_clients": 4, "samples": 20})
)
GRID = {"learning_rate": [1e-3, 0.3, 1e-2], "server_learning_rate": [1.0, 0.5]}


@pytest.mark.parametrize(
    ("criterion", "key", "pick"), [("objective", "client_loss_mean", min), ("mean accuracy", "mean_accuracy", max)]
)
def test_the_best_of_all_combinations_is_found_and_nothing_is_run_twice(criterion, key, pick, tmp_path):
    labels = {"uniform": [SMALL], "everyone": [replace(SMALL, selector=Choice("all-available"))]}
    seen = []
    best, trials = tune(
        labels, GRID, tmp_path, progress=lambda done, total: seen.append((done, total)), criterion=criterion
    )
    assert seen[-1] == (24, 24)
    assert [(each.label, each.rounds) for each in trials] == [(label, 2) for label in labels for _ in range(6)]
    for label, (experiment,) in labels.items():
        values = {}
        for rate in GRID["learning_rate"]:
            for server in GRID["server_learning_rate"]:
                training = replace(experiment.training, learning_rate=rate, server_learning_rate=server)
                each = replace(experiment, training=training)
                summary = run_folder(each, tmp_path) / "summary.json"
                values[rate, server] = json.loads(summary.read_text())[key]
        chosen = best[label]
        assert values[chosen.learning_rate, chosen.server_learning_rate] == pick(values.values())
        assert best[label] == replace(experiment.training, **{name: getattr(chosen, name) for name in GRID})
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("tuning/*/*")}
    assert tune(labels, GRID, tmp_path, criterion=criterion) == (best, trials)
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.glob("tuning/*/*")}


def test_a_single_combination_is_taken_without_a_run(tmp_path):
    best, trials = tune({"uniform": [SMALL]}, {"learning_rate": [0.25]}, tmp_path)
    assert (best, trials) == ({"uniform": TrainingSettings(learning_rate=0.25)}, [])
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_never_wins(tmp_path):
    everyone = {"everyone": [replace(SMALL, selector=Choice("all-available"))]}
    best, _ = tune(everyone, {"learning_rate": [1e20], "server_learning_rate": [1e20, 0.1]}, tmp_path)
    assert best["everyone"].server_learning_rate == 0.1
    with pytest.raises(ConfigError, match="everyone: no setting of the grid"):
        tune(everyone, {"learning_rate": [1e20], "server_learning_rate": [1e20, 1e21]}, tmp_path)


def test_a_loss_that_is_not_finite_never_wins_where_no_update_was_refused(tmp_path):
    """One step to a finite model whose loss overflows: a file of JSON has null for it."""
    training = replace(SMALL.training, learning_rate=1.0)
    once = replace(SMALL, rounds=1, selector=Choice("all-available"), training=training)
    best, trials = tune({"everyone": [once]}, {"server_learning_rate": [3e38, 0.5]}, tmp_path)
    assert [each.value for each in trials if each.settings["server_learning_rate"] == 3e38] == [np.inf]
    far = replace(once, training=replace(training, server_learning_rate=3e38))
    summary = json.loads((run_folder(far, tmp_path) / "summary.json").read_text())
    assert (summary["failed"], summary["client_loss_mean"]) == (0, None)
    assert best["everyone"].server_learning_rate == 0.5


def test_a_grid_grows_beyond_the_edge_on_which_the_best_lies():
    grid = {"learning_rate": (0.01, 0.1, 1.0), "server_learning_rate": (1.0,)}

    def after(rate):
        return widened(grid, {"learning_rate": rate, "server_learning_rate": 1.0})["learning_rate"]

    assert after(0.1) == grid["learning_rate"]
    assert after(0.01) == pytest.approx((0.001, 0.01, 0.1, 1.0))
    assert after(1.0) == pytest.approx((0.01, 0.1, 1.0, 10.0))
    assert widened(grid, {"learning_rate": 1.0, "server_learning_rate": 1.0})["server_learning_rate"] == (1.0,)


def test_a_search_goes_on_where_the_best_lies_on_an_edge(tmp_path):
    """Steps so small that the largest is the best: the grid grows until it is not, and nothing is run twice."""
    scale = SimpleNamespace(local=(1e-4, 1e-3), server=(1.0,), screening=None)

    def settle(widenings):
        tuning = Tuning(lambda setup: {"uniform": [SMALL]}, widenings=widenings)
        return Setup(scale, "clustered", tmp_path, tmp_path, data={"tuning": tuning})["tuning"]

    best, trials = settle(0)
    assert best["uniform"].learning_rate == 1e-3
    assert len(trials) == 2
    best, trials = settle(2)
    assert best["uniform"].learning_rate == pytest.approx(0.1)
    assert sorted(each.settings["learning_rate"] for each in trials) == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert len(list(tmp_path.glob("runs/tuning/*"))) == 4
    best, trials = settle(20)  # no longer on an edge: it ends by itself
    rates = sorted(each.settings["learning_rate"] for each in trials)
    assert rates[0] < best["uniform"].learning_rate < rates[-1]
    assert len(rates) < 20


@pytest.mark.parametrize("rates", [(0.1, 1.0), (1.0, 10.0)])
def test_a_wider_grid_never_makes_the_best_worse(rates, tmp_path, monkeypatch):
    """After a short run larger steps look better; in full the larger, the worse, and those above 50 diverge."""

    def judge(experiments, candidates, *_):
        for label, points in candidates.items():
            rounds = experiments[label][0].rounds
            for point in points:
                rate = point["learning_rate"]
                value = 1 / rate if rounds == 1 else rate if rate < 50 else np.inf
                yield Trial(label, point, rounds, (value,))

    monkeypatch.setattr(study, "_judge", lambda *args: list(judge(*args)))
    for widenings in range(4):
        best, trials = tune(
            {"uniform": [SMALL]}, {"learning_rate": rates}, tmp_path, screening=(1, 1), widenings=widenings
        )
        assert best["uniform"].learning_rate == rates[-1]
        assert len({(each.rounds, *each.settings.values()) for each in trials}) == len(trials)
        assert len(trials) == (3 if widenings == 0 else 5)


@pytest.mark.parametrize("screening", [None, (1, 1)])
def test_a_best_that_is_only_equalled_stays(screening, tmp_path):
    """Nobody is ever there, so all rates lead to the same model: the grid's first stays, however wide it grows."""
    nobody = replace(SMALL, availability=Choice("bernoulli", {"rate": 1e-9}))
    grid = {"learning_rate": (0.1, 1.0), "server_learning_rate": (1.0, 10.0)}
    best, trials = tune({"uniform": [nobody]}, grid, tmp_path, screening=screening, widenings=3)
    assert len({each.value for each in trials}) == 1
    assert len(trials) > 4  # it was widened
    assert (best["uniform"].learning_rate, best["uniform"].server_learning_rate) == (0.1, 1.0)


@pytest.mark.parametrize("rates", [(0.1, 0.01), (0.0, 0.1), (0.1, 0.1)])
def test_a_grid_that_may_be_widened_ascends(rates, tmp_path):
    with pytest.raises(ConfigError, match="positive values in ascending order"):
        tune({"uniform": [SMALL]}, {"learning_rate": rates}, tmp_path, widenings=1)


def test_several_runs_count_alike_and_a_screening_lets_the_best_go_on(tmp_path):
    seeds = {"uniform": [replace(SMALL, seed=seed) for seed in (1, 2, 3)]}
    best, trials = tune(seeds, GRID, tmp_path / "screened", screening=(1, 3))
    short, full = ([each for each in trials if each.rounds == rounds] for rounds in (1, 2))
    assert len(short) == 6
    assert [len(each.values) for each in full] == [3, 3, 3]
    kept = sorted(short, key=lambda each: np.mean(each.values))[:3]
    assert [each.settings for each in full] == [each.settings for each in kept]
    # The best in full of those, by the mean over the three seeds, each found again in its own run folder.
    for trial in full:
        for run, value in zip(seeds["uniform"], trial.values, strict=True):
            each = replace(run, training=replace(run.training, **trial.settings))
            summary = json.loads((run_folder(each, tmp_path / "screened") / "summary.json").read_text())
            assert summary["client_loss_mean"] == value
    winner = min(full, key=lambda each: np.mean(each.values))
    assert best["uniform"] == replace(SMALL.training, **winner.settings)


def test_what_cannot_be_tuned_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="at least one value"):
        tune({"uniform": [SMALL]}, {"learning_rate": []}, tmp_path)
    with pytest.raises(ConfigError, match="there is no 'rate' to tune"):
        tune({"uniform": [SMALL]}, {"rate": [0.1]}, tmp_path)
    with pytest.raises(ConfigError, match="criterion must be one of 'objective', 'mean accuracy'; got 'loss'"):
        tune({"uniform": [SMALL]}, GRID, tmp_path, criterion="loss")
