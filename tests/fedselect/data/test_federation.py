"""What is no federation is refused where it is made, in a sentence; what is one is described in a line."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.data import Federation, Samples, digits
from fedselect.errors import DataError

GOOD = Samples(np.zeros((3, 2)), [0, 1, 1])
WIDE = Samples(np.zeros((3, 5)), [0, 1, 1])
NONE = Samples(np.zeros((0, 2)), [])


def with_value(value):
    features = np.zeros((3, 2))
    features[1, 0] = value
    return features


@pytest.mark.parametrize(
    ("features", "labels", "sentence"),
    [
        (with_value(np.nan), [0, 1, 1], "features must be finite numbers; sample 1 has nan"),
        (with_value(-np.inf), [0, 1, 1], "features must be finite numbers; sample 1 has -inf"),
        (with_value(1e300), [0, 1, 1], "features must be finite numbers; sample 1 has inf"),
        ([["a", "b"]], [0], "features must be an array of numbers"),
        ([[1.0], [1.0, 2.0]], [0, 1], "features must be an array of numbers"),
        (np.zeros(3), [0, 1, 1], r"shape \(n, ...\); got shape \(3,\)"),
        (np.zeros((3, 2)), [0, 0.5, 1], "labels must be whole numbers from 0; got 0.5"),
        (np.zeros((3, 2)), [0, np.nan, 1], "labels must be whole numbers from 0; got nan"),
        (np.zeros((3, 2)), [0, -1, 1], "labels must be whole numbers from 0; got -1"),
        (np.zeros((3, 2)), ["cat", "dog", "cat"], "labels must be whole numbers from 0; got"),
        (np.zeros((3, 2)), ["0", "1", "1"], "labels must be whole numbers from 0; got 0"),
        (np.zeros((3, 2)), [[0], [1], [1]], "3 samples need as many labels"),
    ],
)
def test_what_are_no_samples_is_refused(features, labels, sentence):
    with pytest.raises(DataError, match=sentence):
        Samples(features, labels)


def test_whole_numbers_stored_as_floats_are_labels():
    assert Samples(np.zeros((2, 1)), np.array([0.0, 2.0])).labels.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("datasets", "test", "more", "sentence"),
    [
        ((), GOOD, {}, "at least one client; got none"),
        ((GOOD, NONE), GOOD, {}, "client 1 has no sample"),
        ((GOOD, GOOD), NONE, {}, "the test set has no sample"),
        ((GOOD, WIDE), GOOD, {}, r"client 0's is \(2,\), and client 1's \(5,\)"),
        ((GOOD, GOOD), WIDE, {}, r"client 0's is \(2,\), and the test set's \(5,\)"),
        ((GOOD, GOOD), GOOD, {"validation": (GOOD, WIDE)}, r"and validation of client 1's \(5,\)"),
        ((GOOD, Samples(np.zeros((1, 2)), [2])), GOOD, {}, "lie between 0 and 1; client 1 has label 2"),
        (
            (GOOD, (np.zeros((1, 2)), [0])),
            GOOD,
            {},
            r"client 1 must be given as Samples\(features, labels\); got tuple",
        ),
        ((GOOD, GOOD), (np.zeros((1, 2)), [0]), {}, r"the test set must be given as Samples.*got tuple"),
        ((GOOD, GOOD), GOOD, {"classes": 2.5}, "classes must be a positive whole number, or None; got 2.5"),
        ((GOOD, GOOD), GOOD, {"classes": 0}, "classes must be a positive whole number, or None; got 0"),
        (
            (GOOD, GOOD),
            GOOD,
            {"classes": 2**32},
            "at most 1048576 classes, and a label 4294967295 would make",
        ),
    ],
)
def test_what_is_no_federation_is_refused(datasets, test, more, sentence):
    with pytest.raises(DataError, match=sentence):
        Federation("own", datasets, test, **{"classes": 2, **more})


def test_nobody_has_to_have_held_out_samples():
    assert len(Federation("own", [GOOD, GOOD], GOOD, 2, validation=[GOOD, NONE])) == 2


def test_a_federation_is_described_in_a_line():
    federation = digits(n_clients=30)
    said = repr(federation)
    assert len(said) < 200
    for fact in ("digits", "30 clients", f"{federation.sizes.sum()} samples of 64", "10 classes", "360 for testing"):
        assert fact in said
    assert len(repr(federation.test)) < 60
    assert "<th>clients</th><td>30</td>" in federation._repr_html_()
