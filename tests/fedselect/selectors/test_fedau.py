"""FedAU and the baselines of its comparison, without training."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, RoundFeedback
from fedselect.selectors import FedAU, SelectAll
from tests.fedselect.driving import bernoulli, context, drive, everybody, outcomes
from tests.thoroughly import few_of

CLIENTS, ROUNDS = 400, 3000
LATIN = [(0.02, 5), (0.1, 50), (0.5, None)]


def final_weights(available, cutoff, rounds=ROUNDS, clients=CLIENTS):
    """ω of every client after the rounds: N times the weight it would be applied with."""
    selector = FedAU(clients, cutoff=cutoff)
    for _ in drive(selector, rounds, available):
        pass
    return clients * selector.select(context(np.ones(clients), rounds)).weights


def close(sample, limit, finite):
    """Within five standard errors of the mean over clients, and the stated relative bias of finitely many rounds."""
    error = 5 * sample.std(ddof=1) / math.sqrt(sample.size)
    return abs(sample.mean() - limit) <= error + finite * limit


#: Every rate and every cutoff in every run, every pair of them in the thorough part.
PAIRS = sorted(itertools.product([0.02, 0.1, 0.5], [None, 5, 50]), key=lambda pair: pair not in LATIN)


@pytest.mark.parametrize(("rate", "cutoff"), few_of(PAIRS, 3))
def test_the_bernoulli_limit(rate, cutoff):
    """ω → (1 − (1 − p)^K) / p: with cutoff 5, far below 1/p for p = 0.02."""
    limit = (1 if cutoff is None else 1 - (1 - rate) ** cutoff) / rate
    assert close(final_weights(bernoulli(np.full(CLIENTS, rate)), cutoff), limit, 0.005)


def markov(rate, wake, rounds, clients, seed=0):
    """Two-state chains as FedAU's authors have them: P(inactive → active) = ``wake``, stationary rate ``rate``."""
    rng = np.random.default_rng(seed)
    leave = wake * (1 / rate - 1)
    state = rng.random(clients) < rate
    history = np.empty((rounds, clients), dtype=bool)
    for t in range(rounds):
        draw = rng.random(clients)
        state = np.where(state, draw >= leave, draw < wake)
        history[t] = state
    return lambda t: history[t]


def test_the_markov_limit():
    r"""1/(p + rate of cutoffs): cutoffs come at p·P(leave)·r^(K−1)/(1 − r^K), r = 0.95; 9.62 instead of 10 at K = 50.

    The cutoff's bias is larger than under Bernoulli participation, where it is 0.5 %.
    """
    history = markov(0.1, 0.05, ROUNDS, CLIENTS)
    r, k = 0.95, 50
    cut = 0.1 * 0.45 * r ** (k - 1) / (1 - r**k)
    assert 1 / (0.1 + cut) == pytest.approx(9.62, abs=0.005)
    assert close(final_weights(history, k), 1 / (0.1 + cut), 0.01)
    assert close(final_weights(history, None), 10, 0.015)


@pytest.mark.parametrize(
    ("active", "cutoff", "limit"), [(2, 50, 100 / 3), (10, 50, 100 / 11), (2, None, 50), (10, None, 10), (10, 1, 1)]
)
def test_the_cyclic_limit(active, cutoff, limit):
    """Of 100 rounds the first 98 (or 90) inactive: c/(a + ⌊b/K⌋) with cutoff K, exact at the end of a cycle."""
    weights = final_weights(lambda t: np.full(4, t % 100 >= 100 - active), cutoff, 2000, 4)
    assert weights == pytest.approx(np.full(4, limit))


def test_failures_count_as_absence():
    """Always available, half of the updates arrive: ω → 2."""
    selector = FedAU(CLIENTS)
    for _ in drive(selector, 2000, everybody(CLIENTS), bernoulli(np.full(CLIENTS, 0.5), purpose="dropout")):
        pass
    assert close(selector.intervals.weights, 2, 0.002)


