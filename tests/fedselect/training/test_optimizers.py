"""Optimizers of clients and server, schedules, clipped gradients, metrics of the whole set: against numbers by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.errors import ConfigError
from fedselect.experiments import Experiment
from fedselect.selectors import Uniform
from fedselect.training.fedavg import FedAvg
from fedselect.training.losses import METRICS, whole_set
from fedselect.training.server_rules import SERVER_RULES
from fedselect.training.settings import TrainingSettings


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=6)


def loop(federation, **settings):
    optimizer, metrics = settings.pop("by", None), settings.pop("metrics_by", None)
    settings = TrainingSettings(**settings)
    there = AVAILABILITY.build("ideal", federation, 0)
    return FedAvg(federation, Uniform(3), there, settings=settings, optimizer=optimizer, metrics=metrics)


def test_sgd_of_pytorch_takes_the_steps_that_are_written_out(federation):
    ours = loop(federation, batching="never", local_steps=3)
    theirs = loop(federation, local_steps=3, by=lambda parameters, rate: torch.optim.SGD(parameters, lr=rate))
    ours.fit(2), theirs.fit(2)
    assert np.allclose(ours.weights, theirs.weights, atol=1e-6)
    assert theirs.stack == 1


def test_one_step_of_adam_moves_every_weight_by_the_rate(federation):
    """The first step of Adam is rate·g/(|g| + ε), for gradients far above ε; equal signs average to the rate."""
    trained = loop(federation, optimizer="Adam", local_steps=1, learning_rate=0.01, batch_size=1000)
    before = trained.weights
    trained._local.train([0], trained._weights, 0)
    update = trained._local.train([0], trained._weights, 0)[0][0].numpy()
    moved = np.abs(update[np.abs(update) > 1e-3])
    assert moved.size > 100
    assert np.allclose(moved, 0.01, rtol=1e-3)
    assert np.array_equal(before, trained.weights)


def test_gradients_are_clipped_alike_together_and_alone(federation):
    settings = {"local_steps": 1, "clip_gradient": 0.05, "learning_rate": 1.0}
    for batching in ("always", "never"):
        trained = loop(federation, batching=batching, **settings)
        updates = trained._local.train([0, 1], trained._weights, 0)[0]
        assert np.allclose(np.linalg.norm(updates.numpy(), axis=1), 0.05, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({"decay": 0.5}, [1.0, 0.5, 0.25, 0.125]),
        ({"schedule": "cosine", "schedule_rounds": 2}, [1.0, 0.5, 0.0, 0.0]),
        ({"schedule": "linear", "schedule_rounds": 4}, [1.0, 0.75, 0.5, 0.25]),
        ({"schedule": "step", "decay": 0.1, "schedule_rounds": 2}, [1.0, 1.0, 0.1, 0.1]),
    ],
)
def test_schedules(settings, rates):
    found = TrainingSettings(learning_rate=1.0, **settings)
    assert [found.rate(t) for t in range(4)] == pytest.approx(rates, abs=1e-15)


def test_adaptive_servers_are_those_of_the_paper():
    update, tau = torch.tensor([[0.5, -0.1]]), 1e-3
    for rule, sign in (("fedadam", 1.0), ("fedyogi", -1.0)):
        settings = TrainingSettings(server_rule=rule)
        server = SERVER_RULES.build(rule, settings, np.ones(1), torch.zeros(2))
        change = server.change([0], [1.0], update, 0.1)
        square = update[0].double() ** 2
        if sign > 0:
            second = 0.99 * tau**2 + 0.01 * square
        else:
            second = tau**2 - 0.01 * square * torch.sign(tau**2 - square)
        assert torch.allclose(change.double(), 0.1 * update[0].double() / (second.sqrt() + tau), rtol=1e-5)
        server.keep([0], update, 0.1, torch.zeros(2))
        again = SERVER_RULES.build(rule, settings, np.ones(1), torch.zeros(2))
        again.load_state_dict(server.state_dict())
        assert torch.equal(again.change([0], [1.0], update, 0.1), server.change([0], [1.0], update, 0.1))
        assert server.change([], [], torch.empty((0, 2)), 0.1) is None
    assert TrainingSettings(server_rule="fedavgm").server_momentum == 0.9


def test_metrics_of_the_whole_set_by_hand():
    labels = torch.tensor([0, 0, 1, 1, 2])
    outputs = torch.tensor([[3.0, 0, 0], [0, 3.0, 0], [0, 3.0, 0], [0, 3.0, 0], [3.0, 0, 0]])
    # answers 0 1 1 1 0: class 0 has TP 1, FP 1, FN 1; class 1 TP 2, FP 1, FN 0; class 2 none
    assert METRICS["f1"](outputs, labels) == pytest.approx((0.5 + 0.8 + 0.0) / 3)
    assert METRICS["balanced-accuracy"](outputs, labels) == pytest.approx((0.5 + 1 + 0) / 3)
    # of class 0: scores .91, .05 against .05, .05, .91: 2 wins, 3 ties of 6; of class 1: 2·3 pairs, 4 wins, 2 ties
    areas = [(2 + 0.5 * 3) / 6, (4 + 0.5 * 2) / 6, 0.5 * 2 / 4]
    assert METRICS["auroc"](outputs, labels) == pytest.approx(np.mean(areas), abs=0.2)
    assert math.isnan(METRICS["auroc"](outputs[:1], labels[:1]))


def test_metrics_are_in_the_rounds(federation):
    @whole_set
    def spread(outputs, labels):
        return float(outputs.std())

    class Counting:
        """An object with the methods of torchmetrics."""

        def __call__(self, outputs, labels):
            raise AssertionError

        def reset(self):
            self.seen = 0

        def update(self, outputs, labels):
            self.seen += len(labels)

        def compute(self):
            return torch.tensor(self.seen)

    played = loop(federation, metrics=["f1"], metrics_by=[spread, Counting()]).fit(1)
    found = played[0].metrics
    assert set(found) == {"f1", "spread", "Counting"}
    assert found["Counting"] == len(federation.test.labels)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"optimizer": "lbfgs"}, "no optimizer 'lbfgs'"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum is sgd's"),
        ({"optimizer_options": {"betas": [0.9, 0.99]}}, "optimizer_options are of other optimizers"),
        ({"metrics": ["f-one"]}, "no metric 'f-one'"),
        ({"server_beta2": 1.0}, "server_beta2"),
        ({"clip_gradient": 0}, "clip_gradient"),
        ({"schedule": "poly"}, "schedule must be"),
    ],
)
def test_settings_that_are_not_accepted(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainingSettings(**settings)


def test_options_that_pytorch_does_not_take_are_a_sentence(federation):
    with pytest.raises(ConfigError, match="'adam' does not take"):
        loop(federation, optimizer="adam", optimizer_options={"beta": 1}).fit(1)
    with pytest.raises(ConfigError, match="needs schedule_rounds"):
        loop(federation, schedule="cosine").fit(1)


def test_configurations_without_the_later_settings_stay_as_they_were():
    written = Experiment().tables()["training"]
    assert not {"optimizer", "schedule", "metrics", "clip_gradient", "server_beta1"} & set(written)
    chosen = Experiment(rounds=7, training={"optimizer": "adam", "schedule": "cosine", "metrics": ["f1"]})
    assert chosen.training.schedule_rounds == 7
    again = Experiment.from_tables(chosen.tables())
    assert dataclasses.asdict(again) == dataclasses.asdict(chosen)
    assert again.digest == chosen.digest != Experiment(rounds=7).digest
