"""Local training: stacked, one by one and written out in NumPy, it is the same SGD."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedselect.data import Federation, Samples
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.training.models import MODELS
from fedselect.training.settings import TrainingSettings, epochs_of

pytest.importorskip("torch")
import torch
from torch import nn

from fedselect.availability import Independent
from fedselect.selectors import Uniform
from fedselect.training.client import LocalTraining, batches
from fedselect.training.fedavg import FedAvg
from fedselect.training.stacks import Dense, dense


class Recurrent(nn.Module):
    """Two layers of an LSTM, which drops between them by a function."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(2, 4, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.lstm(x.unflatten(1, (3, 2)))[0][:, -1])


ARCHITECTURES = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)),
    "tanh": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    ),
    "dropout": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)),
    "random slope": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.RReLU(), nn.Linear(5, 3)),
    "recurrent": Recurrent,
    "statistics": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    "wide": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 30_000), nn.ReLU(), nn.Linear(30_000, 3)),
}

#: What a client's optimiser can be asked.
OPTIONS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "decay": {"weight_decay": 0.1, "decay": 0.5},
    "proximal": {"proximal": 0.7},
    "epochs": {"local_epochs": 3},
    "mixed epochs": {"local_epochs": [1, 2, 5], "momentum": 0.5, "weight_decay": 0.01, "proximal": 0.3},
    "whole batches": {"batch_size": 100, "local_steps": 4, "momentum": 0.9},
}


@pytest.fixture(autouse=True)
def architectures(restoring):
    """The models of this file, known by name for a test."""
    restoring(MODELS)
    for name, build in ARCHITECTURES.items():
        if name not in ("linear", "mlp"):
            MODELS.register(name)(lambda federation, build=build: build())


@pytest.fixture(scope="module")
def federation():
    """Clients of 1 to 30 samples: short last batches, widths of every kind."""
    rng = np.random.default_rng(7)
    sizes = [1, 3, 4, 5, 8, 9, 13, 21, 30]
    parts = [Samples(rng.normal(size=(n, 6)), rng.integers(3, size=n)) for n in sizes]
    return Federation("random", tuple(parts), parts[-1], 3)


def training(federation, architecture, **options):
    """Local training of an architecture from random weights, and the weights."""
    options = {"learning_rate": 0.2, "batch_size": 4} | options
    model = ARCHITECTURES[architecture]()
    settings = TrainingSettings(model=architecture, **options)
    size = sum(parameter.numel() for parameter in model.parameters())
    weights = torch.from_numpy(np.random.default_rng(size).normal(scale=0.5, size=size).astype(np.float32))
    return LocalTraining(model, federation, settings, 11, torch.device("cpu")), weights


