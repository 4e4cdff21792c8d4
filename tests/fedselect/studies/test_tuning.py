"""Grid search over training settings."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, run_folder
from fedselect.studies.study import tune
from fedselect.training.settings import TrainingSettings

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
