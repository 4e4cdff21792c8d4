"""Baselines of more than one paper, without training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import CSUCBQ, SELECTORS, FedCS, FedGS, MDSample, PowerOfChoice, SelectAll, Uniform
from tests.fedselect.driving import context
from tests.thoroughly import few_of

LOSSES = np.array([0.1, 0.9, 0.4, 0.8, 0.9, 0.2])


@pytest.mark.parametrize("rounds", few_of([1500, 5000], 1))
def test_md_sampling_is_unbiased_over_those_present(rounds):
    """E[a_k] = n_k / Σ_A n, and each is drawn at all with the stated probability; five standard deviations."""
    sizes, present = np.array([10, 20, 30, 40, 100]), np.array([1, 1, 1, 1, 0])
    total, drawn = np.zeros(5), np.zeros(5)
    for t in range(rounds):
        selection = MDSample(3).select(context(present, t, sizes))
        assert selection.weights.sum() == pytest.approx(1)
        total[selection.clients] += selection.weights
        drawn[selection.clients] += 1
    share = np.array([0.1, 0.2, 0.3, 0.4, 0])
    assert np.all(np.abs(total / rounds - share) <= 5 * np.sqrt(share * (1 - share) / 3 / rounds))
    assert selection.inclusion == pytest.approx(1 - (1 - share) ** 3)
    assert np.all(np.abs(drawn / rounds - selection.inclusion) <= 5 * np.sqrt(0.25 / rounds))


def test_a_client_drawn_twice_weighs_twice():
    """3 draws of 2 clients: the weights are thirds, so one of them has two (or all) of these."""
    for t in range(20):
        thirds = 3 * MDSample(3).select(context(np.ones(2), t)).weights
        assert thirds == pytest.approx(np.round(thirds))
        assert thirds.sum() == pytest.approx(3)
        assert thirds.max() >= 2


def test_md_sampling_draws_a_lone_client_every_time():
    selection = MDSample(3).select(context([0, 1, 0]))
    assert (selection.clients.tolist(), selection.weights.tolist()) == ([1], [1.0])
    assert selection.inclusion.tolist() == [0, 1, 0]


def test_power_of_choice_takes_the_largest_losses():
    greedy = PowerOfChoice(3, candidates=6)
    selection = greedy.select(context(np.ones(6), losses=LOSSES))
    assert selection.clients.tolist() == [1, 3, 4]
    assert selection.weights == pytest.approx([1 / 3] * 3)
    assert selection.applied_weights(np.array([True, False, True])) == pytest.approx([0.5, 0, 0.5])
    assert greedy.select(context([1, 1, 1, 0, 0, 0], losses=LOSSES)).clients.tolist() == [0, 1, 2]
    tied = PowerOfChoice(1, candidates=6).select(context(np.ones(6), losses=LOSSES))
    assert tied.clients.tolist() == [1]


def test_power_of_choice_probes_its_candidates_alone():
    asked = []

    def probe(clients):
        asked.append(list(clients))
        return LOSSES[list(clients)]

    base = context(np.ones(6), losses=LOSSES)
    selection = PowerOfChoice(2, candidates=3).select(
        RoundContext(0, base.available, base.sizes, base.rng, probe=probe)
    )
    (candidates,) = asked
    assert len(candidates) == 3
    assert set(selection.clients.tolist()) < set(candidates)
    assert min(LOSSES[selection.clients]) >= max(LOSSES[[c for c in candidates if c not in selection.clients]])


@pytest.mark.parametrize("rounds", few_of([1500, 4000], 1))
def test_candidates_come_in_proportion_to_data(rounds):
    """With d = m = 1, a draw in proportion to data, whatever the losses; five standard deviations."""
    sizes = np.array([10, 20, 30, 40])
    counts = np.zeros(4)
    for t in range(rounds):
        counts[PowerOfChoice(1, candidates=1).select(context(np.ones(4), t, sizes, losses=LOSSES)).clients] += 1
    assert counts / rounds == pytest.approx(sizes / 100, abs=5 * np.sqrt(0.25 / rounds))


def test_variants_by_name():
    federation = digits(n_clients=30)
    ideal = AVAILABILITY.build("ideal", federation, 0)
    setting = Scenario(federation.sizes, ideal, size=5, rounds=100, data=federation)
    assert SELECTORS.build("power-of-choice", setting).candidates == 10
    assert SELECTORS.build("power-of-choice", setting, convention="fedgs").candidates == 30
    with pytest.raises(ConfigError, match="all clients as candidates"):
        SELECTORS.build("power-of-choice", setting, convention="fedgs", candidates=7)
    with pytest.raises(ConfigError, match="as many candidates as clients to select, 5; got 4"):
        SELECTORS.build("power-of-choice", setting, candidates=4)
    with pytest.raises(ConfigError, match="convention"):
        SELECTORS.build("power-of-choice", setting, convention="flgo")


def test_power_of_choice_without_a_probe():
    with pytest.raises(ConfigError, match="'power-of-choice' asks clients for their losses"):
        PowerOfChoice(2).select(context(np.ones(4)))


def test_fedcs_breaks_ties_the_same_way_every_round():
    selector = FedCS(2, rates=[0.1, 0.9, 0.9, 0.9, 0.5])
    for t in range(3):
        selection = selector.select(context(np.ones(5), t))
        assert selection.clients.tolist() == [1, 2]
        assert selection.weights.tolist() == [0.2, 0.2]
    assert selector.select(context([1, 1, 0, 0, 1])).clients.tolist() == [1, 4]


def test_what_oracles_and_limits_are_given_is_checked():
    with pytest.raises(ConfigError, match=r"rates must lie in \[0, 1\]; client 1 has 3"):
        FedCS(1, rates=[0.5, 3.0])
    with pytest.raises(ConfigError, match=r"rates must lie in \[0, 1\]; client 0 has -1"):
        FedCS(1, rates=lambda round: [-1.0, 0.5]).select(context(np.ones(2)))
    with pytest.raises(ConfigError, match="fractions must be one number per client"):
        CSUCBQ(1, fractions=["a", 0.5])
    with pytest.raises(ConfigError, match="time_limit must be a positive number of seconds or None; got 'a'"):
        FedGS(1, distances=np.zeros((2, 2)), time_limit="a")


def test_ways_to_aggregate():
    sizes = np.array([10, 20, 30, 40])
    present = [1, 1, 1, 0]
    data = Uniform(3).select(context(present, sizes=sizes))
    assert (data.weights.tolist(), data.on_failure) == ([10 / 60, 20 / 60, 30 / 60], "renormalise")
    mean = Uniform(3, aggregation="mean").select(context(present, sizes=sizes))
    assert (mean.weights.tolist(), mean.on_failure) == ([1 / 3] * 3, "renormalise")
    deadline = Uniform(3, aggregation="deadline").select(context(present, sizes=sizes))
    assert (deadline.weights.tolist(), deadline.on_failure) == ([0.1, 0.2, 0.3], "keep")
    assert SelectAll("samples").select(context(present, sizes=sizes)).weights.tolist() == data.weights.tolist()
    with pytest.raises(ConfigError, match="aggregation must be 'samples', 'mean' or 'deadline'; got 'median'"):
        Uniform(3, aggregation="median")


def test_power_of_choice_asks_for_the_losses_it_is_told_to():
    """Training losses rank 4 and 3 first, validation losses 0 and 1; FedGS's variant takes these."""
    there, training, validation = np.ones(5), np.arange(5.0), -np.arange(5.0)
    both = replace(context(there, losses=training), validation_probe=lambda clients: validation[clients])
    assert PowerOfChoice(2, candidates=5).select(both).clients.tolist() == [3, 4]
    assert PowerOfChoice(2, candidates=5, losses="validation").select(both).clients.tolist() == [0, 1]
    with pytest.raises(ConfigError, match=r"validation losses, and nothing was held out .* validation_fraction"):
        PowerOfChoice(2, candidates=5, losses="validation").select(context(there, losses=training))
    for fraction, losses in ((0.0, "training"), (0.2, "validation")):
        data = digits(n_clients=5, validation_fraction=fraction)
        always = AVAILABILITY.build("ideal", data, 0)
        scenario = Scenario(data.sizes, always, size=2, rounds=1, data=data)
        assert SELECTORS.build("power-of-choice", scenario, convention="fedgs").losses == losses
        assert SELECTORS.build("power-of-choice", scenario).losses == "training"


