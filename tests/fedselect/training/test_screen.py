"""Attackers inside the limit of updates: the limit is relative to what fewer than half of the updates cannot raise."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import Federation, digits
from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Selection
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")

from fedselect.training.fedavg import FedAvg

LIMIT = 1000.0


class Some:
    """So many clients a round, in turns, with equal weights."""

    def __init__(self, n, size):
        self.n, self.size = n, size

    def select(self, round):
        clients = np.sort((np.arange(self.size) + round.round * self.size) % self.n)
        return Selection(clients, np.full(self.size, 1 / self.size))

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Attacked(FedAvg):
    """A loop in which some clients send the longest update that they believe is accepted, straight away from 0.

    They know everything: the model, and what the others send. Until ``begin`` they are honest.
    """

    liars: frozenset
    begin: int = 0

    def conclude(self, decision, clients, answers, **options):
        lying = [place for place, client in enumerate(clients) if client in self.liars]
        if lying and self.round >= self.begin:
            honest = np.linalg.norm(np.delete(answers[0].numpy(), lying, axis=0), axis=1)
            reach = max(1.0, np.linalg.norm(self.weights), np.median(honest) if honest.size else 0.0)
            known = self._screen._updates.reference()
            away = self._weights / self._weights.norm()
            for place in lying:  # as the limit was before, relative to the model, and as it is
                answers[0][place] = away * (0.999 * LIMIT * (known if self.sly else reach))
        return super().conclude(decision, clients, answers, **options)


def run_of(federation, size, liars, *, sly, begin=0, **settings):
    ideal = AVAILABILITY.build("ideal", federation, 3)
    loop = Attacked(federation, Some(len(federation), size), ideal, settings=TrainingSettings(**settings), seed=3)
    loop.liars, loop.sly, loop.begin = frozenset(liars), sly, begin
    return loop


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=10)


@pytest.fixture(scope="module")
def regression():
    x = np.random.default_rng(1).normal(size=(440, 4))
    return Federation.from_split((x, x @ [1.0, -2.0, 0.5, 3.0]), "iid", 10)


@pytest.mark.parametrize("sly", [False, True])
@pytest.mark.parametrize(("size", "liars"), [(5, {2}), (10, {0, 1, 2, 3}), (1, {4, 9})])
def test_an_attacker_inside_the_limit_moves_the_model_by_steps_that_do_not_grow(federation, size, liars, sly):
    """Relative to the model, the same attack would multiply its norm by hundreds in every round."""
    loop, rounds = run_of(federation, size, liars, sly=sly), 20
    first = max(1.0, float(np.linalg.norm(loop.weights)))
    norms = [np.linalg.norm(loop.weights)]
    for _ in range(rounds):
        loop.step()
        norms.append(np.linalg.norm(loop.weights))
    assert np.isfinite(norms).all()
    assert max(np.diff(norms)) <= 1.01 * LIMIT * max(first, loop._screen._updates.reference())
    assert norms[-1] < 1e5 * first


def test_a_loss_that_pulls_harder_the_farther_off_does_not_raise_the_limit(regression):
    """Honest updates grow with the model under the squared error; those of before the attack keep the limit."""
    loop = run_of(regression, 5, {2, 7}, sly=True, begin=20, learning_rate=0.01)
    for _ in range(20):
        loop.step()
    before = loop._screen._updates.reference()
    for _ in range(15):
        loop.step()
    assert loop._screen._updates.reference() <= before * 1.1
    assert np.linalg.norm(loop.weights) <= 15 * LIMIT * before


def test_in_the_first_round_of_one_client_the_initial_model_counts(federation):
    loop = run_of(federation, 1, {0}, sly=False)
    start = float(np.linalg.norm(loop.weights))
    done = loop.step()  # 999 times the initial model's norm, or 1
    assert done.refused == {}
    again = run_of(federation, 1, {0}, sly=False, update_limit=998.0)
    assert list(again.step().refused) == [0]
    assert np.linalg.norm(again.weights) == pytest.approx(start)


def test_a_restored_loop_refuses_what_the_unbroken_one_refuses(regression):
    def fresh():
        return run_of(regression, 5, {2, 7}, sly=True, begin=4, update_limit=999.0, learning_rate=0.01)

    whole, first, second = fresh(), fresh(), fresh()
    for _ in range(9):
        whole.step()
    for _ in range(5):
        first.step()
    second.load_state_dict(first.state_dict())
    for _ in range(4):
        second.step()
    assert np.array_equal(second.weights, whole.weights)
    assert second._screen.state_dict()["updates"].tolist() == whole._screen.state_dict()["updates"].tolist()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": 1e308}, r"learning_rate must be at most 3.4e\+38, .* single precision; got 1e\+308"),
        ({"learning_rate": 10**400}, "learning_rate must be a positive number; got 1000"),
        ({"server_learning_rate": 1e39}, "server_learning_rate must be at most"),
        ({"proximal": 1e39}, "proximal must be at most"),
        ({"update_limit": 1e39}, "update_limit must be at most"),
    ],
)
def test_numbers_beyond_single_precision_are_sentences(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainingSettings(**settings)


def test_a_step_size_that_grows_beyond_single_precision_is_a_sentence():
    settings = TrainingSettings(learning_rate=1.0, decay=1e10)
    assert settings.rate(3) == 1e30
    for round in (4, 400):
        with pytest.raises(ConfigError, match=f"the step size of round {round} must be at most"):
            settings.rate(round)


def test_rounds_of_401_digits_are_a_sentence(federation):
    loop = run_of(federation, 1, set(), sly=False)
    with pytest.raises(ConfigError, match=r"rounds must be at most 10\^15; got a number of 401 digits"):
        loop.fit(10**400)
