"""Availability and dropout: pure functions of (seed, round, client), with the rates they promise."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT, Independent
from fedselect.data import digits
from fedselect.errors import ConfigError


@pytest.fixture(scope="module")
def federation():
    return digits(clients=100)


@pytest.mark.parametrize("name", ["ideal", "bernoulli", "lognormal", "LN", "IDL"])
def test_a_round_is_the_same_whenever_it_is_asked_for(federation, name):
    first, second = (AVAILABILITY.build(name, federation, 3) for _ in range(2))
    forward = [first.available(t) for t in range(6)]
    backward = [second.available(t) for t in reversed(range(6))]
    assert np.array_equal(forward, backward[::-1])


def test_rounds_and_seeds_differ(federation):
    model = AVAILABILITY.build("bernoulli", federation, 0)
    other = AVAILABILITY.build("bernoulli", federation, 1)
    assert not np.array_equal(model.available(0), model.available(1))
    assert not np.array_equal(model.available(0), other.available(0))


def test_everyone_is_there_in_the_ideal_case(federation):
    assert AVAILABILITY.build("ideal", federation, 0).available(17).all()


def test_frequencies_approach_the_rates():
    """4 000 rounds: the standard error of a frequency is at most 0.008; five of them are allowed."""
    rates = np.linspace(0, 1, 11)
    model = Independent(rates, 5)
    frequency = np.mean([model.available(t) for t in range(4000)], axis=0)
    assert np.abs(frequency - rates).max() < 5 * 0.008
    assert frequency[0] == 0
    assert frequency[-1] == 1


@pytest.mark.parametrize(("beta", "mean"), [(0.1, 0.774), (0.5, 0.232), (0.7, 0.109), (0.9, 0.041)])
def test_lognormal_rates_have_the_published_means(federation, beta, mean):
    """Mean active rates over 200 seeds at N = 100, computed from the authors' formula."""
    rates = np.array([AVAILABILITY.build("lognormal", federation, seed, beta=beta).rates(0) for seed in range(200)])
    assert rates.max(axis=1).tolist() == [1.0] * 200
    assert rates.mean() == pytest.approx(mean, rel=0.06)


def test_lognormal_zero_is_full_availability(federation):
    assert (AVAILABILITY.build("lognormal", federation, 0, beta=0.0).rates(0) == 1).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda f: AVAILABILITY.build("lognormal", f, 0, beta=1.0), r"beta must lie in \[0, 1\); got 1.0"),
        (lambda f: AVAILABILITY.build("bernoulli", f, 0, rate=0.0), "nobody would ever be there"),
        (lambda f: AVAILABILITY.build("bernoulli", f, 0, rate=1.5), "client 0 has 1.5"),
        (lambda f: Independent(np.array([0.5, np.nan]), 0), "client 1 has nan"),
        (lambda f: AVAILABILITY.build("sometimes", f, 0), "there is no availability 'sometimes'"),
        (lambda f: DROPOUT.build("bernoulli", 5, 0, rate=-0.1), r"dropout rate must lie in \[0, 1\]; got -0.1"),
    ],
)
def test_bad_rates_are_sentences(federation, call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        call(federation)


def test_dropout_rates():
    assert DROPOUT.build("none", 1000, 0).returned(3).all()
    assert not DROPOUT.build("bernoulli", 1000, 0, rate=1.0).returned(3).any()
    share = DROPOUT.build("bernoulli", 100_000, 0, rate=0.3).returned(3).mean()
    assert share == pytest.approx(0.7, abs=5 * np.sqrt(0.21 / 100_000))