@pytest.mark.parametrize("rounds", few_of([1500, 4000], 1))
def test_md_sample_among_all_drops_the_absent(rounds):
    """Of m draws among all, those of absent clients are lost; the others' mean is taken."""
    sizes, there = np.array([10, 30, 60]), np.array([1, 1, 0])
    selector, weights, empty = MDSample(2, among="all"), np.zeros(3), 0
    for t in range(rounds):
        selection = selector.select(context(there, t, sizes=sizes))
        assert not np.isin(2, selection.clients)
        assert selection.clients.size == 0 or selection.weights.sum() == pytest.approx(1)
        empty += selection.clients.size == 0
        weights[selection.clients] += selection.weights
    assert empty / rounds == pytest.approx(0.6**2, abs=0.04)
    assert weights[0] / weights.sum() == pytest.approx(0.25, abs=0.03)
    assert selector.select(context(np.ones(3), sizes=sizes)).inclusion[2] == pytest.approx(1 - 0.4**2)


def test_md_sample_may_count_a_client_once_however_often_it_is_drawn():
    """Two draws with shares 0.2 and 0.8: one client alone with probability 0.68, else both, a half each."""
    sizes, there = np.array([1, 4]), np.ones(2)
    once, counted = (MDSample(2, duplicates=each) for each in ("once", "counted"))
    sums = np.zeros(2)
    for t in range(3000):
        selection = once.select(context(there, t, sizes=sizes))
        assert selection.weights.tolist() == [1 / selection.clients.size] * selection.clients.size
        assert selection.clients.tolist() == counted.select(context(there, t, sizes=sizes)).clients.tolist()
        sums[selection.clients] += selection.weights
    assert sums / 3000 == pytest.approx([0.04 + 0.16, 0.64 + 0.16], abs=0.03)
    three = MDSample(3, duplicates="counted").select(context(there, sizes=sizes)).weights
    assert set(np.round(3 * three).tolist()) <= {1.0, 2.0, 3.0}
    with pytest.raises(ConfigError, match="duplicates must be 'counted' or 'once'; got 'twice'"):
        MDSample(2, duplicates="twice")
