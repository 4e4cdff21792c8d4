"""The papers' theorems against numbers worked out by hand, simulation and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from formulas import (
    Smoothness,
    availability_bias,
    convergence_terms,
    dissimilarity,
    estimator_error,
    fedavg_term,
    precision_bound,
    stratified_term,
    sweep_correlation,
    training_term,
)
from solvers import InvalidProblem, solve
from solvers.allocation import AllocationProblem
from solvers.weighting import TotalErrorProblem
from tests.thoroughly import few_of

SIZES, DEVIATIONS = [50, 30, 20], [1, 2, 4]
SETTING = {"smoothness": 1, "convexity": 0.1, "epochs": 1, "batches": 5, "rounds": 100}


def bound(sampling):
    training = training_term(np.ones(100), heterogeneity=0.1, smoothness=1, gradient=1, epochs=1, batches=5)
    return precision_bound(training, sampling, distance=1, **SETTING)


def test_fedss_s_terms():
    assert training_term(np.ones(100), 0.1, 1, 1, 1, 5) == pytest.approx(0.01 + 0.6 + 128)
    neyman = 10 * np.array([50, 60, 80]) / 190
    assert stratified_term(SIZES, neyman, DEVIATIONS, 1, 5) == pytest.approx(31.2)
    assert stratified_term(SIZES, [5, 3, 2], DEVIATIONS, 1, 5) == pytest.approx(44.1)
    assert stratified_term(SIZES, [3, 3, 4], DEVIATIONS, 1, 5) == pytest.approx(31.4333, abs=5e-5)
    assert stratified_term(SIZES, SIZES, DEVIATIONS, 1, 5) == 0
    assert fedavg_term(100, 10, 20**0.5, 1, 5) == pytest.approx(180)


def test_fedss_s_theorem_1():
    assert bound(31.2) == pytest.approx(55.2712, abs=5e-5)
    assert bound(44.1) == pytest.approx(59.7271, abs=5e-5)
    assert bound(31.43333333) == pytest.approx(55.3518, abs=5e-5)
    assert bound(180) == pytest.approx(106.6701, abs=5e-5)
    assert bound(180) - bound(31.2) == pytest.approx(51.3990, abs=5e-5)
    # EM above 8β/μ − 1: α₁ = EM.
    assert precision_bound(1, 0, 0, 1, 1, epochs=5, batches=4, rounds=3) == pytest.approx(2 / (20 + 60))


def test_the_optimal_allocation_is_never_worse_than_the_proportional_one():
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes, deviations = rng.integers(3, 40, 5), rng.lognormal(0, 1, 5)
        problem = AllocationProblem(sizes, deviations, int(rng.integers(5, sizes.sum())))
        terms = [stratified_term(sizes, solve(problem, m).x, deviations, 1, 5) for m in ("greedy", "proportional")]
        assert terms[0] <= terms[1]
        assert terms[0] == pytest.approx(100 * problem.objective(solve(problem).x))


def test_stratified_sampling_is_unbiased_with_the_stated_error_and_fedavg_is_not():
    """Eqs. 7, 13 by Monte Carlo, 20 000 rounds, 5 standard errors (a right value fails with probability 6e-7)."""
    np.testing.assert_allclose(availability_bias([60, 40], [10, 30]), [-0.35, 0.35])
    rng = np.random.default_rng(2)
    sizes, allocation = [12, 8], [3, 2]
    models = [rng.normal(5, 2, 12), rng.normal(-1, 1, 8)]
    truth = np.concatenate(models).mean()
    rounds = 20_000
    # FedSS with everybody available.
    fedss = np.zeros(rounds)
    for n, s, w in zip(sizes, allocation, models, strict=True):
        chosen = rng.permuted(np.tile(w, (rounds, 1)), axis=1)[:, :s]
        fedss += n / 20 * chosen.mean(axis=1)
    error = (fedss - truth) ** 2
    wanted = estimator_error(sizes, allocation, [w.var(ddof=1) for w in models])
    assert abs(fedss.mean() - truth) <= 5 * fedss.std() / rounds**0.5
    assert abs(error.mean() - wanted) <= 5 * error.std() / rounds**0.5
    # FedAvg with 3 and 6 available, drawn anew each round.
    first = rng.permuted(np.tile(models[0], (rounds, 1)), axis=1)[:, :3]
    second = rng.permuted(np.tile(models[1], (rounds, 1)), axis=1)[:, :6]
    fedavg = rng.permuted(np.hstack([first, second]), axis=1)[:, :4].mean(axis=1)
    bias = availability_bias(sizes, [3, 6]) @ [w.mean() for w in models]
    assert abs(fedavg.mean() - truth - bias) <= 5 * fedavg.std() / rounds**0.5
    assert abs(bias) > 1


def test_dissimilarity_by_hand():
    """Group means 1 and 5, H² of 2 and 0 within; over all: mean 3, squares 9 + 1 + 4 + 4 = 18, divisor 3."""
    found = dissimilarity([[0.0], [2.0], [5.0], [5.0]], [0, 0, 1, 1])
    assert found.within.tolist() == [2, 0]
    assert found.overall == 6


#: L = 2, σ² = 3, δ² = 0.5, F = 4, Ψ = 1.5; N = 10, T = 100, I = 5, Q = 8.
CONSTANTS = Smoothness(lipschitz=2.0, noise=3.0, divergence=0.5, gap=4.0, gradient=1.5)
RUN = {"n_clients": 10, "rounds": 100, "steps": 5, "second_moment": 8.0}


def test_fedau_s_terms_by_hand():
    """γ = 0.005, η = 0.4, W = 0.2."""
    start, weights, sampling, drift = convergence_terms(
        CONSTANTS, local_rate=0.005, server_rate=0.4, weight_error=0.2, **RUN
    )
    assert start == pytest.approx(4 / (0.002 * 500))
    assert weights == pytest.approx((1.5 + 0.5 + 0.0001 * 5 * 3) * 0.2)
    assert sampling == pytest.approx(0.002 * 2 * 8 * 5.5 / 10)
    assert drift == pytest.approx(0.0001 * 5 * 5.5)


@pytest.mark.parametrize("cases", few_of([4, 12], 1))
def test_guideline_b_is_the_best_of_all_supports(cases):
    """Against every support of small problems, each with the constant of its own largest λ."""
    rng = np.random.default_rng(3)
    fewer = 0
    for _ in range(cases):
        n, weight = 4, float(rng.choice([0.1, 1.0]))
        pi, alpha = rng.uniform(0.1, 1, n), rng.dirichlet(np.ones(n))
        problem = TotalErrorProblem(pi, rng.uniform(0.5, 2, n), 1.0, 0.5, alpha, "tv", weight)
        lam = rng.choice([-0.1, 0.0, 0.3, 0.9, 0.99], n)
        phi = float(rng.choice([0.01, 0.1]))
        best = math.inf
        for kept in itertools.product((False, True), repeat=n):
            if any(kept):
                rate = (lam[np.array(kept)].max() + 1) / 2
                best = min(best, solve(problem.restricted(kept)).objective + phi / math.log(1 / rate))
        x = sweep_correlation(problem, lam, phi)
        rate = (lam[x > 0].max() + 1) / 2
        assert problem.objective(x) + phi / math.log(1 / rate) == pytest.approx(best, rel=1e-6)
        fewer += (x == 0).any()
    assert fewer > 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: estimator_error([5, 5], [6, 1], [1, 1]), "at most the size of each group"),
        (lambda: estimator_error([5, 5], [0, 1], [1, 1]), "at least one"),
        (lambda: precision_bound(1, 1, 1, 0.5, 1, 1, 1, 1), "smoothness >= convexity > 0 must hold; got 0.5 and 1"),
        (lambda: dissimilarity(np.ones((2, 1)), [0, 2]), "group 1 has no client"),
        (
            lambda: convergence_terms(CONSTANTS, local_rate=0.1, server_rate=1.0, weight_error=0.0, **RUN),
            r"Theorem 2 needs a local rate of at most 0.00645\d+ and .*; got 0.1 and 0.1",
        ),
        (
            lambda: sweep_correlation(TotalErrorProblem([0.5], [1.0], 1.0, 1.0, [1.0], "chi2", 1.0), [0.0], 1.0),
            "guideline B needs bias='tv'",
        ),
    ],
)
def test_what_does_not_hold_is_a_sentence(call, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        call()
