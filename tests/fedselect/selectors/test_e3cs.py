"""E3CS and the baselines of its comparison, without training."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, RoundFeedback
from fedselect.selectors import E3CS, FedCS, Uniform
from tests.fedselect.driving import bernoulli, context, drive, everybody, outcomes
from tests.thoroughly import few_of

CLASSES = np.repeat([0.1, 0.3, 0.6, 0.9], 25)  # success rates of §VI


def success_ratio(selector, rounds, seed=0):
    run = drive(selector, rounds, everybody(100), bernoulli(CLASSES, seed, "dropout"), seed=seed)
    return sum(int((happened == Outcome.RETURNED).sum()) for _, happened in run) / (rounds * 20)


@pytest.mark.parametrize(
    ("quota", "draw", "mean", "deviation"),
    few_of(
        [
            (0.5, "successive", 0.6473, 0.0027),
            ("incremental", "madow", 0.5636, 0.0069),
            (0.5, "madow", 0.6812, 0.0024),
            (0.0, "madow", 0.866, 0.020),
            (0.5, "dep-round", 0.6810, 0.0021),
            (0.8, "madow", 0.5536, 0.0025),
        ],
        0,
    ),
)
def test_success_ratios_of_the_papers_setting(quota, draw, mean, deviation):
    """K = 100, k = 20, T = 2500, η = 0.5, one run: within three standard deviations of a reference of 16 runs.

    In every run the E3CS study's test plays 600 rounds by each draw, against the same probabilities.
    The reference is an independent simulation. Exact draws and the paper's own (successive) are told apart: their
    bands at quota 0.5 are 13 deviations apart.
    """
    selector = E3CS(20, 100, quota=quota, rounds=2500, draw=draw)
    assert success_ratio(selector, 2500) == pytest.approx(mean, abs=3 * deviation)


def test_success_ratios_of_the_baselines():
    """FedCS 0.9, Random 0.475; 2 500 · 20 successes have a deviation of at most 0.0023, five of them are allowed."""
    assert success_ratio(FedCS(20, rates=CLASSES), 2500) == pytest.approx(0.9, abs=0.007)
    assert success_ratio(Uniform(20, aggregation="deadline"), 2500) == pytest.approx(0.475, abs=0.0115)


def test_one_update_by_hand():
    """K = 4, k = 2, σ = 0, w = (10, 1, 1, 1): p = (1, 1/3, 1/3, 1/3); a return at 1/3 adds 2·0.5/(4·1/3) = 0.75."""
    selector = E3CS(2, 4, quota=0.0)
    selector.log_weights = np.log([10.0, 1.0, 1.0, 1.0])
    selection = selector.select(context(np.ones(4)))
    assert selection.inclusion == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3])
    assert selection.clients[0] == 0  # its probability is 1
    selector.update(RoundFeedback(0, selection, outcomes(np.ones(4), selection)))
    expected = np.log([10.0, 1.0, 1.0, 1.0])
    expected[selection.clients[1]] += 0.75  # and the capped client's weight stays
    assert selector.log_weights - selector.log_weights[0] == pytest.approx(expected - expected[0])


@pytest.mark.parametrize("rounds", few_of([600, 2000], 1))
def test_the_one_pass_mistake_can_be_played(rounds):
    """Weights (10, 1, 1, 1), cut off once: p = (1, 2/13, 2/13, 2/13), 0.54 short of 2; a return at 2/13 adds 1.625."""
    selector = E3CS(2, 4, quota=0.0, draw="successive", method="one-pass")
    selector.log_weights = np.log([10.0, 1.0, 1.0, 1.0])
    drawn = np.zeros(4)
    for t in range(rounds):
        selection = selector.select(context(np.ones(4), t))
        assert selection.clients.size == 2
        drawn[selection.clients] += 1 / rounds
    assert selection.solution.details["shortfall"] == pytest.approx(2 - 1 - 6 / 13)
    # First 13/19 and second (6/19)(13/17) in the race of 13 against 2, 2, 2; four deviations of a share.
    assert drawn[0] == pytest.approx(13 / 19 + 6 / 19 * 13 / 17, abs=4 * math.sqrt(0.07 / rounds))
    before = selector.log_weights - selector.log_weights[0]
    selector.update(RoundFeedback(0, selection, outcomes(np.ones(4), selection)))
    after = selector.log_weights - selector.log_weights[0]
    learnt = [int(k) for k in selection.clients if k != 0]
    assert (after - before)[learnt] == pytest.approx(2 * 0.5 / 4 / (2 / 13))
    exact = E3CS(2, 4, quota=0.0, draw="successive")  # where nothing exceeds 1, the mistake makes no difference
    selector.log_weights = exact.log_weights
    assert (
        selector.select(context(np.ones(4), 5)).clients.tolist()
        == exact.select(context(np.ones(4), 5)).clients.tolist()
    )
    selector.log_weights = np.array([0.0, -2000.0, -2000.0, -4000.0])  # shares of 0 in floating point
    selection = selector.select(context(np.ones(4)))
    assert selection.clients.size == 2
    selector.update(RoundFeedback(0, selection, outcomes(np.ones(4), selection)))
    assert np.isfinite(selector.log_weights).all()
    with pytest.raises(ConfigError, match=r"draw 'madow' needs; use 'successive'"):
        E3CS(2, 4, method="one-pass")


def test_missing_clients_learn_nothing():
    selector = E3CS(2, 4, quota=0.0)
    selection = selector.select(context(np.ones(4)))
    selector.update(RoundFeedback(0, selection, outcomes(np.ones(4), selection, np.zeros(4))))
    assert selector.log_weights.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("rounds", few_of([1000, 4000], 1))
@pytest.mark.parametrize(("draw", "exact"), [("madow", True), ("dep-round", True), ("successive", False)])
def test_only_exact_draws_include_with_the_stated_probabilities(draw, exact, rounds):
    """Weights (1, .6, .4) with k = 2 give p = w; `successive` includes with (.839, .675, .486). Five deviations."""
    selector = E3CS(2, 3, quota=0.0, draw=draw)
    selector.log_weights = np.log([1.0, 0.6, 0.4])
    counts = np.zeros(3)
    for t in range(rounds):
        selection = selector.select(context(np.ones(3), t))
        counts[selection.clients] += 1
    wanted = np.array([1, 0.6, 0.4] if exact else [0.83929, 0.675, 0.48571])
    assert np.abs(counts / rounds - wanted).max() < 5 * math.sqrt(0.25 / rounds)
    assert (selection.inclusion is not None) == exact


def test_the_quota_is_of_those_present():
    """30 of 100 are there: 20 are drawn among them, each with at least half of 20/30, the absent with nothing."""
    present = np.arange(100) < 30
    selector = E3CS(20, 100, quota=0.5)
    selector.log_weights[:3] = 50.0
    selection = selector.select(context(present))
    assert selection.inclusion[30:].tolist() == [0.0] * 70
    assert selection.inclusion[:3] == pytest.approx([1, 1, 1])
    assert selection.inclusion[3:30].min() >= 0.5 * 20 / 30
    few = selector.select(context(np.arange(100) < 12))
    assert few.clients.tolist() == list(range(12))


def test_absent_clients_keep_their_weights():
    selector = E3CS(2, 6, quota=0.0)
    for t in range(50):
        mask = np.arange(6) < 4
        selection = selector.select(context(mask, t))
        selector.update(RoundFeedback(t, selection, outcomes(mask, selection, np.arange(6) == 1)))
    others = selector.log_weights[[0, 2, 3, 4, 5]]
    assert np.ptp(others) == 0
    assert selector.log_weights[1] > others[0]


def test_full_quota_is_uniform_and_learns_nothing():
    selector = E3CS(4, 10, quota=1.0)
    for selection, _ in drive(selector, 30, everybody(10), bernoulli(np.linspace(0, 1, 10), purpose="dropout")):
        assert selection.inclusion == pytest.approx(np.full(10, 0.4))
    assert selector.log_weights.tolist() == [0] * 10


def test_the_incremental_quota_is_none_and_then_uniform():
    """Under one seed it is quota 0 until a quarter of the rounds, and uniform from then on."""
    back = bernoulli(CLASSES, purpose="dropout")
    free = list(drive(E3CS(20, 100, quota=0.0), 120, everybody(100), back))
    incremental = list(drive(E3CS(20, 100, quota="incremental", rounds=400), 120, everybody(100), back))
    same = [np.array_equal(a[0].clients, b[0].clients) for a, b in zip(free, incremental, strict=True)]
    assert all(same[:100])
    assert not all(same[100:])
    assert all(np.allclose(selection.inclusion, 0.2) for selection, _ in incremental[100:])
    assert not np.allclose(incremental[99][0].inclusion, 0.2)


def test_deadline_aggregation_is_not_renormalised():
    """Eq. 5: weights of 1/K each, whoever returns; no return, no change."""
    selection = E3CS(20, 100).select(context(np.ones(100)))
    assert selection.weights == pytest.approx(np.full(20, 0.01))
    back = np.arange(20) < 7
    assert selection.applied_weights(back).sum() == pytest.approx(0.07)
    assert not selection.applied_weights(np.zeros(20, dtype=bool)).any()
    plain = E3CS(20, 100, aggregation="samples").select(context(np.ones(100)))
    assert plain.applied_weights(back).sum() == pytest.approx(1.0)


def test_successes_at_tiny_probabilities_do_not_overflow():
    selector = E3CS(5, 50, quota=0.0, rate=1000.0)
    for _ in drive(selector, 300, everybody(50), bernoulli(np.linspace(0, 1, 50), purpose="dropout")):
        assert np.isfinite(selector.log_weights).all()
    assert np.ptp(selector.log_weights) > 709  # beyond what exp can hold


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"quota": 1.5}, r"quota must lie in \[0, 1\]; got 1.5"),
        ({"quota": "linear"}, "quota must be a number in .* or 'incremental'; got 'linear'"),
        ({"quota": "incremental"}, "give rounds"),
        ({"draw": "multinomial"}, "draw must be 'madow', 'dep-round' or 'successive'; got 'multinomial'"),
        ({"rate": 0}, "rate must be a positive number; got 0"),
        ({"aggregation": "sum"}, "aggregation must be .* or 'deadline'; got 'sum'"),
    ],
)
def test_bad_options_are_sentences(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        E3CS(3, 10, **options)


@pytest.mark.parametrize(
    ("client", "outcome", "sentence"),
    [
        (0, Outcome.IDLE, "client 0 was selected, and its outcome is IDLE"),
        (0, Outcome.UNAVAILABLE, "client 0 was selected, and its outcome is UNAVAILABLE"),
        (3, Outcome.MISSING, "client 3 was not selected, and its outcome is MISSING"),
        (3, 7, "one Outcome"),
        (3, Outcome.UNAVAILABLE, "made among 4 available clients: 3 are not UNAVAILABLE"),
    ],
)
def test_outcomes_that_contradict_the_selection_are_sentences(client, outcome, sentence):
    """Somebody's own loop has to say what became of everyone; an idle client left at 0 was away."""
    selector = E3CS(2, 4, quota=0.0)
    selector.log_weights = np.log([10.0, 9.0, 1.0, 1e-9])
    selection = selector.select(context(np.ones(4)))
    assert selection.clients.tolist() == [0, 1]
    told = outcomes(np.ones(4), selection)
    told[client] = outcome
    with pytest.raises(ConfigError, match=sentence):
        selector.update(RoundFeedback(0, selection, told))
