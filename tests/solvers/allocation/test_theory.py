"""FedSS's bounds, biases and errors, against the checked numbers and against simulation."""

import numpy as np
import pytest

from solvers import InvalidProblem, solve
from solvers.allocation import (
    AllocationProblem,
    availability_bias,
    availability_variation,
    estimator_error,
    fedavg_term,
    neyman,
    precision_bound,
    proportional_advantage,
    stratified_term,
    training_term,
)

SIZES, DEVIATIONS = [50, 30, 20], [1, 2, 4]
SETTING = {"smoothness": 1, "convexity": 0.1, "epochs": 1, "batches": 5, "rounds": 100}


def bound(sampling):
    training = training_term(np.ones(100), heterogeneity=0.1, smoothness=1, gradient=1, epochs=1, batches=5)
    return precision_bound(training, sampling, distance=1, **SETTING)


def test_the_terms_of_the_check_case():
    assert training_term(np.ones(100), 0.1, 1, 1, 1, 5) == pytest.approx(0.01 + 0.6 + 128)
    optimal = stratified_term(SIZES, neyman(SIZES, DEVIATIONS, 10), DEVIATIONS, 1, 5)
    assert optimal == pytest.approx(31.2)
    assert stratified_term(SIZES, [5, 3, 2], DEVIATIONS, 1, 5) == pytest.approx(44.1)
    assert stratified_term(SIZES, [3, 3, 4], DEVIATIONS, 1, 5) == pytest.approx(31.4333, abs=5e-5)
    assert stratified_term(SIZES, SIZES, DEVIATIONS, 1, 5) == 0
    assert fedavg_term(100, 10, 20**0.5, 1, 5) == pytest.approx(180)


def test_theorem_1_of_the_check_case():
    assert bound(31.2) == pytest.approx(55.2712, abs=5e-5)
    assert bound(44.1) == pytest.approx(59.7271, abs=5e-5)
    assert bound(31.43333333) == pytest.approx(55.3518, abs=5e-5)
    assert bound(180) == pytest.approx(106.6701, abs=5e-5)
    assert bound(180) - bound(31.2) == pytest.approx(51.3990, abs=5e-5)
    # EM above 8β/μ − 1: α₁ = EM.
    assert precision_bound(1, 0, 0, 1, 1, epochs=5, batches=4, rounds=3) == pytest.approx(2 / (20 + 60))


def test_corollary_1_is_the_difference_of_the_bounds():
    advantage = proportional_advantage(SIZES, DEVIATIONS, 20**0.5, 10, **SETTING)
    assert advantage == pytest.approx(46.9430, abs=5e-5)
    assert advantage == pytest.approx(bound(180) - bound(44.1), rel=1e-12)


def test_the_optimal_allocation_is_never_worse_than_the_proportional_one():
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes, deviations = rng.integers(3, 40, 5), rng.lognormal(0, 1, 5)
        problem = AllocationProblem(sizes, deviations, int(rng.integers(5, sizes.sum())))
        terms = [stratified_term(sizes, solve(problem, m).x, deviations, 1, 5) for m in ("greedy", "proportional")]
        assert terms[0] <= terms[1]
        assert terms[0] == pytest.approx(100 * problem.objective(solve(problem).x))


def test_fedavg_leans_towards_the_available():
    np.testing.assert_allclose(availability_bias([60, 40], [10, 30]), [-0.35, 0.35])
    assert availability_variation([60, 40], [10, 30]) == pytest.approx(0.35)
    assert availability_variation([60, 40], [6, 4]) == 0
    assert availability_variation([60, 40], [0, 4]) == pytest.approx(0.6)


def test_stratified_sampling_is_unbiased_with_the_stated_error_and_fedavg_is_not():
    """Eqs. 7, 13 by Monte Carlo, 20 000 rounds, 5 standard errors (a right value fails with probability 6e-7)."""
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


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: estimator_error([5, 5], [6, 1], [1, 1]), "group 0 has 6 of 5"),
        (lambda: estimator_error([5, 5], [0, 1], [1, 1]), "allocation must be positive; group 0 has 0"),
        (lambda: estimator_error([5, 5], [1, 1], [1]), "variances must have one entry per group, 2; got 1"),
        (lambda: estimator_error([5, 5], [1, 1], [1, -1]), "variances must be non-negative; group 1 has -1"),
        (lambda: availability_bias([5, 5], [0, 0]), "not all 0"),
        (lambda: availability_bias([], []), "sizes is empty; there must be at least one group"),
        (lambda: precision_bound(1, 1, 1, 0.5, 1, 1, 1, 1), "smoothness >= convexity > 0 must hold; got 0.5 and 1"),
        (lambda: precision_bound(1, 1, 1, 1, 0, 1, 1, 1), "got 1 and 0"),
    ],
)
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        call()
