"""What the server does with updates: rules, step size, projection, and clients whose update cannot be used."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import Federation, Samples, digits
from fedselect.errors import ConfigError
from fedselect.rounds.engine import round_record
from fedselect.rounds.protocol import Outcome, Selection
from fedselect.selectors import Uniform
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")
import torch

import stored_updates  # noqa: F401  (registers FedVARP, MIFA and FedAWE: rules of one's own)
from fedselect.training.fedavg import FedAvg
from fedselect.training.losses import METRICS

N = 12


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=N)


class Told(Uniform):
    """A uniform selector that keeps what it is told, updates copied."""

    def __init__(self, size):
        super().__init__(size)
        self.told = []

    def update(self, feedback):
        self.told.append((feedback, {client: update.copy() for client, update in feedback.updates.items()}))


class Fixed(Told):
    """The same clients with the same weights every round."""

    def __init__(self, clients, weights, on_failure="keep"):
        super().__init__(1)
        self.selection = Selection(clients, weights, on_failure=on_failure)

    def select(self, round):
        return self.selection


def loop(federation, selector=None, rate=0.4, **settings):
    """Half the clients there, 40 % of the selected missing: some rounds bring nothing."""
    availability = AVAILABILITY.build("bernoulli", federation, 3, rate=0.5)
    if isinstance(selector, Fixed):
        availability = AVAILABILITY.build("ideal", federation, 3)
    dropout = DROPOUT.build("bernoulli", len(federation), 3, rate=rate)
    return FedAvg(
        federation, selector or Told(2), availability, dropout=dropout, settings=TrainingSettings(**settings), seed=3
    )


@pytest.mark.parametrize("importance", ["equal", "samples"])
@pytest.mark.parametrize("rule", ["fedavg", "fedvarp", "mifa"])
def test_rules_against_a_literal_implementation(federation, rule, importance):
    """Algorithm lines written out client by client, from the updates that the selector is told."""
    run = loop(federation, server_rule=rule, importance=importance, decay=0.7, server_learning_rate=0.5)
    w = run.weights.astype(np.float64)
    alpha = np.full(N, 1 / N) if importance == "equal" else federation.sizes / federation.sizes.sum()
    stored = {client: np.zeros_like(w) for client in range(N)}
    quiet = 0
    for t in range(25):
        done = run.step()
        _, updates = run.selector.told[-1]
        gamma = 0.1 * 0.7**t
        weights = dict(zip(done.selection.clients.tolist(), done.applied.tolist(), strict=True))
        change = np.zeros_like(w)
        if rule == "fedavg":
            for client in sorted(updates):
                change += weights[client] * updates[client]
        elif rule == "fedvarp":
            if updates:
                for client in sorted(updates):
                    change += weights[client] * (updates[client] - gamma * stored[client])
                for client in range(N):
                    change += alpha[client] * gamma * stored[client]
                for client in updates:
                    stored[client] = updates[client] / gamma
        else:
            for client in updates:
                stored[client] = updates[client] / gamma
            for client in range(N):
                change += alpha[client] * gamma * stored[client]
        quiet += not updates
        w += 0.5 * change
        np.testing.assert_allclose(run.weights, w, atol=2e-6)
    assert quiet > 0  # rounds in which nobody returned are among them


def test_fedvarp_of_everyone_is_fedavg(federation):
    """When all return with weights α, the stored updates cancel."""
    everyone = Fixed(np.arange(N), federation.sizes / federation.sizes.sum())
    runs = [loop(federation, everyone, rate=0.0, server_rule=rule) for rule in ("fedavg", "fedvarp", "mifa")]
    for _ in range(4):
        for run in runs:
            run.step()
    np.testing.assert_allclose(runs[1].weights, runs[0].weights, atol=1e-5)
    np.testing.assert_allclose(runs[2].weights, runs[0].weights, atol=1e-5)


def test_server_momentum_and_step_size_by_hand(federation):
    run = loop(federation, server_learning_rate=0.3, server_momentum=0.8)
    w, buffer = run.weights.astype(np.float64), 0.0
    for _ in range(15):
        done = run.step()
        _, updates = run.selector.told[-1]
        weights = dict(zip(done.selection.clients.tolist(), done.applied.tolist(), strict=True))
        if updates:  # nobody back: no step, and the buffer stays
            buffer = 0.8 * buffer + sum(weights[client] * update for client, update in updates.items())
            w += 0.3 * buffer
        np.testing.assert_allclose(run.weights, w, atol=2e-6)


def test_projection_scales_back_to_the_ball(federation):
    free, held = (loop(federation, Fixed([2], [1.0]), rate=0.0, projection=radius) for radius in (None, 1.5))
    free.step()
    held.step()
    norm = np.linalg.norm(free.weights)
    assert norm > 1.5
    np.testing.assert_allclose(held.weights, free.weights * 1.5 / norm, rtol=1e-5)
    inside = loop(federation, Fixed([2], [1.0]), rate=0.0, projection=1e3)
    inside.step()
    assert np.array_equal(inside.weights, free.weights)


def test_fedawe_against_a_literal_implementation(federation):
    """Own models, echoes of the rounds missed, and the mean handed to those that took part (Algorithm 1)."""
    run, echo = loop(federation, server_rule="fedawe"), 0
    begin = run.weights.astype(np.float64)
    own, last = dict.fromkeys(range(N), begin), dict.fromkeys(range(N), -1)
    w = begin
    for t in range(20):
        starts = {client: own[client] for client in range(N)}
        done = run.step()
        _, updates = run.selector.told[-1]
        if updates:
            weights = dict(zip(done.selection.clients.tolist(), done.applied.tolist(), strict=True))
            w = sum(weights[k] * (starts[k] + (t - last[k]) * updates[k]) for k in updates)
            w = w / sum(weights[k] for k in updates)
            echo += any(t - last[k] > 1 for k in updates)
            for client in updates:
                own[client], last[client] = w, t
        np.testing.assert_allclose(run.weights, w, atol=2e-5)
        for client in range(N):
            np.testing.assert_allclose(run._rule.start(client).numpy(), own[client], atol=2e-5)
    assert echo > 5


@pytest.mark.parametrize("server_rule", ["fedavg", "fedawe"])
def test_embeddings_are_of_the_models_that_clients_trained(server_rule):
    """Under fedawe a client trains from its own model, which is not the global one once it has been away."""

    class Watching(Told):
        def update(self, feedback):
            super().update(feedback)
            self.seen = {client: feedback.embeddings[client] for client in feedback.embeddings}

    run, differ = loop(digits(n_clients=N, validation_fraction=0.2), Watching(2), server_rule=server_rule), 0
    for _ in range(12):
        before = run._weights.clone()
        own = run.trains_own_models
        starts = {client: (run._rule.start(client) if own else before).clone() for client in range(N)}
        run.step()
        assert run.selector.seen.keys() == run.selector.told[-1][1].keys()
        for client, update in run.selector.told[-1][1].items():
            trained = starts[client] + torch.from_numpy(update)
            np.testing.assert_array_equal(run.selector.seen[client], run.embedding(trained))
            differ += not torch.equal(starts[client], before)
    assert (differ > 0) == (server_rule == "fedawe")


@pytest.mark.parametrize(
    "settings", [{"server_rule": rule} for rule in ("fedvarp", "mifa", "fedawe")] + [{"server_momentum": 0.9}]
)
def test_restored_rules_continue_to_the_same_bits(federation, settings):
    whole, first, second = (loop(federation, **settings) for _ in range(3))
    for _ in range(8):
        whole.step()
    for _ in range(5):
        first.step()
    state = first.state_dict()
    first.step()  # what goes on afterwards does not reach into the state
    second.load_state_dict(state)
    for _ in range(3):
        second.step()
    assert np.array_equal(second.weights, whole.weights)


# -- clients that fail ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def poisoned(federation):
    """Client 5 has a NaN among its features, client 7 a number that overflows."""
    parts = list(federation.datasets)
    for client, value in ((5, np.nan), (7, 1e38)):
        parts[client] = Samples(parts[client].features.copy(), parts[client].labels)
        parts[client].features[:, 0] = value  # behind its back: `Samples` refuses NaN
    return Federation(federation.name, tuple(parts), federation.test, federation.classes)


@pytest.mark.parametrize("batching", ["always", "never"])
@pytest.mark.parametrize("rule", ["fedavg", "fedvarp", "mifa"])
def test_an_update_that_is_not_finite_is_not_applied(poisoned, batching, rule):
    options = {"rate": 0.0, "batching": batching, "server_rule": rule}
    run = loop(poisoned, Fixed([3, 5, 7, 9], [0.25] * 4), **options)
    clean = loop(poisoned, Fixed([3, 9], [0.25] * 2), **options)
    for _ in range(3):
        done = run.step()
        clean.step()
    assert np.flatnonzero(done.outcomes == Outcome.FAILED).tolist() == [5, 7]
    assert done.applied.tolist() == [0.25, 0, 0, 0.25]
    feedback, updates = run.selector.told[-1]
    assert set(updates) == set(feedback.losses) == set(feedback.norms) == set(feedback.received_losses) == {3, 9}
    assert np.isfinite(run.weights).all()
    np.testing.assert_allclose(run.weights, clean.weights, atol=1e-6)


def test_a_huge_update_whose_norm_overflows_is_still_an_update(federation):
    """The norm of finite float32 numbers can be infinite; the client has not failed for that."""
    parts = [Samples(samples.features * 1e15, samples.labels) for samples in federation.datasets]
    huge = Federation("huge", tuple(parts), federation.test, 10)
    run = loop(huge, Fixed([3], [0.0]), rate=0.0, local_steps=1, learning_rate=1e6, update_limit=np.inf)
    done = run.step()
    assert np.isfinite(run.selector.told[0][1][3]).all()
    assert run.selector.told[0][0].norms[3] == np.inf
    assert done.outcomes[3] == Outcome.RETURNED


class Attacked(FedAvg):
    """A loop in which what some clients send in some rounds is replaced: {(round, client): value of every entry}."""

    attacks: dict

    def conclude(self, decision, clients, answers, **options):
        for place, client in enumerate(clients):
            if (self.round, client) in self.attacks:
                answers[0][place] = self.attacks[self.round, client]
        return super().conclude(decision, clients, answers, **options)


def attacked(federation, selector, attacks, **settings):
    availability = AVAILABILITY.build("ideal", federation, 3)
    run = Attacked(federation, selector, availability, settings=TrainingSettings(**settings), seed=3)
    run.attacks = attacks
    return run


@pytest.mark.parametrize("value", [3e38, -1e6, 1e4, np.nan])
@pytest.mark.parametrize(
    "settings", [{}, {"server_rule": "fedvarp"}, {"server_rule": "mifa"}, {"server_momentum": 0.9}], ids=str
)
def test_one_update_does_not_destroy_the_model(federation, value, settings):
    """The attacker's update alone is refused, and the model is that of the rounds in which it was not there."""
    run = attacked(federation, Fixed([1, 3, 5, 7], [0.25] * 4), {(1, 5): value}, **settings)
    clean = attacked(federation, Fixed([1, 3, 5, 7], [0.25] * 4), {(1, 5): np.nan}, **settings)
    played = [run.step() for _ in range(4)]
    for _ in range(4):
        clean.step()
    assert np.isfinite(run.weights).all()
    assert np.array_equal(run.weights, clean.weights)
    assert [np.flatnonzero(done.outcomes == Outcome.FAILED).tolist() for done in played] == [[], [5], [], []]
    assert [sorted(done.refused) for done in played] == [[], [5], [], []]
    assert round_record(played[1])["failed"] == [5]
    assert played[1].applied.tolist() == [0.25, 0.25, 0, 0.25]
    if np.isfinite(value):
        assert re.search(r"its update has norm .*accepted is at most .* \(update_limit = 1000\)", played[1].refused[5])


