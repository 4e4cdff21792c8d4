"""Randomness is a function of (seed, purpose, round, client), and touches no global generator."""

from __future__ import annotations

import itertools
import random

import numpy as np

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
