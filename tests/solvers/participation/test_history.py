"""Weight error and Q of recorded histories."""

import numpy as np
import pytest

from solvers import InvalidProblem
from solvers.participation import second_moment, weight_error


def test_by_hand():
    """Two rounds, one client of rate ½ that takes part in round 0: ω = 1, 1, and (½ − 1)² each time."""
    assert weight_error([[1], [0]], [0.5]) == 0.25
    assert second_moment([[1], [0]], [0.5]) == 0.5
    # Away in rounds 0 and 1 with K = 2: ω = 1, 1, 2, so that pω − 1 = −½, −½, 0 and Q = ½·4.
    assert weight_error([[0], [0], [0]], [0.5], cutoff=2) == pytest.approx(1 / 6)
    assert second_moment([[0], [0], [0]], [0.5], cutoff=2) == 2.0


@pytest.mark.parametrize(
    ("rate", "cutoff", "error"),
    [(0.02, 5, 0.817), (0.02, 50, 0.159), (0.02, None, 0.128), (0.1, 5, 0.350), (0.1, 50, 0.0284), (0.5, 5, 0.0038)],
)
def test_monte_carlo_table(rate, cutoff, error):
    """The reference's W at T = 2000, each within 6 % (2000 clients)."""
    rng = np.random.default_rng(7)
    history = rng.random((2000, 2000)) < rate
    assert weight_error(history, np.full(2000, rate), cutoff) == pytest.approx(error, rel=0.06)


@pytest.mark.parametrize(
    ("history", "rates", "sentence"),
    [
        ([[1, 0]], [0.5], r"column per rate, 1; got \(1, 2\)"),
        (np.zeros((0, 1)), [0.5], "at least one"),
        ([1, 0], [0.5, 0.5], "a row per round"),
        ([[1]], [0.0], r"rates must be positive and at most 1; client 0 has 0"),
        ([[2]], [0.5], "mask of booleans"),
    ],
)
def test_bad_data_is_a_sentence(history, rates, sentence):
    for function in (weight_error, second_moment):
        with pytest.raises(InvalidProblem, match=sentence):
            function(history, rates)
