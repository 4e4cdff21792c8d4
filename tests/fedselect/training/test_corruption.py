"""Clients that lie, and server rules of one's own: as objects, by name, in a configuration, over Flower's clients."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.errors import ConfigError
from fedselect.selectors import Uniform
from fedselect.training.corruption import CORRUPTIONS
from fedselect.training.server_rules import SERVER_RULES, ServerRule
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")
import torch

from fedselect.training.fedavg import FedAvg

N = 12


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=N)


class Trimmed(ServerRule):
    """Mean without the ``drop`` largest and smallest of each coordinate; counts its rounds."""

    def __init__(self, *, drop: int = 1) -> None:
        self.drop, self.rounds = drop, 0

    def change(self, clients, weights, updates, rate):
        kept = updates.sort(dim=0).values[self.drop : len(clients) - self.drop]
        return kept.mean(dim=0) if len(kept) else None

    def keep(self, clients, updates, rate, weights):
        self.rounds += 1

    def state_dict(self):
        return {"rounds": self.rounds}

    def load_state_dict(self, state):
        self.rounds = int(state["rounds"])


@pytest.fixture
def registered():
    before = SERVER_RULES.snapshot(), CORRUPTIONS.snapshot()
    yield SERVER_RULES.register("trimmed")(Trimmed)
    SERVER_RULES.restore(before[0])
    CORRUPTIONS.restore(before[1])


def loop(federation, selector=None, **options):
    there = AVAILABILITY.build("ideal", federation, 2)
    return FedAvg(federation, selector or Uniform(6), there, seed=2, **options)


class Told(Uniform):
    """Uniform, and keeps the updates that it is told."""

    def update(self, feedback):
        self.told = {client: update.copy() for client, update in feedback.updates.items()}


def flip(client, update, round):
    return -10 * update if client < 3 else update


@pytest.mark.parametrize("batching", ["auto", "never"])
def test_what_a_client_sends_takes_the_place_of_its_update(federation, batching):
    settings = {"batching": batching}
    honest, lying = Told(6), Told(6)
    loop(federation, honest, settings=settings).step()
    loop(federation, lying, settings=settings, corrupt=flip).step()
    assert honest.told.keys() == lying.told.keys()
    assert min(honest.told) < 3 < max(honest.told)
    for client, update in honest.told.items():
        np.testing.assert_array_equal(lying.told[client], flip(client, update, 0))


def test_a_rule_resists_where_the_mean_does_not():
    """Three of twelve lie: clients whose data are alike, as robust rules ask for."""
    alike = digits(partition="iid", n_clients=N)
    rules = {"mean": "fedavg", "trimmed": Trimmed(drop=3)}
    found = {name: loop(alike, Uniform(N), server_rule=rule, corrupt=flip).fit(15)[-1] for name, rule in rules.items()}
    assert found["trimmed"].accuracy > 0.8 > 0.4 > found["mean"].accuracy


def test_object_and_name_are_one_rule_and_the_object_stays_as_it_is(federation, registered):
    rule = Trimmed(drop=2)
    by_object = loop(federation, server_rule=rule)
    by_name = loop(federation, server_rule="trimmed", settings={"server_rule_options": {"drop": 2}})
    other = loop(federation, server_rule="trimmed")
    for each in (by_object, by_name, other):
        each.fit(3)
    assert np.array_equal(by_object.weights, by_name.weights)
    assert rule.rounds == 0
    assert not np.array_equal(by_object.weights, other.weights)
    again = loop(federation, server_rule=rule)
    again.load_state_dict(by_object.state_dict())
    assert again.state_dict()["server"] == {"rounds": 3}


def test_a_builder_gets_what_it_names(federation, registered):
    got = {}

    @SERVER_RULES.register("asking")
    def asking(weights, importance):
        got.update(weights=weights, importance=importance)
        return Trimmed()

    SERVER_RULES.register("wrong")(lambda: 3)
    loop(federation, server_rule="asking")
    assert got["weights"].shape == loop(federation).weights.shape
    assert got["importance"].sum() == pytest.approx(1)
    with pytest.raises(ConfigError, match="server rule 'wrong' must be a ServerRule, or make one; it made 3"):
        loop(federation, server_rule="wrong")


def test_corruptions_by_name(federation):
    honest, flipped, noisy = Told(6), Told(6), Told(6)
    loop(federation, honest).step()
    options = {"corrupt": "sign-flip", "corrupt_options": {"clients": [0, 1, 2], "scale": 10.0}}
    loop(federation, flipped, settings=options).step()
    for client, update in honest.told.items():
        np.testing.assert_array_equal(flipped.told[client], flip(client, update, 0))
    everyone = TrainingSettings(corrupt="noise", corrupt_options={"share": 1.0, "scale": 3.0})
    loop(federation, noisy, settings=everyone).step()
    ratios = [np.linalg.norm(noisy.told[k]) / np.linalg.norm(update) for k, update in honest.told.items()]
    assert len(ratios) == 6
    assert np.allclose(ratios, 3.0, rtol=0.2)
    few = CORRUPTIONS.build("sign-flip", 50, 7, share=0.1)
    update = torch.ones(3)
    assert sum(bool((few(client, update, 0) != update).any()) for client in range(50)) == 5


@pytest.mark.parametrize(
    ("corrupt", "sentence"),
    [
        (lambda client, update, round: [10**400] * len(update), r"returns what client \d+ sends"),
        (lambda client, update, round: None, r"returns what client \d+ sends, shape \(\d+,\) .* got None"),
        (lambda client, update, round: update[:3], r"shape \(\d+,\) \(an honest.*got shape \(3,\)"),
        (lambda client, update, round: "nothing", "got 'nothing'"),
    ],
)
def test_what_cannot_be_sent_is_a_sentence(federation, corrupt, sentence):
    with pytest.raises(ConfigError, match=sentence):
        loop(federation, corrupt=corrupt).step()


def test_numbers_that_destroy_are_refused_and_named(federation):
    done = loop(
        federation, Uniform(N), corrupt=lambda client, update, round: update * (np.inf if client == 4 else 1)
    ).step()
    assert done.refused == {4: "its update is not finite"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"server_rule": Trimmed()}, r"server_rule is a name; got .*FedAvg\(server_rule=...\) takes an object"),
        ({"server_rule_options": {"drop": 2}}, "server rule 'fedavg' has no option 'drop'"),
        ({"corrupt": flip}, r"corrupt is a name; got .*FedAvg\(corrupt=...\) takes an object"),
        ({"corrupt": "bribe"}, "there is no corruption 'bribe'.*noise, sign-flip"),
        ({"corrupt_options": {"share": 0.1}}, "corrupt_options are of a corruption; name it"),
        ({"corrupt": "noise", "corrupt_options": {"share": 2.0}}, "share"),
    ],
)
def test_settings_that_are_no_names(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainingSettings(**settings)


def test_what_is_no_rule_is_a_sentence(federation):
    with pytest.raises(ConfigError, match="an instance of a ServerRule, or a function"):
        loop(federation, server_rule=Trimmed)
    with pytest.raises(ConfigError, match="clients are numbered from 0 to 11; got 12"):
        loop(federation, settings={"corrupt": "noise", "corrupt_options": {"clients": [12]}})


LYING = """
[experiment]
rounds = 3
clients_per_round = 6
[data]
name = "digits"
n_clients = 12
[training]
batching = "never"
server_rule = "trimmed"
corrupt = "noise"
[training.server_rule_options]
drop = 2
[training.corrupt_options]
share = 0.3
scale = 2.0
"""


def test_a_configuration_lies_in_a_run_and_over_flower_alike(registered, tmp_path):
    pytest.importorskip("flwr")
    from fedselect.experiments import read_config, run
    from fedselect.experiments.folder import load_checkpoint
    from fedselect.integrations.flower import LocalGrid, experiment_client_app, run_on

    (tmp_path / "c.toml").write_text(LYING)
    lying, honest = (
        read_config(tmp_path / "c.toml", more)[0] for more in ([], ["training.corrupt_options={share = 0.0}"])
    )
    folders = [
        run(lying, tmp_path / "own", plots=False),
        run_on(LocalGrid(experiment_client_app(lying), 12), lying, tmp_path / "flower"),
        run(honest, tmp_path / "own", plots=False),
    ]
    own, flower, other = (load_checkpoint(folder / "checkpoint.npz") for folder in folders)
    assert own["weights"].tobytes() == flower["weights"].tobytes() != other["weights"].tobytes()
    assert own["server"] == {"rounds": 3}


def test_clients_that_lie_together_send_the_same():
    """A little is enough: mean less a part of the deviation, of those that lie; the others and one alone are honest."""
    updates = torch.tensor(np.random.default_rng(3).normal(size=(5, 4)))
    clients, before = [1, 3, 4, 6, 8], updates.clone()
    corrupt = CORRUPTIONS.build("a-little-is-enough", 10, 0, clients=[3, 6, 9], scale=0.5)
    corrupt.together(clients, updates, 0)
    own = before[[1, 3]].numpy()
    for row in (1, 3):
        np.testing.assert_allclose(updates[row].numpy(), own.mean(axis=0) - 0.5 * own.std(axis=0))
    assert torch.equal(updates[[0, 2, 4]], before[[0, 2, 4]])
    again = before.clone()
    corrupt.together([1, 3, 4, 7, 8], again, 0)
    assert torch.equal(again, before)
    assert torch.equal(corrupt(3, before[1], 0), before[1])


def test_colluders_are_in_the_loop(federation):
    settings = {"corrupt": "a-little-is-enough", "corrupt_options": {"share": 0.5, "scale": 3.0}}
    lying, honest = loop(federation, settings=settings), loop(federation)
    lying.step()
    honest.step()
    assert not np.array_equal(lying.weights, honest.weights)
