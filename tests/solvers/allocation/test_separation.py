"""FedSS's Proposition 2 with a threshold that one can compute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solvers import InvalidProblem
from solvers.allocation import dissimilarity, proportional_advantage, separation_threshold


def test_by_hand():
    """Group means 1 and 5, H² of 2 and 0 within; over all: mean 3, squares 9 + 1 + 4 + 4 = 18, divisor 3."""
    found = dissimilarity([[0.0], [2.0], [5.0], [5.0]], [0, 0, 1, 1])
    assert found.within.tolist() == [2, 0]
    assert found.overall == 6
    assert found.separation == 4
    assert found.advantage == 5  # 6 − (2·2 + 2·0)/4
    assert separation_threshold([2, 2], [2, 0]) == pytest.approx(1.0)  # 4 · (1/2) · 2 / 4


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.floats(0.01, 3))
def test_farther_apart_than_the_threshold_stratifying_pays(seed, groups, scale):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, groups)
    labels = np.repeat(np.arange(groups), sizes)
    within, centres = rng.normal(size=(labels.size, 3)), rng.normal(size=(groups, 3))
    within -= np.array([within[labels == k].mean(axis=0) for k in range(groups)])[labels]
    # Centres so far apart that any two vectors of different groups are farther apart than the threshold.
    threshold = separation_threshold(sizes, dissimilarity(within, labels).within)
    apart = dissimilarity(centres, np.arange(groups)).separation
    assume(apart > 1e-6)
    assume(threshold > 0)  # groups of one client each have nothing within them to be farther apart than
    needed = threshold + 2 * np.linalg.norm(within, axis=1).max()
    found = dissimilarity(within + (needed * (1 + scale) / apart) * centres[labels], labels)
    assert found.separation > separation_threshold(found.sizes, found.within)
    assert found.advantage > 0


@given(st.integers(0, 2**32 - 1))
def test_for_two_groups_the_threshold_is_sharp(seed):
    """The advantage is 0 where the means are exactly χ apart, and negative where they are closer."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], rng.integers(2, 9, 2))
    vectors = rng.normal(size=(labels.size, 4))
    for k in (0, 1):
        vectors[labels == k] -= vectors[labels == k].mean(axis=0)
    chi = separation_threshold(np.bincount(labels), dissimilarity(vectors, labels).within)
    direction = rng.normal(size=4)
    direction /= np.linalg.norm(direction)
    for factor, sign in ((1.0, 0), (0.9, -1), (1.1, 1)):
        moved = vectors + np.outer(labels, factor * chi * direction)
        advantage = dissimilarity(moved, labels).advantage
        assert abs(advantage) < 1e-9 if sign == 0 else np.sign(advantage) == sign


def test_it_is_the_sign_of_corollary_1():
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(3), [4, 5, 6])
    for apart in (0.0, 3.0):
        found = dissimilarity(rng.normal(size=(15, 6)) + apart * np.eye(3, 6)[labels], labels)
        advantage = proportional_advantage(
            found.sizes, np.sqrt(found.within), np.sqrt(found.overall), 6, 1.0, 0.1, 1, 5, 100
        )
        assert np.sign(advantage) == np.sign(found.advantage)


def test_what_is_wrong_is_said():
    with pytest.raises(InvalidProblem, match="group 1 has no client"):
        dissimilarity(np.ones((2, 1)), [0, 2])
    with pytest.raises(InvalidProblem, match="two groups or more"):
        separation_threshold([3], [1.0])
    with pytest.raises(InvalidProblem, match="within must be non-negative; group 1 has -1"):
        separation_threshold([3, 2], [1.0, -1.0])