def test_the_limit_of_updates_is_what_the_settings_say(federation):
    """Relative to the model or the median update, whichever is larger; infinite where nothing finite is refused."""
    size = 650
    selection = Fixed([1, 3, 5, 7], [0.0] * 4)
    ordinary = np.linalg.norm(attacked(federation, Fixed([1], [1.0]), {}).weights)
    for scale, limit, refused in ((50, 40, [5]), (50, 60, []), (1e30, np.inf, [])):
        value = scale * max(1.0, ordinary) / np.sqrt(size)
        done = attacked(federation, selection, {(0, 5): value}, update_limit=limit).step()
        assert sorted(done.refused) == refused
    many = {(0, client): 1e5 for client in (1, 3, 7)}  # a model with large weights: three that agree are believed
    assert attacked(federation, selection, many).step().refused == {}
    assert sorted(attacked(federation, selection, {(0, 1): 1e5, (0, 3): 1e5}).step().refused) == [1, 3]
    assert sorted(attacked(federation, selection, many | {(0, 5): 1e9}).step().refused) == [5]


def test_a_sum_that_overflows_is_not_kept(federation):
    """Updates are finite and admitted; the largest is left out, the model stays finite, nobody is blamed later."""
    attacks = {(0, 3): 3e38, (0, 5): 1.0}
    run = attacked(federation, Fixed([1, 3, 5], [1.0, 4.0, 1.0]), attacks, update_limit=np.inf)
    played = [run.step() for _ in range(2)]
    assert played[0].refused == {3: "its update is the largest of a sum that is not finite in single precision"}
    assert played[1].refused == {}
    assert np.isfinite(run.weights).all()


