"""CA-Fed's linear model and optimisers, against the recursions written out in NumPy and float64."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.availability.independent import Independent
from fedselect.data import clustered
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.selectors import SelectAll
from fedselect.training.models import MODELS
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")
import torch

from fedselect.training.client import batches
from fedselect.training.fedavg import FedAvg
from fedselect.training.stacks import dense

CLIENTS, ROUNDS, SEED = 6, 12, 3
RATES = np.array([0.9, 0.4, 0.9, 0.4, 0.6, 0.3])
IMPORTANCE = np.full(CLIENTS, 1 / CLIENTS)


@pytest.fixture(scope="module")
def federation():
    return clustered(n_clients=CLIENTS, samples=21, test_samples=10, seed=4)


def loop(federation, **options):
    """Clients who come and go, everybody there trains with weight α/π: CA-Fed's Unbiased."""
    settings = TrainingSettings(**{"model": "logistic", "decay": 1.0, "local_epochs": 2, "batch_size": 8} | options)
    there = Independent(RATES, SEED)
    return FedAvg(
        federation, SelectAll("unbiased", rates=RATES, importance=IMPORTANCE), there, settings=settings, seed=SEED
    )


def recursion(federation, settings, start, there):
    """The authors' optimisers: w, bias; SGD with ridge and momentum on both sides; the logistic loss of one logit."""
    w, velocity = start.astype(np.float64), np.zeros(start.size)
    for t in range(ROUNDS):
        change, anybody = np.zeros(w.size), False
        for k in np.flatnonzero(there.available(t)):
            data, own = federation.datasets[k], w.copy()
            x = np.column_stack([data.features, np.ones(len(data))]).astype(np.float64)
            buffer = np.zeros(w.size)
            for rows in batches(len(data), settings, settings.local_epochs, generator(SEED, "training", t, k)):
                error = 1 / (1 + np.exp(-x[rows] @ own)) - data.labels[rows]
                gradient = x[rows].T @ error / rows.size + settings.weight_decay * own
                buffer = settings.momentum * buffer + gradient
                own -= settings.rate(t) * buffer
            change += IMPORTANCE[k] / RATES[k] * (own - w)
            anybody = True
        if anybody:
            velocity = settings.server_momentum * velocity + change - settings.server_weight_decay * w
            w = w + settings.server_learning_rate * velocity
    return w


@pytest.mark.parametrize("batching", ["always", "never"])
@pytest.mark.parametrize("code", [False, True], ids=["paper", "code"])
def test_rounds_are_the_published_recursion(federation, batching, code):
    both = {"momentum": 0.9, "server_momentum": 0.9, "server_weight_decay": 0.01, "server_learning_rate": 0.3}
    options = {"learning_rate": 0.05, "weight_decay": 0.01, "batching": batching}
    run = loop(federation, **options, **(both if code else {}))
    start = run.weights
    assert start.size == 11
    for _ in range(ROUNDS):
        run.step(evaluate=False)
    expected = recursion(federation, run.settings, start, run.world.availability)
    assert np.linalg.norm(expected - start) > 0.1
    np.testing.assert_allclose(run.weights, expected, atol=2e-5)


def test_one_logit_is_two_outputs_at_half_the_rate_and_twice_the_ridge(federation):
    """The difference of two softmax outputs moves as the one logit does; not under the same rate and ridge."""
    rate, ridge = 0.08, 0.02
    options = {"momentum": 0.9, "server_momentum": 0.5, "server_weight_decay": 0.05, "server_learning_rate": 0.7}
    one = loop(federation, learning_rate=rate, weight_decay=ridge, **options)
    two = {
        factor: loop(federation, model="linear", learning_rate=rate / factor, weight_decay=ridge * factor, **options)
        for factor in (1, 2)
    }
    start = two[2].weights

    def difference(weights):
        matrix, bias = weights[:20].reshape(2, 10), weights[20:]
        return np.append(matrix[1] - matrix[0], bias[1] - bias[0])

    state = one.state_dict()
    one.load_state_dict(state | {"weights": difference(start)})
    for run in (one, *two.values()):
        for _ in range(ROUNDS):
            run.step(evaluate=False)
    np.testing.assert_allclose(one.weights, difference(two[2].weights), atol=2e-5)
    assert np.abs(one.weights - difference(two[1].weights)).max() > 0.01
    assert one.evaluate() == pytest.approx(two[2].evaluate(), abs=1e-5)


def test_server_decay_leaves_the_model_where_nothing_arrived(federation):
    settings = TrainingSettings(model="logistic", server_weight_decay=0.5)
    there = AVAILABILITY.build("ideal", federation, SEED)
    nobody = DROPOUT.build("bernoulli", CLIENTS, SEED, rate=1.0)
    run = FedAvg(
        federation,
        SelectAll("unbiased", rates=RATES, importance=IMPORTANCE),
        there,
        dropout=nobody,
        settings=settings,
        seed=SEED,
    )
    before = run.weights
    run.step(evaluate=False)
    assert np.array_equal(run.weights, before)


def test_the_model_has_a_closed_form_and_two_classes(federation):
    assert dense(MODELS.build("logistic", federation)).one_logit
    assert dense(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ConstantPad1d((1, 0), 0.0))) is None
    from fedselect.data import digits

    with pytest.raises(ConfigError, match="model 'logistic' has two classes; digits has 10"):
        MODELS.build("logistic", digits(n_clients=3))
