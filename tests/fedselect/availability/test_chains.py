"""Two-state chains: stationary availability, autocorrelation, transitions; CA-Fed's population."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st

from fedselect.availability import AVAILABILITY, TwoState
from fedselect.data import clustered, digits
from fedselect.errors import ConfigError
from tests.thoroughly import tried

N = 20_000  # clients alike: averages over them have standard errors of at most 0.0071 (correlations), 0.0036 (shares)


@pytest.mark.parametrize(
    ("pi", "lam"), [(0.5, 0.9), (0.1, 0.9), (0.9, 0.9), (0.1, 0.0), (0.9, 0.01), (0.3, -0.3), (0.5, -1.0)]
)
def test_availability_is_stationary_and_correlated_as_stated(pi, lam):
    model = TwoState(np.full(N, pi), lam, 11)
    seen = np.array([model.available(t) for t in range(60)])
    assert np.abs(seen.mean(axis=1) - pi).max() < 5 * np.sqrt(pi * (1 - pi) / N)
    assert (model.rates(17) == pi).all()
    for lag in (1, 2, 5, 12):
        found = np.corrcoef(seen[40], seen[40 + lag])[0, 1]
        assert found == pytest.approx(lam**lag, abs=5 / np.sqrt(N))


@pytest.mark.parametrize(("pi", "lam"), [(0.7, 0.8), (0.4, -0.5)])
def test_transitions_are_those_of_the_matrix(pi, lam):
    model = TwoState(np.full(N, pi), lam, 0)
    matrix = model.transitions[0]
    assert matrix.sum(axis=1) == pytest.approx([1, 1])
    assert np.array([1 - pi, pi]) @ matrix == pytest.approx([1 - pi, pi])
    assert sorted(np.linalg.eigvals(matrix)) == pytest.approx(sorted([lam, 1.0]))
    seen = [model.available(t) for t in range(11)]
    for before in (0, 1):
        moved = np.concatenate([now[last == before] for last, now in pairwise(seen)])
        assert moved.mean() == pytest.approx(matrix[before, 1], abs=5 * np.sqrt(0.25 / moved.size))


def test_run_lengths():
    """(π, λ) = (0.9, 0.9): 100 rounds available and 11.1 away on average; 400 clients over 2 000 rounds."""
    model = TwoState(np.full(400, 0.9), 0.9, 4)
    seen = np.array([model.available(t) for t in range(2000)])
    changes = np.diff(seen.astype(int), axis=0)
    away = (~seen).sum() / (changes == -1).sum()
    there = seen.sum() / (changes == 1).sum()
    assert away == pytest.approx(1 / (0.1 * 0.9), rel=0.08)
    assert there == pytest.approx(1 / (0.1 * 0.1), rel=0.08)


def test_a_correlation_of_one_keeps_the_first_state():
    model = TwoState(np.full(500, 0.5), 1.0, 0)
    first = model.available(0)
    assert 0 < first.sum() < 500
    assert np.array_equal(model.available(1000), first)


@tried(
    25,
    100,
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6),
    st.integers(0, 2**32),
    st.lists(st.integers(0, 50), min_size=1, max_size=8),
)
def test_any_chain_answers_alike_in_any_order(pairs, seed, rounds):
    """Also against the chain run forwards, state by state, from its transition probabilities."""
    from fedselect.randomness import generator

    pi = np.array([p for p, _ in pairs])
    if not pi.any():
        pi[0] = 0.5
    with np.errstate(divide="ignore", over="ignore"):
        least = np.maximum(np.maximum(1 - 1 / pi, 1 - 1 / (1 - pi)), -1)
    lam = least + (1 - least) * np.array([share for _, share in pairs])
    model = TwoState(pi, lam, seed)
    state = generator(seed, "availability", 0).random(pi.size) < pi
    walked = [state]
    for t in range(1, 51):
        u = generator(seed, "availability", t).random(pi.size)
        stay, rise = model.transitions[:, 1, 1], model.transitions[:, 0, 1]
        # With λ < 0 the same uniform number serves the state that is more likely to be followed by availability.
        state = np.where(state, u < stay, u < rise)
        walked.append(state)
    for t in rounds:
        assert np.array_equal(model.available(t), walked[t])


@pytest.mark.parametrize(
    ("pi", "lam", "sentence"),
    [
        ([0.9, 0.1], -0.2, "client 0 with availability 0.9 can have a correlation between -0.111111 and 1; got -0.2"),
        ([0.5], 1.01, "between -1 and 1; got 1.01"),
        ([0.5, 1.5], 0.5, "client 1 has 1.5"),
        ([0.0, 0.0], 0.0, "none would ever be there"),
        (["often", "seldom"], 0.0, "availability rates must be one number per client: could not convert"),
        ([10**400], 0.0, "availability rates must be one number per client"),
        ([[0.5], [0.5, 0.5]], 0.1, "rates must be one number per client"),
        ([0.5, 0.5], [0.1, 0.1, 0.1], "the correlation must be one number, or one per client"),
        ([0.5, 0.5], "high", "the correlation must be one number, or one per client; got 'high'"),
    ],
)
def test_impossible_chains_are_sentences(pi, lam, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TwoState(pi, lam, 0)


def test_a_chain_that_never_moves_has_no_stationary_distribution():
    with pytest.raises(ConfigError, match="client 1 never changes its state"):
        TwoState.from_transitions([0.1, 0.0], [0.2, 0.0], 0)


def test_markov_gives_everyone_the_same_chain():
    model = AVAILABILITY.build("markov", digits(n_clients=20), 0, rate=0.3, correlation=0.5)
    assert (model.stationary == 0.3).all()
    assert (model.correlation == 0.5).all()


# -- CA-Fed --------------------------------------------------------------------------------------------------------


def test_the_papers_population_has_three_clients_in_each_cell():
    federation = clustered(samples=1, test_samples=1)
    model = AVAILABILITY.build("ca-fed", federation, 3)
    for group in (0, 1):
        for pi in (0.9, 0.1):
            inside = (federation.groups == group) & np.isclose(model.stationary, pi)
            assert inside.sum() == 6
            assert (model.correlation[inside] == 0.9).sum() == 3


def test_weakly_correlated_clients_vary_around_zero():
    """2 000 weak clients: mean 0 and standard deviation 0.01, to five standard errors."""
    weak = AVAILABILITY.build("ca-fed", clustered(n_clients=4000, samples=1, test_samples=1), 0).correlation
    weak = weak[weak != 0.9]
    assert weak.size == 2000
    assert weak.mean() == pytest.approx(0, abs=5 * 0.01 / np.sqrt(2000))
    assert weak.std() == pytest.approx(0.01, rel=5 / np.sqrt(4000))


def test_the_codes_population_has_no_correlated_client_that_is_often_there():
    federation = clustered(n_clients=4000, samples=1, test_samples=1)
    model = AVAILABILITY.build("ca-fed", federation, 0, convention="code")
    more = np.isclose(model.stationary, 0.9)
    assert more.sum() == 2000
    assert not (model.correlation[more] == 0.9).any()
    assert (model.correlation[~more] == 0.9).sum() == 1000
    weak = model.correlation[model.correlation != 0.9]
    assert weak.mean() == pytest.approx(0.005, abs=5 * 0.005 / np.sqrt(3000))
    assert weak.std() == pytest.approx(0.005, rel=5 / np.sqrt(6000))


def test_classes_of_ca_fed_differ_by_seed_and_need_no_groups():
    federation = digits(n_clients=24)
    first, second = (AVAILABILITY.build("ca-fed", federation, seed).stationary for seed in (0, 1))
    assert sorted(first) == sorted(second)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gap": 0.6}, r"gap must lie in \[0, 0.5\]; got 0.6"),
        ({"noise": -1.0}, "noise must be a number of at least 0; got -1.0"),
        ({"convention": "thesis"}, "option 'convention' must be .*'paper'.*'code'.*; got 'thesis'"),
        ({"correlation": 1.5}, "and 1; got 1.5"),
    ],
)
def test_bad_options_of_ca_fed_are_sentences(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        AVAILABILITY.build("ca-fed", digits(n_clients=24), 0, **options)
