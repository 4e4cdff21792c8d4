"""Similarities against their formulas, and the sentences bad features get."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from graphs import FeatureError, GraphWarning, SimilarityError, min_max, similarity
from tests.thoroughly import tried

vectors = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 5)),
    elements=st.floats(-1e3, 1e3).map(lambda x: 0.0 if abs(x) < 1e-3 else x),
)


def test_values_by_hand():
    U = [[3, 4], [4, 3], [-3, -4], [4, -3]]
    assert similarity(U, "dot").tolist() == [
        [25, 24, -25, 0],
        [24, 25, -24, 7],
        [-25, -24, 25, 0],
        [0, 7, 0, 25],
    ]
    expected = np.array([[1, 0.96, -1, 0], [0.96, 1, -0.96, 0.28], [-1, -0.96, 1, 0], [0, 0.28, 0, 1]])
    np.testing.assert_allclose(similarity(U), expected, atol=1e-15)
    for kind in ("update", "functional"):  # Eq. 11 and 12 set negatives to 0
        np.testing.assert_allclose(similarity(U, kind), np.maximum(expected, 0), atol=1e-15)


def test_the_authors_variant_of_update_similarity_keeps_negatives():
    U = [[1.0, 0.0], [-1.0, 1.0]]
    assert similarity(U, "update")[0, 1] == 0
    assert similarity(U, "update", clip="none")[0, 1] == pytest.approx(-np.sqrt(0.5))


@given(vectors)
@settings(deadline=None)
@pytest.mark.filterwarnings("ignore::graphs.GraphWarning")
def test_cosine_is_symmetric_bounded_and_blind_to_scale(U):
    V = similarity(U)
    assert (V == V.T).all()
    assert (np.abs(V) <= 1).all()
    factors = np.linspace(0.5, 9.0, len(U))[:, None]
    np.testing.assert_allclose(similarity(U * factors), V, atol=1e-12)
    # The factors' largest spread float64 can square nowhere near.
    np.testing.assert_allclose(similarity(U * 1e250), V, atol=1e-12)
    np.testing.assert_allclose(similarity(U * 1e-250), V, atol=1e-12)


@tried(25, 100, vectors)
def test_min_max_includes_the_zero_diagonal(U):
    S = similarity(U, "dot")
    off = S[~np.eye(len(S), dtype=bool)]
    low, high = min([0, *off]), max([0, *off])
    assume(high > low)
    V = min_max(S)
    np.testing.assert_allclose(V[~np.eye(len(S), dtype=bool)], (off - low) / (high - low), atol=1e-12)


@tried(25, 100, vectors)
def test_min_max_twice_changes_nothing(U):
    S = similarity(U, "dot")
    assume((S[~np.eye(len(S), dtype=bool)] > 0).any())
    V = min_max(S)
    assert (min_max(V) == V).all()


def test_min_max_of_nothing_alike_is_zero():
    assert min_max(np.eye(4)).tolist() == np.eye(4).tolist()


def test_wide_single_precision_updates_are_summed_in_double():
    rng = np.random.default_rng(0)
    U = rng.normal(size=(3, 100_000)).astype(np.float32)
    exact = similarity(U.astype(np.float64))
    assert similarity(U).dtype == np.float64
    np.testing.assert_allclose(similarity(U), exact, atol=1e-14)


def test_matrices_per_client_are_flattened():
    rng = np.random.default_rng(0)
    models = [rng.normal(size=(4, 3)) for _ in range(5)]
    np.testing.assert_array_equal(similarity(models), similarity([m.ravel() for m in models]))


def test_a_zero_vector_is_like_nobody_and_says_so():
    with pytest.warns(GraphWarning, match=r"1 client\(s\) have an all-zero feature vector \(first: 1\)"):
        V = similarity([[1.0, 2.0], [0.0, 0.0], [2.0, 1.0]])
    np.testing.assert_allclose(V, [[1, 0, 0.8], [0, 1, 0], [0.8, 0, 1]], atol=1e-15)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1, 2], [1, 2, 3]], r"of one length; got shapes \(2,\), \(3,\)"),
        ([[[1], [1, 2]], [[1], [2]]], r"of one length; got shapes \(2, 1\), of rows of different lengths"),
        ([1.0, 2.0], r"shape \(2,\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        ([[1.0, np.nan], [1.0, 2.0]], "features must be finite; got nan of client 0"),
        ([[1.0, 2.0], [1.0, np.inf]], "features must be finite; got inf of client 1"),
        ([["a", "b"]], "features must be real numbers; got"),
        ([[1j, 2]], "features must be real numbers; got"),
    ],
)
def test_bad_features_get_a_sentence(features, message):
    with pytest.raises(FeatureError, match=message):
        similarity(features)


def test_unknown_options_name_the_accepted_ones():
    with pytest.raises(SimilarityError, match="kind must be 'cosine', 'dot', 'update' or 'functional'; got 'cos'"):
        similarity([[1, 2]], "cos")
    with pytest.raises(SimilarityError, match="clip must be 'none' or 'zero'; got 'negative'"):
        similarity([[1, 2]], clip="negative")


def test_options_may_be_numpys_texts():
    assert similarity([[1, 2]], np.str_("dot"), clip=np.array(["zero"])[0]).tolist() == [[5]]


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="long doubles are doubles here")
def test_features_beyond_doubles_are_refused():
    features = np.array([[np.longdouble("1e400"), 1], [1, 2]])
    with pytest.raises(FeatureError, match="features must be finite; got inf of client 0"):
        similarity(features)
    assert similarity(np.eye(2, dtype=np.longdouble)).tolist() == np.eye(2).tolist()


def test_a_range_beyond_doubles_is_refused():
    far = [[0, 1.7e308, 0], [1.7e308, 0, -1.7e308], [0, -1.7e308, 0]]
    with pytest.raises(SimilarityError, match="scale them down"):
        min_max(far)


def test_overflowing_dot_products_are_refused():
    with pytest.raises(SimilarityError, match="overflow"):
        similarity([[1e200, 0], [1e200, 1]], "dot")
