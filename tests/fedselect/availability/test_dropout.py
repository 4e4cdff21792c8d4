"""Dropout: who comes back, with which probability."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT, Deadline
from fedselect.data import digits
from fedselect.errors import ConfigError

FILELESS = [name for name in DROPOUT.names if name != "trace"]


@pytest.mark.parametrize("name", FILELESS)
def test_frequencies_approach_the_rates_in_any_order(name):
    """3 000 rounds of 24 clients: five standard errors of at most 0.0092."""
    model, again = DROPOUT.build(name, 24, 3), DROPOUT.build(name, 24, 3)
    seen = [model.returned(t) for t in range(3000)]
    assert np.array_equal([again.returned(t) for t in range(49, -1, -1)], seen[49::-1])
    assert np.abs(np.mean(seen, axis=0) - model.rates(0)).max() < 5 * 0.0092


def test_none_and_all():
    assert DROPOUT.build("none", 1000, 0).returned(3).all()
    assert not DROPOUT.build("bernoulli", 1000, 0, rate=1.0).returned(3).any()


def test_success_classes_are_e3cs_s():
    """Four classes of 25: 0.1, 0.3, 0.6, 0.9; a uniform selector's success ratio is 0.475."""
    rates = DROPOUT.build("e3cs", 100, 0).rates(7)
    assert rates.tolist() == [0.1] * 25 + [0.3] * 25 + [0.6] * 25 + [0.9] * 25
    assert rates.mean() == pytest.approx(0.475)
    shuffled = DROPOUT.build("success-classes", 100, 0, shuffle=True).rates(7)
    assert sorted(shuffled) == sorted(rates)
    assert not np.array_equal(shuffled, rates)
    assert DROPOUT.build("e3cs", 5, 0, rates=[1.0, 0.0]).rates(0).tolist() == [1, 1, 1, 0, 0]


def test_deadlines_are_missed_by_slow_clients():
    model = Deadline(np.array([0.5, 1.0, 4.0]), 2.0, 0.0, 0)
    assert model.returned(0).tolist() == [True, True, False]
    assert model.rates(0).tolist() == [1, 1, 0]
    jittered = Deadline(np.array([1.0, 2.0, 4.0]), 2.0, 0.5, 0).rates(0)
    assert jittered[1] == pytest.approx(0.5)
    assert jittered[0] == pytest.approx(1 - jittered[2])
    work = DROPOUT.build("deadline", 400, 0, spread=0.0, epochs=[1, 2, 3, 4])
    assert sorted(set(work.medians)) == [1, 2, 3, 4]


def test_profiles_of_availability_and_dropout_are_unrelated():
    """Speeds and log-normal availability under one seed; 100 clients, so five standard errors are 0.5."""
    there = np.log(AVAILABILITY.build("LN", digits(n_clients=100), 0).rates(0))
    speed = np.log(DROPOUT.build("deadline", 100, 0).medians)
    assert abs(np.corrcoef(there, speed)[0, 1]) < 0.5


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("e3cs", {"rates": []}, "5 clients can be in 1 to 5 success classes; got 0"),
        ("e3cs", {"rates": [0.1] * 6}, "got 6"),
        ("e3cs", {"rates": [1.2]}, "return rates must lie in .*; client 0 has 1.2"),
        ("e3cs", {"rates": 0.5}, "option 'rates' must be a list of entries that are each a number"),
        ("deadline", {"deadline": 0.0}, "deadline must be a positive number; got 0.0"),
        ("deadline", {"jitter": -1.0}, "jitter must be a number of at least 0; got -1.0"),
        ("deadline", {"spread": -1.0}, "spread must be a number of at least 0; got -1.0"),
        ("deadline", {"epochs": [0]}, r"epochs must be a list of numbers of at least 1; got \[0\]"),
    ],
)
def test_bad_options_are_sentences(name, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        DROPOUT.build(name, 5, 0, **options)
