"""Optimizers of clients and server, schedules, clipped gradients, metrics of the whole set: against numbers by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import digits
from fedselect.errors import ConfigError
from fedselect.experiments import Experiment
from fedselect.rounds import History
from fedselect.rounds.engine import round_record
from fedselect.selectors import Uniform
from fedselect.training.fedavg import FedAvg
from fedselect.training.losses import METRICS, whole_set
from fedselect.training.server_rules import build_rule
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
        server = build_rule(settings, np.ones(1), torch.zeros(2))
        change = server.change([0], [1.0], update, 0.1)
        square = update[0].double() ** 2
        if sign > 0:
            second = 0.99 * tau**2 + 0.01 * square
        else:
            second = tau**2 - 0.01 * square * torch.sign(tau**2 - square)
        assert torch.allclose(change.double(), 0.1 * update[0].double() / (second.sqrt() + tau), rtol=1e-5)
        server.keep([0], update, 0.1, torch.zeros(2))
        again = build_rule(settings, np.ones(1), torch.zeros(2))
        again.load_state_dict(server.state_dict())
        assert torch.equal(again.change([0], [1.0], update, 0.1), server.change([0], [1.0], update, 0.1))
        assert server.change([], [], torch.empty((0, 2)), 0.1) is None
    assert TrainingSettings(server_rule="fedavgm").server_momentum == 0.9


def served(federation, rule, *, rate=0.0, **settings):
    """A loop whose server has this rule, and of whose clients a share does not come back."""
    there, back = AVAILABILITY.build("ideal", federation, 0), DROPOUT.build("bernoulli", 6, 0, rate=rate)
    settings = TrainingSettings(**settings)
    return FedAvg(federation, Uniform(2), there, dropout=back, server_rule=rule, settings=settings)


def test_an_optimizer_of_pytorch_is_the_server(federation):
    """SGD with momentum and decay is the one that is written out; rounds in which nobody returns leave it."""
    settings = {"server_learning_rate": 0.3, "server_momentum": 0.8, "server_weight_decay": 0.05}
    options = {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.05}
    ours = served(federation, None, rate=0.6, **settings)
    theirs = served(federation, lambda parameters: torch.optim.SGD(parameters, **options), rate=0.6)
    empty = 0
    for _ in range(12):
        done = ours.step()
        theirs.step()
        empty += not done.applied.any()
        np.testing.assert_allclose(theirs.weights, ours.weights, atol=1e-6)
    assert empty > 0
    start = served(federation, "fedavg").weights
    adam = served(federation, lambda parameters: torch.optim.Adam(parameters, lr=0.01))
    adam.step()  # the first step of Adam is of the rate, where there is a gradient
    moved = np.abs(adam.weights - start)
    np.testing.assert_allclose(moved[moved > 1e-4], 0.01, rtol=1e-2)
    assert (moved > 1e-4).sum() > 100


def test_a_server_of_pytorch_continues_to_the_same_bits(federation):
    whole, first, second = (
        served(federation, lambda parameters: torch.optim.Adam(parameters, lr=0.01), rate=0.3) for _ in range(3)
    )
    whole.fit(6)
    first.fit(3)
    state = first.state_dict()
    first.step()  # what goes on afterwards does not reach into the state
    second.load_state_dict(state)
    second.fit(3)
    assert np.array_equal(second.weights, whole.weights)


def test_a_step_of_the_server_that_overflows_is_not_kept(federation):
    """The step is infinite whoever is left out: the model and the optimizer's velocity stay as they were."""
    huge = {"lr": 1e6, "weight_decay": 3e38, "momentum": 0.9}
    loop = served(federation, lambda parameters: torch.optim.SGD(parameters, **huge))
    before = loop.weights
    for _ in range(2):
        done = loop.step()
        assert len(done.refused) == 2
    assert np.array_equal(loop.weights, before)
    assert loop._rule.state_dict()["state"] == {}


def test_a_server_that_is_no_optimizer_is_a_sentence(federation):
    with pytest.raises(
        ConfigError, match=r"server_rule is a name, a ServerRule, or makes an optimizer of torch.optim.*it made 3"
    ):
        served(federation, lambda parameters: 3)


def test_a_run_is_a_history(federation):
    history = served(federation, "fedavgm", rate=0.3, evaluate_every=2).run(5)
    rounds = served(federation, "fedavgm", rate=0.3, evaluate_every=2).fit(5)
    assert len(history) == history.rounds == 5
    assert history.loss[[1, 3, 4]].tolist() == [rounds[t].loss for t in (1, 3, 4)]
    assert history.accuracy[[1, 3, 4]].tolist() == [rounds[t].accuracy for t in (1, 3, 4)]
    assert np.isnan(history.loss[[0, 2]]).all()
    assert history.selections.tolist() == np.bincount(np.concatenate(history.selected), minlength=6).tolist()
    again = History.from_records(map(round_record, rounds), 6)
    for name in ("loss", "accuracy", "available", "counts", "total_weights"):
        np.testing.assert_array_equal(getattr(again, name), getattr(history, name))
    assert len(served(federation, "fedavg").run(0)) == 0


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


def test_settings_are_written_out_and_read_back():
    written = Experiment().tables()["training"]
    assert (written["optimizer"], written["schedule"], written["metrics"]) == ("sgd", "exponential", [])
    chosen = Experiment(rounds=7, training={"optimizer": "adam", "schedule": "cosine", "metrics": ["f1"]})
    assert chosen.training.schedule_rounds == 7
    again = Experiment.from_tables(chosen.tables())
    assert dataclasses.asdict(again) == dataclasses.asdict(chosen)
    assert again.digest == chosen.digest != Experiment(rounds=7).digest


def test_what_makes_no_optimizer_is_refused(federation):
    with pytest.raises(ConfigError, match=r"optimizer must make an optimizer of torch\.optim; it made 3"):
        loop(federation, by=lambda parameters, rate: 3).step()
