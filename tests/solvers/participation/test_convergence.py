"""Theorem 2 and Corollary 4 of FedAU as functions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers import InvalidProblem
from solvers.participation import Smoothness, convergence_bound, second_moment, step_sizes, weight_error

CONSTANTS = Smoothness(lipschitz=2.0, noise=3.0, divergence=0.5, gap=4.0, gradient=1.5)
SIZES = {"n_clients": 10, "rounds": 100, "steps": 5, "second_moment": 8.0}


def test_the_terms_by_hand():
    """L = 2, σ² = 3, δ² = 0.5, F = 4, Ψ = 1.5; N = 10, T = 100, I = 5, Q = 8; γ = 0.005, η = 0.4, W = 0.2."""
    bound = convergence_bound(CONSTANTS, local_rate=0.005, server_rate=0.4, weight_error=0.2, **SIZES)
    assert bound.start == pytest.approx(4 / (0.002 * 500))
    assert bound.weights == pytest.approx((1.5 + 0.5 + 0.0001 * 5 * 3) * 0.2)
    assert bound.sampling == pytest.approx(0.002 * 2 * 8 * 5.5 / 10)
    assert bound.drift == pytest.approx(0.0001 * 5 * 5.5)
    assert bound.total == pytest.approx(bound.start + bound.weights + bound.sampling + bound.drift)


@given(
    st.floats(0.01, 100), st.floats(0, 50), st.floats(0, 50), st.floats(1e-3, 50), st.integers(1, 500),
    st.integers(2, 10_000), st.integers(1, 20), st.floats(1, 100),
)  # fmt: skip
def test_the_corollarys_rates_are_within_the_theorems(lipschitz, noise, divergence, gap, clients, rounds, steps, q):
    constants = Smoothness(lipschitz, noise, divergence, gap)
    sizes = {"n_clients": clients, "rounds": rounds, "steps": steps, "second_moment": q}
    local, server = step_sizes(constants, **sizes)
    convergence_bound(constants, local_rate=local, server_rate=server, weight_error=0.1, **sizes)  # allowed
    assert local == pytest.approx(
        min(1 / (lipschitz * steps * math.sqrt(rounds)), 1 / (4 * 15**0.5 * lipschitz * steps))
    )


def test_the_product_of_the_rates_balances_start_and_sampling():
    """Where no cap binds, the first term equals the third, and no other product has a smaller sum of both."""
    sizes = SIZES | {"rounds": 10**6}
    local, server = step_sizes(CONSTANTS, **sizes)

    def terms(factor):
        bound = convergence_bound(CONSTANTS, local_rate=local, server_rate=factor * server, weight_error=0.0, **sizes)
        return bound.start, bound.sampling

    start, sampling = terms(1.0)
    assert start == pytest.approx(sampling)
    assert all(sum(terms(factor)) > start + sampling for factor in (0.5, 0.9, 1.1, 2.0))


def test_the_bound_falls_with_the_rounds_on_real_histories():
    """Weight error and Q of Bernoulli histories at K = ∞: at the corollary's rates, ten times the rounds help."""
    rng, rates, totals = np.random.default_rng(0), np.full(20, 0.3), []
    for rounds in (100, 1000, 10_000):
        history = rng.random((rounds, 20)) < rates
        q, error = second_moment(history, rates), weight_error(history, rates)
        sizes = {"n_clients": 20, "rounds": rounds, "steps": 5, "second_moment": q}
        local, server = step_sizes(CONSTANTS, **sizes)
        bound = convergence_bound(CONSTANTS, local_rate=local, server_rate=server, weight_error=error, **sizes)
        totals.append(bound.total)
    assert totals[0] > 2 * totals[1] > 4 * totals[2]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: replace(CONSTANTS, lipschitz=0.0), "lipschitz must be finite and positive; got 0.0"),
        (lambda: replace(CONSTANTS, noise=-1.0), "noise must be finite and non-negative; got -1.0"),
        (lambda: step_sizes(replace(CONSTANTS, gap=0.0), **SIZES), "gap must be positive"),
        (lambda: step_sizes(CONSTANTS, **(SIZES | {"rounds": 1})), "rounds must be an integer of at least 2; got 1"),
        (
            lambda: step_sizes(CONSTANTS, **(SIZES | {"n_clients": 0})),
            "n_clients must be an integer of at least 1; got 0",
        ),
        (
            lambda: convergence_bound(CONSTANTS, local_rate=0.1, server_rate=1.0, weight_error=0.0, **SIZES),
            r"Theorem 2 needs a local rate of at most 0.00645\d+ and .*; got 0.1 and 0.1",
        ),
    ],
)
def test_what_is_wrong_is_said(call, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        call()
