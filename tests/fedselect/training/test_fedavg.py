"""The loop: it applies the weights it is given, to the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT, ideal
from fedselect.data import digits
from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, Selection
from fedselect.selectors import FedGS, Uniform
from fedselect.training.settings import TrainingSettings
from graphs import dependency_graph, distances, similarity

pytest.importorskip("torch")
from fedselect.training.fedavg import FedAvg


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=12)


class Fixed:
    """Select the same clients with the same weights, and remember what it is told."""

    def __init__(self, clients, weights, on_failure="keep"):
        self.selection = Selection(clients, weights, on_failure=on_failure)
        self.told = []

    def select(self, round):
        self.seen = round
        return self.selection

    def update(self, feedback):
        self.told.append(feedback)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def fedgs(federation):
    h = distances(dependency_graph(similarity(federation.label_distributions)))
    return FedGS(3, distances=h)


def loop(federation, selector, seed=0, **options):
    availability = options.pop("availability", AVAILABILITY.build("ideal", federation, seed))
    return FedAvg(federation, selector, availability, seed=seed, **options)


def test_the_update_is_the_weighted_sum_of_the_clients_updates(federation):
    """One client at a time with weight 1 gives its update; together they must give the weighted sum."""
    start = loop(federation, Fixed([], [])).weights
    updates = {}
    for client in (2, 5, 7):
        alone = loop(federation, Fixed([client], [1.0]))
        alone.step()
        updates[client] = alone.weights.astype(np.float64) - start
    together = loop(federation, Fixed([2, 5, 7], [0.5, 1.5, -0.25]))
    together.step()
    expected = start + 0.5 * updates[2] + 1.5 * updates[5] - 0.25 * updates[7]
    assert np.abs(together.weights - expected).max() < 1e-6
    assert np.abs(together.weights - start).max() > 0.01


def test_local_training_is_plain_sgd_on_the_stated_batches(federation):
    """One step on a full batch, against the gradient of softmax regression written out in NumPy."""
    settings = TrainingSettings(local_steps=1, batch_size=10_000, learning_rate=0.3, decay=1.0)
    run = loop(federation, Fixed([3], [1.0]), settings=settings)
    before = run.weights.astype(np.float64)
    run.step()
    samples = federation.datasets[3]
    weight, bias = before[:640].reshape(10, 64), before[640:]
    logits = samples.features @ weight.T + bias
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    error = (shares - np.eye(10)[samples.labels]) / len(samples)
    gradient = np.concatenate([(error.T @ samples.features).ravel(), error.sum(axis=0)])
    assert np.abs(run.weights - (before - 0.3 * gradient)).max() < 1e-6


def test_step_size_decays_each_round(federation):
    """With weight 0 the model stays, so the second round's update is the first's times the decay."""
    settings = TrainingSettings(local_steps=1, batch_size=10_000, learning_rate=0.3, decay=0.5)
    run = loop(federation, Fixed([3], [0.0]), settings=settings)
    run.step()
    norms = [run.selector.told[0].norms[3]]
    run.step()
    norms.append(run.selector.told[1].norms[3])
    assert norms[1] / norms[0] == pytest.approx(0.5, rel=1e-5)


def test_nobody_selected_leaves_the_model(federation):
    run = loop(federation, Fixed([], []))
    before = run.weights
    done = run.step()
    assert np.array_equal(run.weights, before)
    assert (done.outcomes == Outcome.IDLE).all()


def test_all_missing_leaves_the_model(federation):
    run = loop(federation, Fixed([1, 2], [0.5, 0.5]), dropout=DROPOUT.build("bernoulli", 12, 0, rate=1.0))
    before = run.weights
    done = run.step()
    assert np.array_equal(run.weights, before)
    assert done.outcomes[[1, 2]].tolist() == [Outcome.MISSING] * 2
    assert run.selector.told[0].losses == {}


def test_weights_of_the_missing_go_as_the_selection_says(federation):
    dropout = DROPOUT.build("bernoulli", 12, 3, rate=0.5)
    back = dropout.returned(0)
    clients = np.arange(12)
    for on_failure, total in (("keep", back.sum() / 12), ("renormalise", 1.0)):
        done = loop(federation, Fixed(clients, np.full(12, 1 / 12), on_failure), dropout=dropout).step()
        assert done.applied.sum() == pytest.approx(total)
        assert ((done.applied > 0) == back).all()


def test_choosing_an_absent_client_is_an_error(federation):
    class Absent:
        def available(self, round):
            mask = np.ones(12, dtype=bool)
            mask[4] = False
            return mask

    with pytest.raises(ConfigError, match=r"chose clients that are not available in round 0: \[4\]"):
        loop(federation, Fixed([3, 4], [0.5, 0.5]), availability=Absent()).step()


def test_two_runs_are_bit_for_bit_equal_and_seeds_differ(federation):
    def final(seed):
        run = loop(federation, Uniform(3), seed=seed)
        losses = [run.step().loss for _ in range(5)]
        return run.weights, losses

    (first, losses), (again, repeated), (other, _) = final(0), final(0), final(1)
    assert np.array_equal(first, again)
    assert losses == repeated
    assert not np.array_equal(first, other)


def test_two_selectors_meet_the_same_world(federation):
    """Same availability and initial model, and the same update of a client both select in the same round."""
    masks = AVAILABILITY.build("bernoulli", federation, 5, rate=0.6)
    fixed, seen = [], []
    for selector in (fedgs(federation), Uniform(3)):
        run = loop(federation, selector, seed=5, availability=masks)
        fixed.append(run.weights)
        seen.append([run.step().outcomes != Outcome.UNAVAILABLE for _ in range(4)])
    assert np.array_equal(*fixed)
    assert np.array_equal(*seen)


def test_restoring_the_state_continues_to_the_same_bits(federation):
    def fresh():
        return loop(federation, fedgs(federation), seed=2)

    whole = fresh()
    for _ in range(6):
        whole.step()
    first = fresh()
    for _ in range(3):
        first.step()
    second = fresh()
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        second.step()
    assert np.array_equal(second.weights, whole.weights)
    assert second.selector.counts.tolist() == whole.selector.counts.tolist()


def test_probe_gives_the_training_loss_of_the_global_model(federation):
    run = loop(federation, Fixed([0], [1.0]))
    run.step()
    losses = run.selector.seen.probe([0, 1, 2])
    assert losses.shape == (3,)
    assert losses[1] == pytest.approx(float(run.losses([1])[0]))


def test_learning_happens(federation):
    run = loop(federation, Uniform(6))
    before, _ = run.evaluate()
    for _ in range(30):
        done = run.step()
    assert done.loss < before / 2
    assert done.accuracy > 0.8


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be a positive number; got 0.0"),
        ({"local_steps": -1}, "local_steps must be a positive integer; got -1"),
        ({"batch_size": 2.5}, "batch_size must be a positive integer; got 2.5"),
        ({"local_epochs": 1.5}, "local_epochs must be a positive integer; got 1.5"),
        ({"device": "tpu"}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:1', say; got 'tpu'"),
        ({"device": None}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:1', say; got None"),
        ({"update_limit": "x"}, r"update_limit must be positive \(inf for none\); got 'x'"),
        ({"update_limit": None}, r"update_limit must be positive \(inf for none\); got None"),
        ({"model": "transformer"}, "there is no model 'transformer'"),
    ],
)
def test_bad_settings_are_sentences(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainingSettings(**options)


def test_what_clients_hold_out_gives_a_validation_loss_in_every_evaluated_round():
    federation = digits(n_clients=6, partition="two-label", validation_fraction=0.2)
    loop = FedAvg(federation, Uniform(2), ideal(federation), settings={"evaluate_every": 2})
    loop.step()
    done = loop.step()
    sizes = np.array([len(each) for each in federation.validation])
    held = loop.validation_losses(range(6))
    assert done.metrics == {"validation_loss": pytest.approx(float((held * sizes).sum() / sizes.sum()), rel=1e-12)}
    assert "validation_loss" not in (loop.step().metrics or {})
    plain = digits(n_clients=6, partition="two-label")
    assert not FedAvg(plain, Uniform(2), ideal(plain)).step().metrics


def test_clients_that_hold_nothing_out_have_no_validation_loss(federation):
    with pytest.raises(ConfigError, match="client 0 has held no sample out of training"):
        loop(federation, Uniform(3)).validation_losses([0])
