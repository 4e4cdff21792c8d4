"""The world that every engine plays in."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.errors import ConfigError
from fedselect.rounds import Scenario, World, play
from fedselect.selectors import SELECTORS


class Clients:
    """Stands for a federation where only the number of clients matters."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


def ideal(n):
    return AVAILABILITY.build("ideal", Clients(n), 0)


@pytest.mark.parametrize(
    "sizes",
    [
        *([], [3, 0], [[1, 2]], [[1], [1, 2]], [2.5, 3.0], [np.nan, 3.0], [np.inf, 3.0], [2**70, 3]),
        *(["a", "b"], None, [3 + 0j, 1]),
    ],
)
def test_sizes_that_are_none_are_refused(sizes):
    with pytest.raises(ConfigError, match="sizes must be one positive number of samples a client"):
        World(sizes, ideal(2))


def test_a_time_limit_is_positive():
    with pytest.raises(ConfigError, match="time_limit must be a positive number of seconds or None; got 0"):
        World([1, 2], ideal(2), time_limit=0)


def test_everyone_comes_back_where_nothing_else_is_said():
    world = World([3, 1, 2], ideal(3))
    assert world.n_clients == 3
    assert world.dropout.returned(5).all()


def test_a_selector_that_looks_at_sizes_alone_needs_no_data():
    scenario = Scenario(np.full(1000, 7), ideal(1000), size=10, rounds=4)
    selector = SELECTORS.build("uniform", scenario)
    assert [played.selection.clients.size for played in play(selector, scenario, scenario.rounds)] == [10] * 4


def test_a_selector_that_looks_at_data_says_that_there_is_none():
    scenario = Scenario(np.full(20, 7), ideal(20), size=3, rounds=4)
    with pytest.raises(ConfigError, match="this scenario has sizes and no data"):
        SELECTORS.build("fedgs", scenario)
