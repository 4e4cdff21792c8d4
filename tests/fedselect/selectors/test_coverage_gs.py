"""CoverageGS: coverage of all clients on the 3DG, less the counts of the selected."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import Federation, digits
from fedselect.errors import ConfigError, DataError
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import SELECTORS, CoverageGS, FedGS
from fedselect.selectors.constraints import RoundConstraints
from graphs import dependency_graph, distances, similarity
from solvers.constraints import Quota

N, M = 12, 4


def graph(seed):
    return distances(dependency_graph(similarity(np.random.default_rng(seed).dirichlet(np.ones(4), size=N))))


def a_round(t, available):
    return RoundContext(t, available, np.arange(10, 10 + N), np.random.default_rng(t))


def update(selector, round, selection):
    outcomes = np.where(round.available, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
    outcomes[selection.clients] = Outcome.RETURNED
    selector.update(RoundFeedback(round.round, selection, outcomes))


def best(h, counts, present, alpha, allowed=lambda chosen: True):
    """Enumerate all selections, with the formula of the docstring."""

    def value(chosen):
        coverage = sum(max(h.max() - h[k, i] for i in chosen) for k in range(N))
        return alpha * coverage / (N * h.max()) - sum(counts[i] for i in chosen)

    return max(value(chosen) for chosen in combinations(present, min(M, len(present))) if allowed(chosen)), value


@pytest.mark.parametrize("alpha", [0.0, 1.0, 8.0])
def test_every_round_is_the_best_of_all_selections_and_proved(alpha):
    h, rng, decided = graph(0), np.random.default_rng(1), 0
    selector, counts = CoverageGS(M, distances=h, alpha=alpha), np.zeros(N, dtype=int)
    for t in range(12):
        round = a_round(t, rng.random(N) < 0.7)
        selection, present = selector.select(round), np.flatnonzero(round.available)
        most, value = best(h, counts, present.tolist(), alpha)
        assert value(selection.clients.tolist()) == pytest.approx(most, abs=1e-9)
        assert selection.solution.status == "optimal"
        assert set(selection.clients.tolist()) <= set(present.tolist())
        assert selection.weights == pytest.approx(round.sizes[selection.clients] / round.sizes[selection.clients].sum())
        update(selector, round, selection)
        counts[selection.clients] += 1
        decided += present.size > M
    assert decided > 8
    assert selector.counts.tolist() == counts.tolist()


def test_alpha_of_one_keeps_counts_even_and_a_large_one_does_not():
    h, everybody = graph(2), np.ones(N, dtype=bool)
    spreads = []
    for alpha in (1.0, 100.0):
        selector = CoverageGS(M, distances=h, alpha=alpha)
        for t in range(6):
            update(selector, a_round(t, everybody), selector.select(a_round(t, everybody)))
        spreads.append(int(np.ptp(selector.counts)))
    assert spreads[0] == 0
    assert spreads[1] > 0


def test_side_constraints_are_kept_by_ids_and_counts_survive_a_restart():
    h, groups = graph(3), np.arange(N) % 3
    stated = [Quota(np.flatnonzero(groups == k), 1, 2, f"group {k}") for k in range(3)]

    def build():
        return CoverageGS(M, distances=h, alpha=5.0, constraints=RoundConstraints(N, quotas=stated, exclude=[4]))

    def allowed(chosen):
        return 4 not in chosen and set(np.bincount(groups[list(chosen)], minlength=3)) <= {1, 2}

    selector, rng = build(), np.random.default_rng(4)
    for t in range(6):
        there = rng.random(N) < 0.9
        there[:3] = True
        round, counts = a_round(t, there), selector.counts.tolist()
        selection = selector.select(round)
        most, value = best(h, counts, np.flatnonzero(there).tolist(), 5.0, allowed)
        assert allowed(selection.clients.tolist())
        assert value(selection.clients.tolist()) == pytest.approx(most, abs=1e-9)
        assert selection.notes["constraints"]["used"].keys() >= {"group 0", "group 1", "group 2"}
        update(selector, round, selection)
    other = build()
    other.load_state_dict(selector.state_dict())
    assert other.select(a_round(6, there)).clients.tolist() == selector.select(a_round(6, there)).clients.tolist()


def test_it_is_built_by_its_name_on_the_graph_of_fedgs_and_learns_one_in_training():
    federation = digits(n_clients=N, partition="dirichlet-per-class", concentration=0.3)
    always = AVAILABILITY.build("ideal", federation, 0)
    scenario = Scenario(federation.sizes, always, size=M, rounds=5, data=federation)
    selector = SELECTORS.build("coverage-gs", scenario, alpha=2.0)
    assert isinstance(selector, CoverageGS)
    assert np.array_equal(selector.distances, SELECTORS.build("fedgs", scenario).distances)
    learned = SELECTORS.build("coverage-gs", scenario, features="update")
    assert learned.warmup == 1
    assert learned.select(a_round(0, np.ones(N, dtype=bool))).clients.size == N


def test_what_it_cannot_do_is_said_before_a_round():
    h = graph(5)
    with pytest.raises(ConfigError, match="does not keep side constraints"):
        CoverageGS(M, distances=h, method="stochastic-greedy", constraints=RoundConstraints(N, exclude=[1]))
    for kind in (FedGS, CoverageGS):
        for wrong in (5, None, "far", [[1.0 + 0j]], [0.0, 1.0], [[10**400]]):
            with pytest.raises(DataError, match="FedGS cannot select with these distances"):
                kind(M, distances=wrong)
    many = 6001
    pair = np.zeros((1, 1)), np.zeros(1, dtype=int)
    federation = Federation.from_tensors([pair] * many, pair, classes=2)
    scenario = Scenario(federation.sizes, AVAILABILITY.build("ideal", federation, 0), size=M, rounds=5, data=federation)
    with pytest.raises(ConfigError, match="in 4 GB of memory for 6001 clients; accepted are at most 5000"):
        SELECTORS.build("coverage-gs", scenario)
    with pytest.raises(ConfigError, match="accepted are at most 5000"):
        CoverageGS(M, distances=np.broadcast_to(0.0, (many, many)))
    with pytest.raises(TypeError, match="no argument"):
        CoverageGS(M, distances=h, scales=1)
    with pytest.raises(Exception, match="alpha must be"):
        CoverageGS(M, distances=h, alpha=-1.0)


def test_without_available_clients_nothing_is_selected():
    selection = CoverageGS(M, distances=graph(6)).select(a_round(0, np.zeros(N, dtype=bool)))
    assert selection.clients.size == 0
