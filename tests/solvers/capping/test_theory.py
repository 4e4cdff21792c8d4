"""E3CS over the rounds: quotas, regret bound, weight update, and the success ratios it reaches."""

import math

import numpy as np
import pytest

from solvers import InvalidProblem, solve
from solvers.capping import (
    DRAWS,
    CappingProblem,
    best_rate,
    constant_floors,
    incremental_floors,
    regret_bound,
    reweighted,
)


@pytest.mark.parametrize(
    ("fraction", "rate", "bound", "at_half"),
    [(0, 0.09597, 9597, 25921), (0.5, 0.13572, 6786, 13421), (0.8, 0.21460, 4292, 5921)],
)
def test_regret_of_the_papers_quotas(fraction, rate, bound, at_half):
    floors = constant_floors(100, 20, 2500, fraction)
    assert best_rate(100, 20, floors) == pytest.approx(rate, abs=5e-6)
    assert regret_bound(100, 20, floors) == pytest.approx(bound, abs=1)
    assert regret_bound(100, 20, floors, rate=0.5) == pytest.approx(at_half, abs=1)
    assert regret_bound(100, 20, floors, best_rate(100, 20, floors)) == pytest.approx(regret_bound(100, 20, floors))
    assert regret_bound(100, 20, floors) <= regret_bound(100, 20, floors, rate=rate * 1.1)


@pytest.mark.parametrize(("n_clients", "size"), [(100, 20), (49, 1), (98, 2)])
def test_without_residual_mass_nothing_can_be_regretted(n_clients, size):
    floors = constant_floors(n_clients, size, 50, 1.0)
    assert regret_bound(n_clients, size, floors) == 0
    assert best_rate(n_clients, size, floors) == math.inf


@pytest.mark.parametrize(("rounds", "switch"), [(400, 100), (2500, 625), (7, 1), (3, 0)])
def test_incremental_quota_switches_after_a_quarter(rounds, switch):
    floors = incremental_floors(100, 20, rounds)
    assert floors.tolist() == [0.0] * switch + [0.2] * (rounds - switch)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: constant_floors(10, 11, 5, 0.5), "between 1 and the number of clients, 10; got 11"),
        (lambda: constant_floors(10, 2.5, 5, 0.5), "size must be an integer; got 2.5"),
        (lambda: constant_floors("10", 2, 5, 0.5), "n_clients must be an integer of at least 1; got '10'"),
        (lambda: constant_floors(10, 2, 5, 1.5), "fraction must be finite and non-negative and at most 1; got 1.5"),
        (lambda: constant_floors(10, 2, 0, 0.5), "rounds must be an integer of at least 1; got 0"),
        (lambda: regret_bound(10, 2, []), "floors is empty; there must be at least one round"),
        (lambda: constant_floors(10, 2, 2**70, 0.5), r"rounds must be at most 10\^15; got a number of 22 digits"),
        (lambda: incremental_floors(10, 2, 2**70), r"rounds must be at most 10\^15; got a number of 22 digits"),
        (lambda: constant_floors(2**70, 2, 1, 0.5), "n_clients must be at most"),
        (lambda: regret_bound(10, 2, [0.3]), "floors must be non-negative and at most 0.2; round 0 has 0.3"),
        (lambda: regret_bound(10, 2, [0.1], rate=0.0), "rate must be finite and positive; got 0.0"),
        (lambda: reweighted([0.0, 0.0], [1.0], [], [0], 0.0, 0.5), "one entry per client, 2; got 1"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [], [1], 0.0, 0.5), "positive probability"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [], [2], 0.0, 0.5), "positive probability"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [], [0.5], 0.0, 0.5), "returned must hold ids of clients"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [2**70], [0], 0.0, 0.5), "overflow must hold ids of clients"),
        (
            lambda: reweighted([0.0, 0.0], [1.0, 0.0], [2], [0], 0.0, 0.5),
            "overflow must hold ids of clients, from 0 to 1",
        ),
        (lambda: reweighted([0.0, 0.0], [0.5, 0.5], [-1], [0], 0.0, 0.5), "overflow must hold ids of clients"),
        (lambda: reweighted([0.0, 0.0], [0.5, 0.5], [], [False, True], 0.0, 0.5), "returned must hold ids of clients"),
        (lambda: reweighted([0.0, 0.0], [1.5, -0.5], [], [0], 0.0, 0.5), "p must be non-negative; client 1 has -0.5"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [], None, 0.0, 0.5), "returned must"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [], [0], math.nan, 0.5), "floor must be finite"),
        (lambda: reweighted([0.0, 0.0], [1.0, 0.0], [], [0], 0.0, None), "rate must be finite"),
    ],
)
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        call()


def test_one_update_by_hand():
    """K = 4, k = 2, σ = 0.25, η = 0.5: q = 1, so a return at p adds 0.5 / (4p); the overflow set stays put."""
    logs = reweighted([0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.25, 0.25], overflow=[0], returned=[0, 2], floor=0.25, rate=0.5)
    np.testing.assert_allclose(logs - logs[1], [0, 0, 0.5, 0])
    assert logs.max() == 0


def test_successes_at_tiny_probabilities_never_overflow():
    """Raw weights would pass 1e308 within the first few rounds; log-weights stay finite and the allocation feasible."""
    rng = np.random.default_rng(0)
    logs = np.r_[np.zeros(20), np.full(80, -14.0)]
    grown = 0.0
    for _ in range(300):
        problem = CappingProblem(log_weights=logs, size=20)
        solution = solve(problem)
        assert problem.violation(solution.x) <= problem.tolerance
        rare = np.argsort(solution.x)[: rng.integers(1, 5)]
        updated = reweighted(logs, np.maximum(solution.x, 1e-6), solution.details["overflow"], rare, 0.0, 0.5)
        assert np.isfinite(updated).all()
        grown += float(np.ptp(updated))
        logs = np.maximum(updated, -1e4)
    assert grown > 1e5


def success_ratio(draw, fraction, seed, rounds=2500):
    rng = np.random.default_rng(seed)
    success = np.repeat([0.1, 0.3, 0.6, 0.9], 25)
    logs, returned = np.zeros(100), 0
    for floor in constant_floors(100, 20, rounds, fraction):
        solution = solve(CappingProblem(log_weights=logs, size=20, floor=floor))
        chosen = draw(solution.x, rng)
        back = chosen[rng.random(20) < success[chosen]]
        returned += back.size
        logs = reweighted(logs, solution.x, solution.details["overflow"], back, floor, 0.5)
    return returned / (20 * rounds)


@pytest.mark.thorough
def test_the_paper_setting_tells_exact_draws_from_successive_ones():
    """E3CS-0.5, η = 0.5: 0.6812 ± 0.0024 with exact draws, 0.6473 ± 0.0027 with torch.multinomial's (sd of a run)."""
    assert success_ratio(DRAWS["madow"], 0.5, seed=1) == pytest.approx(0.6812, abs=4 * 0.0024)
    assert success_ratio(DRAWS["successive"], 0.5, seed=2) == pytest.approx(0.6473, abs=4 * 0.0027)
    assert success_ratio(DRAWS["dep-round"], 0.8, seed=3) == pytest.approx(0.5536, abs=4 * 0.0025)
