"""FedGS's γ_k (Eqs. 19 to 23) beside the exact expectation."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import InvalidProblem
from solvers.dispersion import aggregation_factors, expected_shares


def test_equal_sizes_and_full_participation_are_unbiased():
    assert aggregation_factors(np.full(7, 30), 3) == pytest.approx(np.ones(7))
    sizes = np.array([5.0, 10, 40, 45])
    assert aggregation_factors(sizes, 4) == pytest.approx(np.ones(4))
    assert expected_shares(sizes, 4) == pytest.approx(sizes / 100)
    assert aggregation_factors([9], 1) == [1]


def test_equation_22_is_equation_21():
    """γ_k n_k / n = (M/N) n_k / (n_k + (M − 1)/(N − 1) (n − n_k)), for random sizes."""
    rng = np.random.default_rng(0)
    for size in range(1, 9):
        n = rng.integers(1, 500, 9).astype(float)
        left = aggregation_factors(n, size) * n / n.sum()
        right = size / 9 * n / (n + (size - 1) / 8 * (n.sum() - n))
        assert left == pytest.approx(right)


def test_one_client_a_round_ignores_the_sizes():
    """M = 1: everybody has 1/N, which both say exactly."""
    sizes = np.array([1.0, 2, 3, 94])
    assert expected_shares(sizes, 1) == pytest.approx(np.full(4, 0.25))
    assert aggregation_factors(sizes, 1) * sizes / 100 == pytest.approx(np.full(4, 0.25))


def test_the_approximation_gets_better_with_more_clients_a_round():
    """Eq. 20 is no equality: it errs at M = 2 of unequal sizes, less at M = 8; the exact shares sum to 1."""
    sizes = np.random.default_rng(1).lognormal(4, 1, 10)
    errors = []
    for size in (2, 5, 8):
        exact = expected_shares(sizes, size)
        assert exact.sum() == pytest.approx(1)
        errors.append(np.abs(aggregation_factors(sizes, size) * sizes / sizes.sum() - exact).sum())
    assert errors[0] > errors[1] > errors[2]
    assert errors[0] > 0.01
    largest = np.argmax(sizes)
    assert aggregation_factors(sizes, 2)[largest] < 1 < aggregation_factors(sizes, 2)[np.argmin(sizes)]


def test_what_is_wrong_is_said():
    with pytest.raises(InvalidProblem, match="size must be an integer from 1 to the number of clients, 3; got 4"):
        aggregation_factors([1, 2, 3], 4)
    with pytest.raises(InvalidProblem, match="one positive number of samples a client"):
        aggregation_factors([1, 0], 1)
    with pytest.raises(InvalidProblem, match="accepted are 2000000 at most"):
        expected_shares(np.ones(100), 10)