@pytest.mark.parametrize("rule", ["fedvarp", "mifa"])
def test_no_stored_update_overflows(federation, rule):
    """Finite per round, infinite per unit of a tiny step size: refused before it is stored."""
    settings = {"server_rule": rule, "update_limit": np.inf, "learning_rate": 1e-30, "local_steps": 1}
    run = attacked(federation, Fixed([1, 3, 5], [1 / 3] * 3), {(0, 3): 1e10}, **settings)
    played = [run.step() for _ in range(3)]
    assert [sorted(done.refused) for done in played] == [[3], [], []]
    assert "cannot be stored" in played[0].refused[3]
    assert np.isfinite(run.weights).all()
    assert np.isfinite(run.state_dict()["server"]["stored"]).all()


def test_clipping_bounds_what_a_client_moves(federation):
    free = attacked(federation, Fixed([1, 3], [1.0, 0.0]), {})
    held = attacked(federation, Fixed([1, 3], [1.0, 0.0]), {}, clip_norm=0.01)
    before = free.weights
    free.step()
    held.step()
    change = free.weights - before
    np.testing.assert_allclose(held.weights - before, change * 0.01 / np.linalg.norm(change), atol=1e-7)
    feedback, updates = held.selector.told[0]
    assert feedback.norms == pytest.approx({1: 0.01, 3: 0.01})
    assert np.linalg.norm(updates[3]) == pytest.approx(0.01, rel=1e-5)
    far = attacked(federation, Fixed([1, 3], [1.0, 0.0]), {}, clip_norm=1e6)
    far.step()
    assert np.array_equal(far.weights, free.weights)


