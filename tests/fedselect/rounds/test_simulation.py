"""Selection without training."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import digits
from fedselect.errors import ConfigError
from fedselect.measures import success_ratio
from fedselect.rounds.engine import simulate
from fedselect.rounds.history import History
from fedselect.rounds.protocol import Outcome, Selection
from fedselect.selectors import Uniform
from tests.thoroughly import few_of


class Clients:
    """Stands for a federation where only the number of clients matters."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


def world(federation, seed=4):
    return (
        AVAILABILITY.build("lognormal", federation, seed, beta=0.4),
        DROPOUT.build("bernoulli", len(federation), seed, rate=0.3),
    )


def test_it_is_the_trained_run_without_training():
    pytest.importorskip("torch")
    from fedselect.training.fedavg import FedAvg

    federation = digits(n_clients=12)
    availability, dropout = world(federation)
    trained = FedAvg(federation, Uniform(3), availability, dropout=dropout, seed=4)
    simulated = simulate(Uniform(3), availability, dropout, sizes=federation.sizes, rounds=8, seed=4)
    for played in simulated:
        done = trained.step()
        assert played.round == done.round
        assert played.outcomes.tolist() == done.outcomes.tolist()
        assert played.selection.clients.tolist() == done.selection.clients.tolist()
        assert played.applied.tolist() == done.applied.tolist()
    assert trained.round == 8


def test_success_ratio_of_uniform_selection_is_the_return_rate():
    clients = Clients(50)
    availability, dropout = world(clients)
    rounds = simulate(Uniform(10), availability, dropout, sizes=np.ones(50, dtype=int), rounds=600, seed=4)
    history = History.collect(rounds, 50)
    made = sum(chosen.size for chosen in history.selected)
    deviation = np.sqrt(0.7 * 0.3 / made)
    assert abs(success_ratio(history)[-1] - 0.7) < 4 * deviation
    expected = sum(availability.available(t) for t in range(600))
    assert history.available.tolist() == expected.tolist()


def test_the_selector_learns_outcomes():
    class Watching(Uniform):
        def update(self, feedback):
            outcomes = feedback.outcomes[feedback.selection.clients]
            assert set(outcomes.tolist()) <= {Outcome.RETURNED, Outcome.MISSING}
            self.told = getattr(self, "told", 0) + 1

    selector = Watching(3)
    availability, dropout = world(Clients(20))
    list(simulate(selector, availability, dropout, sizes=np.ones(20, dtype=int), rounds=5, seed=4))
    assert selector.told == 5


def test_rounds_are_played_when_they_are_asked_for():
    selector = Uniform(2)
    availability, dropout = world(Clients(5))
    rounds = simulate(selector, availability, dropout, sizes=np.ones(5, dtype=int), rounds=10**9, seed=4)
    assert [next(rounds).round for _ in range(3)] == [0, 1, 2]


def test_choosing_an_absent_client_is_an_error():
    class Stubborn(Uniform):
        def select(self, round):
            return Selection(np.arange(5), np.ones(5))

    availability, dropout = world(Clients(5))
    with pytest.raises(ConfigError, match="chose clients that are not available in round"):
        list(simulate(Stubborn(1), availability, dropout, sizes=np.ones(5, dtype=int), rounds=50, seed=4))


@pytest.mark.parametrize("ids", [[3, 7], [-1, 3]])  # -1 would be the last client
@pytest.mark.parametrize("is_weighed", [True, False])
def test_ids_of_no_client_are_refused(ids, is_weighed):
    class Astray(Uniform):
        def select(self, round):
            return Selection(ids, [0.5, 0.5]) if is_weighed else ids

    availability, dropout = world(Clients(5))
    rounds = simulate(Astray(2), availability, dropout, sizes=np.ones(5, dtype=int), rounds=1, seed=4)
    with pytest.raises(ConfigError, match=f"select of Astray returned ids from {ids[0]} to {ids[1]}, of 5"):
        next(rounds)


@pytest.mark.parametrize("found", [None, "01", [0.5], [[0], [1, 2]], {0, "1"}])
def test_an_answer_that_is_no_selection_is_refused(found):
    class Astray:
        def select(self, round):
            return found

    with pytest.raises(ConfigError, match=r"select of Astray returned .*; a Selection\(clients, weights\) is wanted"):
        next(simulate(Astray(), AVAILABILITY.build("ideal", Clients(5), 0), sizes=[1] * 5, rounds=1))


@pytest.mark.parametrize("clients", [3, 7])
def test_models_of_other_numbers_of_clients_are_refused(clients):
    sizes = np.ones(5, dtype=int)
    (availability, dropout), (others, returns) = world(Clients(5)), world(Clients(clients))
    with pytest.raises(ConfigError, match=f"availability is stated for {clients} clients; the federation has 5"):
        list(simulate(Uniform(1), others, dropout, sizes=sizes, rounds=2))
    with pytest.raises(ConfigError, match=f"dropout is stated for {clients} clients; the federation has 5"):
        list(simulate(Uniform(1), availability, returns, sizes=sizes, rounds=2))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sizes": [], "rounds": 1}, "sizes must be one positive number of samples a client"),
        ({"sizes": [3, 0], "rounds": 1}, "sizes must be one positive number of samples a client"),
        ({"sizes": [[3], [3, 4]], "rounds": 1}, "sizes must be one positive number of samples a client"),
        ({"sizes": [3, 4], "rounds": -1}, "rounds must not be negative; got -1"),
    ],
)
def test_bad_arguments_are_sentences(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        simulate(Uniform(1), AVAILABILITY.build("ideal", Clients(2), 0), **options)


@pytest.mark.parametrize(
    "module", few_of(["fedselect.experiments", "fedselect.rounds.engine", "fedselect.rounds.history"], 1)
)
def test_torch_is_not_loaded(module):
    code = f"import sys, {module}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
