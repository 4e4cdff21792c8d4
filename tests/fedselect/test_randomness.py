"""Randomness is a function of (seed, purpose, round, client), and touches no global generator."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from fedselect.errors import ConfigError
from fedselect.randomness import generator


def test_same_address_same_numbers_other_address_other_numbers():
    addresses = list(itertools.product((0, 1), ("data", "availability", "training"), (0, 1), (0, 1)))
    draws = {address: generator(*address).random() for address in addresses}
    assert draws == {address: generator(*address).random() for address in addresses}
    assert len(set(draws.values())) == len(addresses)


def test_recorded_numbers_never_change():
    """A change here would silently change every recorded result."""
    assert generator(0, "availability", 3).random(2).tolist() == [0.5277151128372816, 0.35290489941783654]
    assert generator(7, "training", 2, 5).integers(1000, size=3).tolist() == [7, 838, 716]


def test_global_generators_are_left_alone():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    generator(3, "selector", 1).random(10)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**40 + 3, np.int64(5)])
def test_numbers_are_those_of_a_seed_sequence_of_the_address(seed):
    expected = np.random.default_rng(np.random.SeedSequence([int(seed), 5, 3, 17]))
    found = generator(seed, "training", 3, 17)
    assert (found.integers(2**63, size=4) == expected.integers(2**63, size=4)).all()
    assert found.spawn(1)[0].integers(2**63) == expected.spawn(1)[0].integers(2**63)


@pytest.mark.parametrize("seed", [0.5, -1, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises((TypeError, ValueError), match="integer"):
        generator(seed, "training")


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_a_negative_number_is_a_sentence(numbers):
    seed, round, client = numbers
    with pytest.raises(ConfigError, match=f"must be non-negative integers; got {seed}, {round} and {client}"):
        generator(seed, "training", round, client)
