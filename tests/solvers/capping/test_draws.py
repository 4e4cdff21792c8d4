"""Draws with given inclusion probabilities: sizes, marginals by Monte Carlo, and the wrong ones by enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidProblem, solve
from solvers.capping import DRAWS, CappingProblem, successive, successive_inclusion
from tests.thoroughly import few_of, tried

ROWS = [
    ([1, 0.6, 0.4], [0.83929, 0.67500, 0.48571]),
    ([0.9, 0.6, 0.5], [0.79286, 0.64545, 0.56169]),
    ([1, 1, 0.5, 0.5], [0.86667, 0.86667, 0.63333, 0.63333]),
    ([0.9, 0.7, 0.3, 0.1], [0.79540, 0.71655, 0.36139, 0.12666]),
    ([0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]),
]

#: Draws of a marginal: some in every run, more in the thorough part.
RUNS = few_of([2_500, 10_000], 1)

#: |frequency − p| ≤ Z·sqrt(p(1 − p)/runs): with Z = 5 a right marginal fails with probability below 6e-7, all 80 or so
#: here together below 5e-5; the seeds are fixed besides.
Z = 5.0


def assert_marginals(draw, p, rng, runs, wanted):
    counts, wanted = np.zeros(len(p)), np.asarray(wanted, dtype=float)
    for _ in range(runs):
        counts[draw(p, rng)] += 1
    off = np.abs(counts / runs - wanted)
    assert (off <= Z * np.sqrt(wanted * (1 - wanted) / runs) + 1e-5).all(), (counts / runs, wanted)


@pytest.mark.parametrize("name", ["madow", "dep-round"])
@pytest.mark.parametrize("p", [row[0] for row in ROWS])
@pytest.mark.parametrize("runs", RUNS)
def test_exact_marginals(name, p, runs):
    """Also the detector of the swapped DepRound, which turns (.9, .6, .5) into (.60, .90, .50)."""
    assert_marginals(DRAWS[name], p, np.random.default_rng(11), runs, p)


@pytest.mark.parametrize("name", ["madow", "dep-round"])
@pytest.mark.parametrize("runs", RUNS)
def test_exact_marginals_of_an_allocation(name, runs):
    rng = np.random.default_rng(4)
    p = solve(CappingProblem(log_weights=rng.normal(0, 2, 15), size=6, floor=0.05)).x
    assert p.max() == 1
    assert_marginals(DRAWS[name], p, rng, runs, p)


@pytest.mark.parametrize(("p", "inclusion"), ROWS)
@pytest.mark.parametrize("runs", RUNS)
def test_successive_sampling_has_other_marginals(p, inclusion, runs):
    np.testing.assert_allclose(successive_inclusion(p), inclusion, atol=5e-6)
    assert_marginals(successive, p, np.random.default_rng(7), runs, successive_inclusion(p))


def test_the_enumeration_against_all_orders():
    p, k = np.array([0.8, 0.7, 0.6, 0.5, 0.4]), 3
    inclusion = np.zeros(5)
    for order in itertools.permutations(range(5), k):
        chance, left = 1.0, p.sum()
        for i in order:
            chance *= p[i] / left
            left -= p[i]
        inclusion[list(order)] += chance
    np.testing.assert_allclose(successive_inclusion(p), inclusion, rtol=1e-12)


@tried(
    40,
    200,
    logs=st.lists(st.floats(-50, 50), min_size=1, max_size=40),
    part=st.floats(0, 1),
    quota=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_every_draw_has_the_right_size(logs, part, quota, seed):
    n = len(logs)
    k = 1 + round(part * (n - 1))
    p = solve(CappingProblem(log_weights=logs, size=k, floor=quota * k / n)).x
    for name, draw in DRAWS.items():
        if name == "successive" and (p > 0).sum() < k:
            continue
        chosen = draw(p, np.random.default_rng(seed))
        assert chosen.size == k
        assert (np.diff(chosen) > 0).all()
        assert 0 <= chosen[0] <= chosen[-1] < n
        if name != "successive":
            assert set(np.flatnonzero(p == 1)) <= set(chosen.tolist())


@pytest.mark.parametrize("name", list(DRAWS))
def test_the_generator_alone_decides(name):
    p = np.full(50, 0.2)
    first, second = (DRAWS[name](p, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # the legacy generator must stay untouched
    DRAWS[name](p, np.random.default_rng(6))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("runs", RUNS)
def test_negative_correlation_of_dependent_rounding(runs):
    """P(i and j) ≤ p_i p_j for every pair; by Monte Carlo with Z standard errors."""
    p = np.array([0.7, 0.5, 0.4, 0.3, 0.6, 0.5])
    rng = np.random.default_rng(8)
    together = np.zeros((6, 6))
    for _ in range(runs):
        chosen = DRAWS["dep-round"](p, rng)
        together[np.ix_(chosen, chosen)] += 1
    limit = np.outer(p, p)
    excess = together / runs - limit - Z * np.sqrt(limit * (1 - limit) / runs)
    np.fill_diagonal(excess, -1)
    assert excess.max() <= 0


@pytest.mark.parametrize("name", list(DRAWS))
def test_all_or_nothing(name):
    rng = np.random.default_rng(0)
    assert DRAWS[name]([1.0, 1.0, 1.0], rng).tolist() == [0, 1, 2]
    if name != "successive":
        assert DRAWS[name]([0.0, 1.0, 0.0, 1.0], rng).tolist() == [1, 3]
        assert DRAWS[name]([0.0, 0.0], rng).tolist() == []


@pytest.mark.parametrize(
    ("p", "sentence"),
    [
        ([0.5, 0.6], "whole number of clients to draw; got 1.1"),
        ([1.5, 0.5], "between 0 and 1; it ranges from 0.5 to 1.5"),
        ([-0.5, 0.5, 1.0], "ranges from -0.5"),
        ([np.nan, 1.0], "finite"),
        ([], "at least one client"),
        ([[1.0]], "1 dimension"),
    ],
)
def test_bad_probabilities_are_a_sentence(p, sentence):
    for draw in DRAWS.values():
        with pytest.raises(InvalidProblem, match=sentence):
            draw(p, np.random.default_rng(0))


def test_enumeration_has_a_limit():
    with pytest.raises(InvalidProblem, match="at most 20 clients; got 21"):
        successive_inclusion(np.full(21, 1 / 3))


@pytest.mark.parametrize("name", list(DRAWS))
def test_every_pair_can_be_drawn(name):
    """Without its random order, systematic sampling would never draw neighbours with p_i + p_j ≤ 1 together."""
    rng = np.random.default_rng(0)
    pairs = {tuple(DRAWS[name]([0.5, 0.5, 0.5, 0.5], rng).tolist()) for _ in range(500)}
    assert pairs == set(itertools.combinations(range(4), 2))
