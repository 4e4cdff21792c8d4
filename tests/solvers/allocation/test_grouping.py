"""Grouping clients by label distribution: scores by hand and by scikit-learn, and the groups that come out."""

import numpy as np
import pytest

from solvers import InvalidProblem
from solvers.allocation import group_clients, silhouette


def one_label(*sizes):
    return np.repeat(np.eye(len(sizes)), sizes, axis=0)


@pytest.mark.parametrize(
    ("sizes", "labels", "score"),
    [
        ((2, 2, 1), [0, 0, 1, 1, 2], 0.8),
        ((2, 2, 1), [0, 0, 1, 1, 1], 0.6),
        ((2, 1, 1), [0, 0, 1, 2], 0.5),
        ((2, 1, 1), [0, 0, 1, 1], 0.5),
        ((4, 4), [0, 0, 1, 1, 2, 2, 2, 2], 0.5),
        ((3, 3), [0, 0, 0, 1, 1, 1], 1.0),
        ((3, 3), [0, 0, 0, 0, 0, 0], 0.0),
        ((3, 3), [0, 1, 2, 3, 4, 5], 0.0),
        ((6,), [0, 0, 0, 1, 1, 1], 0.0),
    ],
)
def test_scores_by_hand(sizes, labels, score):
    assert silhouette(one_label(*sizes), labels) == pytest.approx(score, abs=1e-14)


def test_the_score_is_scikit_learns():
    from sklearn.metrics import silhouette_score

    rng = np.random.default_rng(0)
    for _ in range(100):
        points, groups = rng.dirichlet(np.ones(4), 12), int(rng.integers(2, 11))
        labels = np.r_[np.arange(groups), rng.integers(0, groups, 12 - groups)]
        assert silhouette(points, labels) == pytest.approx(silhouette_score(points, labels), abs=1e-12)


def test_clients_of_one_label_each_are_found_and_ties_go_to_the_fewest_groups():
    found = group_clients(one_label(*[6] * 5), largest=9)
    assert found.sizes.tolist() == [6] * 5
    assert found.score == pytest.approx(1.0)
    np.testing.assert_array_equal(found.labels, np.repeat(np.arange(5), 6))
    assert max(found.scores, key=found.scores.get) == 5


def test_scores_of_ten_equal_groups_by_number():
    """K = 5, 8, 9, 10 on ten groups of one label each: .49, .79, .895, 1."""
    scores = group_clients(one_label(*[10] * 10), largest=12, restarts=3).scores
    for number, score in ((5, 0.49), (8, 0.79), (9, 0.895), (10, 1.0)):
        assert scores[number] == pytest.approx(score, abs=6e-3)


def test_never_more_groups_than_can_be_sampled():
    found = group_clients(one_label(*[4] * 6), largest=3)
    assert found.sizes.size == 3
    assert set(found.scores) == {1, 2, 3}
    assert group_clients(one_label(4, 4), largest=1).sizes.tolist() == [8]


def test_noisy_clusters_are_recovered_and_counts_are_normalised():
    rng = np.random.default_rng(1)
    centres = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4]])
    truth = np.tile(np.arange(3), 12)
    counts = np.array([rng.multinomial(rng.integers(300, 900), centres[k]) for k in truth])
    found = group_clients(counts, largest=8)
    np.testing.assert_array_equal(found.labels, truth)  # numbered by first appearance
    again = group_clients(counts, largest=8)
    np.testing.assert_array_equal(again.labels, found.labels)
    assert again.scores == found.scores


def test_clients_all_alike_are_one_group():
    found = group_clients(np.ones((6, 3)), largest=4)
    assert found.sizes.tolist() == [6]
    assert found.score == 0
    assert group_clients([[1, 2]], largest=4).sizes.tolist() == [1]


def test_many_clients_are_grouped_by_a_sample_of_them():
    """Clusters are found whole from fifty of 600 clients, numbers beyond twenty go up by a tenth."""
    rng = np.random.default_rng(3)
    truth = rng.integers(5, size=600)
    counts = np.array([rng.multinomial(400, 0.02 + 0.9 * np.eye(5)[k]) for k in truth])
    found = group_clients(counts, largest=24, restarts=2, sample=50)
    _, first = np.unique(truth, return_index=True)
    np.testing.assert_array_equal(found.labels, np.argsort(np.argsort(first))[truth])
    assert found.scores[5] == found.score > 0.8
    assert not set(found.scores) & {21, 23}
    assert group_clients(counts, largest=24, restarts=2, sample=50).scores == found.scores
    assert group_clients(np.ones((8, 3)), largest=4, sample=4).sizes.tolist() == [8]


def test_the_seed_alone_decides():
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # the legacy generator must stay untouched
    group_clients(np.random.default_rng(0).dirichlet(np.ones(5), 20), largest=4, restarts=2)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize(
    ("distributions", "options", "sentence"),
    [
        ([[1, -1]], {"largest": 2}, "non-negative rows"),
        ([[0, 0], [1, 0]], {"largest": 2}, "positive sum"),
        (np.zeros((0, 3)), {"largest": 2}, "one for each client"),
        ([1, 2], {"largest": 2}, "2 dimension"),
        ([[1, np.nan]], {"largest": 2}, "finite"),
        ([[1, 0]], {"largest": 0}, "largest must be an integer of at least 1; got 0"),
        ([[1, 0]], {"largest": 1, "sample": 1}, "sample must be an integer of at least 2; got 1"),
        ([[1, 0]], {"largest": 1, "covariance": "round"}, "covariance must be 'diag' or .*; got 'round'"),
        ([[1, 0]], {"largest": 1, "regularisation": -1}, "regularisation must be finite and non-negative; got -1"),
        (
            [[1, 0]],
            {"largest": 1, "seed": 0.5},
            "seed must be an integer of at least 0 and at most 4294967295; got 0.5",
        ),
        ([[1, 0]], {"largest": 1, "restarts": 0}, "restarts must be an integer of at least 1; got 0"),
    ],
)
def test_bad_input_is_a_sentence(distributions, options, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        group_clients(distributions, **options)


def test_variances_of_nothing_are_refused():
    with pytest.raises(InvalidProblem, match=r"no mixture of 2 can be fitted with regularisation 0: .*ill-defined"):
        group_clients([[1, 0]] * 5 + [[0, 1]] * 5, 3, regularisation=0.0)


def test_labels_must_match_points():
    with pytest.raises(InvalidProblem, match="one entry per point, 2; got 3"):
        silhouette([[1, 0], [0, 1]], [0, 1, 1])