def test_weights_of_the_failed_go_as_the_selection_says(poisoned):
    done = loop(poisoned, Fixed([3, 5], [0.5, 0.5], "renormalise"), rate=0.0).step()
    assert done.applied.tolist() == [1.0, 0.0]


def test_models_take_their_options(federation):
    assert loop(federation, model="mlp", model_options={"hidden": 7}).weights.size == 64 * 7 + 7 + 7 * 10 + 10


def test_feedback_says_what_came_back(federation):
    run = loop(federation, Fixed([1, 4], [0.5, 0.5]), rate=0.0)
    before = run.weights
    run.step()
    feedback, updates = run.selector.told[0]
    assert list(feedback.updates) == [1, 4]
    np.testing.assert_allclose(run.weights - before, 0.5 * updates[1] + 0.5 * updates[4], atol=1e-6)
    for client in (1, 4):
        assert feedback.norms[client] == pytest.approx(np.linalg.norm(updates[client]), rel=1e-5)
        assert feedback.received_losses[client] > feedback.losses[client] > 0


# -- evaluation ----------------------------------------------------------------------------------------------------


def test_evaluation_every_few_rounds(federation):
    run = loop(federation, evaluate_every=3)
    found = [run.step().loss is not None for _ in range(7)]
    assert found == [False, False, True, False, False, True, False]
    assert run.step(evaluate=True).accuracy is not None