@pytest.mark.parametrize(
    ("architecture", "case"),
    [
        *(("linear", case) for case in OPTIONS),
        *(("mlp", case) for case in OPTIONS),
        *(("tanh", case) for case in ("plain", "mixed epochs")),
        *(("convolution", case) for case in ("plain", "mixed epochs")),
    ],
)
def test_stacked_is_one_by_one(federation, architecture, case):
    options = OPTIONS[case]
    clients = [0, 1, 2, 4, 5, 7, 8]
    together, weights = training(federation, architecture, batching="always", **options)
    alone, _ = training(federation, architecture, batching="never", **options)
    before = weights.clone()
    assert together.stack > 1
    assert alone.stack == 1
    first, second = (each.train(clients, weights, 2) for each in (together, alone))
    assert torch.equal(weights, before)
    assert first[0].norm(dim=1).min() > 0.01
    np.testing.assert_allclose(first[0], second[0], atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(first[1][0], second[1][0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(first[1][1], second[1][1], rtol=1e-5, atol=1e-6)


def test_how_many_steps_are_gathered_at_once_changes_no_bit(federation, monkeypatch):
    clients = [0, 1, 2, 4, 5, 7, 8]
    found = []
    for cache in (1, 4000, 2**30):
        together, weights = training(federation, "mlp", batching="always", **OPTIONS["mixed epochs"])
        monkeypatch.setattr("fedselect.training.stacks._CACHE", cache)
        found.append(together.train(clients, weights, 2))
    for each in found[1:]:
        assert torch.equal(each[0], found[0][0])
        assert np.array_equal(each[1], found[0][1])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    hidden=st.lists(st.integers(1, 9), max_size=2),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    batch=st.integers(1, 50),
    work=st.sampled_from([{"local_steps": 1}, {"local_steps": 7}, {"local_epochs": 2}, {"local_epochs": [1, 4]}]),
    momentum=st.sampled_from([0.0, 0.9]),
)
def test_any_dense_network_and_any_sizes(seed, hidden, sizes, batch, work, momentum):
    """Stacked and one by one, for random networks, data, batch sizes and amounts of work."""
    rng = np.random.default_rng(seed)
    widths = [4, *hidden, 3]
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    model = nn.Sequential(nn.Flatten(), *[part for layer in layers for part in (layer, nn.ReLU())][:-1])
    parts = tuple(Samples(rng.normal(size=(n, 4)), rng.integers(3, size=n)) for n in sizes)
    federation = Federation("random", parts, parts[0], 3)
    size = sum(parameter.numel() for parameter in model.parameters())
    weights = torch.from_numpy(rng.normal(scale=0.5, size=size).astype(np.float32))
    found = []
    for batching in ("always", "never"):
        options = TrainingSettings(batch_size=batch, momentum=momentum, batching=batching, learning_rate=0.05, **work)
        local = LocalTraining(model, federation, options, 11, torch.device("cpu"))
        found.append(local.train(range(len(sizes)), weights, 0))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("batching", ["always", "never"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_it_is_sgd_as_written_out_in_numpy(federation, options, batching):
    """Softmax regression in float64 on the stated batches: momentum, decay and proximal term as documented."""
    local, weights = training(federation, "linear", batching=batching, **options)
    settings, start = local.settings, weights.numpy().astype(np.float64)
    epochs = epochs_of(len(federation), settings, 11)
    round, clients = 3, [1, 3, 6, 8]
    updates, (means, received), _ = local.train(clients, weights, round)
    for place, client in enumerate(clients):
        samples = federation.datasets[client]
        w, v, losses = start.copy(), np.zeros_like(start), []
        rng = generator(11, "training", round, client)
        for batch in batches(len(samples), settings, int(epochs[client]), rng):
            x, y = samples.features[batch].astype(np.float64), samples.labels[batch]
            logits = x @ w[:18].reshape(3, 6).T + w[18:]
            shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            losses.append(-np.log(shares[np.arange(len(y)), y]).mean())
            error = (shares - np.eye(3)[y]) / len(y)
            g = np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])
            g += settings.weight_decay * w + settings.proximal * (w - start)
            v = settings.momentum * v + g
            w -= 0.2 * settings.decay**round * v
        np.testing.assert_allclose(updates[place], w - start, atol=3e-6)
        assert means[place] == pytest.approx(np.mean(losses), rel=1e-5)
        assert received[place] == pytest.approx(losses[0], rel=1e-5)


def test_the_proximal_term_pulls_back_to_the_received_model(federation):
    """Two steps with the whole of client 0's one sample: the second gradient gains μ times the first step."""
    free, weights = training(federation, "linear", local_steps=2)
    held, _ = training(federation, "linear", local_steps=2, proximal=0.5)
    once, _ = training(federation, "linear", local_steps=1)
    first = once.train([0], weights, 0)[0]
    difference = free.train([0], weights, 0)[0] - held.train([0], weights, 0)[0]
    # Both took the same first step; the second differs by rate · μ · (w − w₀), once more times the decay, 1 in round 0.
    np.testing.assert_allclose(difference, 0.2 * 0.5 * first, atol=1e-6)


def test_epochs_pass_over_every_sample(federation):
    settings = TrainingSettings(local_epochs=2, batch_size=4)
    found = batches(13, settings, 2, np.random.default_rng(0))
    assert [len(batch) for batch in found] == [4, 4, 4, 1] * 2
    for half in (found[:4], found[4:]):
        assert np.sort(np.concatenate(half)).tolist() == list(range(13))


def test_epochs_drawn_from_a_list_are_each_clients_own_for_the_run():
    settings = TrainingSettings(local_epochs=[1, 2, 3, 4])
    drawn = epochs_of(400, settings, 5)
    assert np.array_equal(drawn, epochs_of(400, settings, 5))
    assert not np.array_equal(drawn, epochs_of(400, settings, 6))
    assert np.bincount(drawn, minlength=5)[1:].min() > 70
    assert epochs_of(3, TrainingSettings(local_epochs=2), 0).tolist() == [2, 2, 2]


@pytest.mark.parametrize("batching", ["always", "never"])
def test_training_again_gives_the_same_bits(federation, batching):
    first, second = (
        (local := training(federation, "mlp", batching=batching, momentum=0.9))[0].train([0, 2, 5, 8], local[1], 1)
        for _ in range(2)
    )
    assert torch.equal(first[0], second[0])
    assert np.array_equal(first[1][0], second[1][0])


def test_company_does_not_matter(federation):
    """A client's update with others in its stack, and alone: within float error."""
    local, weights = training(federation, "linear", batching="always")
    together = local.train([2, 3, 4, 5, 6, 7], weights, 0)[0]
    for place, client in enumerate([2, 3, 4, 5, 6, 7]):
        np.testing.assert_allclose(local.train([client], weights, 0)[0][0], together[place], atol=1e-6)


@pytest.mark.parametrize(
    ("architecture", "stacked"),
    [("linear", True), ("mlp", True), ("tanh", False), ("convolution", False), ("dropout", False), ("wide", False)],
)
def test_the_rule_on_a_cpu(federation, architecture, stacked):
    assert (training(federation, architecture)[0].stack > 1) is stacked


def test_small_stacks_change_nothing_but_rounding(federation, monkeypatch):
    whole, weights = training(federation, "linear")
    monkeypatch.setattr("fedselect.training.stacks._CACHE", 2 * (21 + 4 * 6))
    pairs, _ = training(federation, "linear")
    assert pairs.stack == 2
    clients = list(range(9))
    np.testing.assert_allclose(pairs.train(clients, weights, 0)[0], whole.train(clients, weights, 0)[0], atol=1e-6)


@pytest.mark.parametrize("architecture", ["dropout", "random slope", "recurrent"])
def test_layers_that_draw_do_so_from_the_clients_randomness(federation, architecture):
    local, weights = training(federation, architecture)
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = local.train([4, 7], weights, 0)[0]
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(local.train([4, 7], weights, 0)[0], first)
    assert not torch.equal(local.train([4, 7], weights, 1)[0], first)


def test_models_that_do_not_fit_are_sentences(federation):
    with pytest.raises(ConfigError, match=r"model 'statistics' normalises over batches.*client 0 has 1"):
        training(federation, "statistics")
    with pytest.raises(ConfigError, match="model 'dropout' has dropout layers, whose clients train one by one"):
        training(federation, "dropout", batching="always")


def test_what_counts_as_a_dense_network():
    assert dense(ARCHITECTURES["mlp"]()).widths == [6, 5, 4, 3]
    assert isinstance(dense(nn.Sequential(nn.Linear(6, 3))), Dense)
    for other in (
        ARCHITECTURES["tanh"](),
        nn.Linear(6, 3),
        nn.Sequential(nn.Flatten(), nn.Linear(6, 3, bias=False)),
        nn.Sequential(nn.Linear(6, 3), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(6, 3), nn.Linear(3, 3)),
        nn.Sequential(nn.Flatten()),
    ):
        assert dense(other) is None


# -- decided by the clock ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["tanh", "convolution"])
def test_a_timed_round_decides_how_clients_train_and_its_bits_are_those_of_one_way(federation, architecture, caplog):
    clients = [0, 2, 5, 8]
    with caplog.at_level("INFO", "fedselect"):
        timed, weights = training(federation, architecture, batching="timed")
        first = timed.train([4], weights, 0)
        assert timed.decided is None  # one client says nothing
        found = [timed.train(clients, weights, t)[0] for t in (0, 1)]
    assert timed.decided in (True, False)
    way = "always" if timed.decided else "never"
    assert f"training.batching = '{way}' is the same" in caplog.text
    assert caplog.text.count("one by one;") == 1  # decided once
    same, _ = training(federation, architecture, batching=way)
    for t in (0, 1):
        assert torch.equal(found[t], same.train(clients, weights, t)[0])
    assert torch.equal(first[0], training(federation, architecture, batching="never")[0].train([4], weights, 0)[0])
    for other in (True, False):  # as a checkpoint may have it
        told, _ = training(federation, architecture, batching="timed", workers=2)
        told.decided = other
        way = "always" if other else "never"
        wanted = training(federation, architecture, batching=way)[0].train(clients, weights, 3)[0]
        assert torch.equal(told.train(clients, weights, 3)[0], wanted)
        assert told.decided is other


def test_models_with_a_closed_form_and_those_that_train_alone_are_not_timed(federation):
    for architecture in ("mlp", "dropout", "wide"):
        timed, weights = training(federation, architecture, batching="timed")
        auto, _ = training(federation, architecture, batching="auto")
        assert torch.equal(timed.train([1, 2], weights, 0)[0], auto.train([1, 2], weights, 0)[0])
        assert timed.decided is None


class Branching(nn.Linear):
    """Look at the numbers that go through, which no vmap can."""

    def forward(self, x):
        outputs = super().forward(x)
        return outputs if float(outputs.sum()) > 0 else outputs * 2


def test_a_model_that_cannot_be_stacked_trains_one_by_one(federation, caplog):
    objects = TrainingSettings(batching="timed", learning_rate=0.1, batch_size=4)
    torch.manual_seed(0)
    model = Branching(6, 3)
    weights = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    with caplog.at_level("INFO", "fedselect"):
        timed = LocalTraining(model, federation, objects, 1, torch.device("cpu"))
        found = timed.train([0, 3], weights, 0)[0]
    assert timed.decided is False
    assert "clients of this model train one by one" in caplog.text
    alone = LocalTraining(model, federation, replace(objects, batching="never"), 1, torch.device("cpu"))
    assert torch.equal(found, alone.train([0, 3], weights, 0)[0])


def test_what_a_timed_round_has_decided_is_in_the_checkpoint(federation):
    def loop():
        settings = TrainingSettings(batching="timed", batch_size=4, learning_rate=0.1)
        return FedAvg(
            federation, Uniform(4), Independent(np.ones(9), 0), model=ARCHITECTURES["tanh"], settings=settings
        )

    torch.manual_seed(0)
    one = loop()
    assert "batching" not in one.state_dict()
    one.step()
    state = one.state_dict()
    for decided in (True, False):
        other = loop()
        other.load_state_dict(state | {"batching": decided})
        assert other.state_dict()["batching"] is decided
        again = loop()
        again.load_state_dict(state | {"batching": decided})
        other.step()
        again.step()
        assert np.array_equal(other.weights, again.weights)
        if decided == state["batching"]:
            one.step()
            assert np.array_equal(one.weights, other.weights)