def test_weights_depend_on_earlier_rounds_alone():
    """Participations in rounds 2 and 3: weight 1 in round 2 (nothing known), 3 in round 3, (3 + 1)/2 after it."""
    selector = FedAU(2)
    seen = [selection.weights.tolist() for selection, _ in drive(selector, 5, lambda t: np.array([t >= 2, True]))]
    assert seen == [[0.5], [0.5], [0.5, 0.5], [1.5, 0.5], [1.0, 0.5]]


def realised(selector, rates, rounds, burn=0):
    """Mean applied weight per round of each client, after ``burn`` rounds."""
    total = np.zeros(len(rates))
    for t, (selection, happened) in enumerate(drive(selector, rounds, bernoulli(rates))):
        if t >= burn:
            returned = happened[selection.clients] == Outcome.RETURNED
            total[selection.clients] += selection.applied_weights(returned)
    return total / (rounds - burn)


def test_who_is_unbiased_and_who_is_not():
    """100 clients, half at rate 0.2, half at 0.8; the target is 1/100 each. Five standard deviations of a group mean.

    FedAU and known participation reach it, the mean over participants and the mean over all favour the frequent by
    factors near 4.
    """
    rates = np.repeat([0.2, 0.8], 50)
    rounds = 1500
    deviation = np.sqrt((1 - rates) / rates / (50 * rounds))[[0, -1]]  # of the group mean of 1{there}/p

    def groups(selector, burn=0):
        return 100 * realised(selector, rates, rounds, burn).reshape(2, 50).mean(axis=1)

    assert np.all(np.abs(groups(SelectAll("unbiased", rates=rates)) - 1) < 5 * deviation)
    # Its own estimate moves with what it corrects; 300 rounds let it settle.
    assert np.all(np.abs(groups(FedAU(100), burn=300) - 1) < 0.02 + 5 * deviation)
    low, high = groups(SelectAll("all"))
    assert (low, high) == pytest.approx((0.2, 0.8), abs=0.02)
    low, high = groups(SelectAll("participating"))
    assert (low, high) == pytest.approx((0.4, 1.6), abs=0.03)


def test_the_mean_is_over_those_that_returned():
    selection = SelectAll("participating").select(context([1, 1, 0, 1]))
    assert selection.applied_weights(np.array([True, False, True])) == pytest.approx([0.5, 0, 0.5])
    everyone = SelectAll("all").select(context([1, 1, 0, 1]))
    assert everyone.applied_weights(np.array([True, False, True])).tolist() == [0.25, 0, 0.25]


def test_cutoff_one_is_the_mean_over_all():
    selector = FedAU(5, cutoff=1)
    for selection, _ in drive(selector, 40, bernoulli(np.full(5, 0.3))):
        assert selection.weights.tolist() == [0.2] * selection.clients.size


def test_another_importance():
    selector = FedAU(2, importance=[0.25, 0.75])
    assert selector.select(context([1, 1])).weights.tolist() == [0.25, 0.75]
    rates = SelectAll("unbiased", rates=lambda t: [0.5, 1.0 / (t + 1)])
    assert rates.select(context([1, 1], round=3)).weights.tolist() == [1.0, 2.0]


def test_bad_options_are_sentences():
    with pytest.raises(ConfigError, match="cutoff must be an integer of at least 1"):
        FedAU(3, cutoff=0)
    with pytest.raises(ConfigError, match="one entry per client, 3; got 2"):
        FedAU(3, importance=[0.5, 0.5])
    with pytest.raises(ConfigError, match=r"sum to 1; it sums to 0\.9"):
        FedAU(2, importance=[0.5, 0.4])
    with pytest.raises(ConfigError, match="client 1 is available in round 4, so its rate must lie in"):
        SelectAll("unbiased", rates=[0.5, 0.0]).select(context([1, 1], round=4))


def test_an_absent_client_needs_no_rate():
    selector = SelectAll("unbiased", rates=[0.5, 0.0])
    selection = selector.select(context([1, 0]))
    assert selection.weights.tolist() == [1.0]
    selector.update(RoundFeedback(0, selection, outcomes([1, 0], selection)))