def test_evaluation_in_batches_is_the_evaluation_of_all(federation, monkeypatch):
    run = loop(federation)
    for _ in range(5):
        run.step()
    whole, clients = run.evaluate(), run.client_scores()
    monkeypatch.setattr("fedselect.training.losses._BATCH", 50)
    assert run.evaluate() == pytest.approx(whole, rel=1e-6)
    parts = run.client_scores()
    for client, samples in enumerate(federation.datasets):
        w = run.weights.astype(np.float64)
        logits = samples.features @ w[:640].reshape(10, 64).T + w[640:]
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        loss = -logs[np.arange(len(samples)), samples.labels].mean()
        accuracy = (logits.argmax(axis=1) == samples.labels).mean()
        for found in (clients, parts):
            assert found["loss"][client] == pytest.approx(loss, rel=1e-4)
            assert found["accuracy"][client] == pytest.approx(accuracy)
    assert run.losses([]).shape == (0,)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"local_steps": 2, "local_epochs": 2}, "give local_steps or local_epochs, not both"),
        ({"local_epochs": []}, "local_epochs must be a number of passes, or a list of at least one"),
        ({"local_epochs": [1, 0]}, "local_epochs must be a positive integer; got 0"),
        ({"momentum": -0.1}, "momentum must be a number of at least 0; got -0.1"),
        ({"proximal": float("nan")}, "proximal must be a number of at least 0; got nan"),
        ({"projection": 0.0}, "projection must be a positive number; got 0.0"),
        ({"server_rule": "fedprox"}, "there is no server rule 'fedprox' .*fedadam, .*fedavg"),
        ({"batching": "yes"}, "batching must be 'auto', 'never', 'always', 'timed' or 'captured'; got 'yes'"),
        ({"importance": "loss"}, "importance must be 'samples' or 'equal'; got 'loss'"),
        ({"evaluate_every": 0}, "evaluate_every must be a positive integer; got 0"),
        ({"update_limit": 0}, "update_limit must be positive \\(inf for none\\); got 0"),
        ({"clip_norm": -1.0}, "clip_norm must be a positive number; got -1.0"),
    ],
)
def test_bad_settings_are_sentences(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainingSettings(**options)


def test_every_metric_is_evaluated_at_every_client(federation):
    """F1 of each client is the metric on its own samples, and NaN where it holds none for testing."""
    tested = federation.with_client_tests(0.3)
    run = loop(tested, metrics=["f1"])
    run.step()
    scores = run.client_scores()
    assert list(scores) == ["loss", "accuracy", "f1"]
    model, compared = run.model, 0
    for client, samples in enumerate(tested.client_tests):
        if not len(samples):
            assert np.isnan(scores["f1"][client])
            continue
        answers = model(torch.from_numpy(samples.features)).detach()
        assert scores["f1"][client] == METRICS["f1"](answers, torch.from_numpy(samples.labels))
        assert scores["accuracy"][client] == (answers.argmax(1).numpy() == samples.labels).mean()
        compared += 1
    assert compared > 1
