"""Partitions cover what they should, and digits keep the test set apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedselect.data import PARTITIONS, Federation, Samples, digits
from fedselect.data.partitions import dirichlet, iid, two_label
from fedselect.errors import ConfigError, DataError


@st.composite
def labellings(draw):
    classes = draw(st.integers(2, 6))
    counts = draw(st.lists(st.integers(30, 60), min_size=classes, max_size=classes))
    labels = np.repeat(np.arange(classes), counts)
    return np.random.default_rng(draw(st.integers(0, 2**31))).permutation(labels)


@given(labellings(), st.integers(1, 20), st.integers(0, 2**31), st.sampled_from(["iid", "two-label", "dirichlet"]))
def test_every_sample_goes_to_exactly_one_client(labels, clients, seed, name):
    parts = PARTITIONS.build(name, labels, clients, np.random.default_rng(seed))
    assert len(parts) == clients
    assert all(part.size > 0 for part in parts)
    held = np.sort(np.concatenate(parts))
    if name != "two-label" or 2 * clients >= np.unique(labels).size:
        assert held.tolist() == list(range(labels.size))
    assert np.unique(held).size == held.size


@given(labellings(), st.integers(1, 20), st.integers(0, 2**31))
def test_two_label_clients_have_two_labels_with_balanced_owners(labels, clients, seed):
    parts = two_label(labels, clients, np.random.default_rng(seed))
    held = [np.unique(labels[part]) for part in parts]
    assert all(each.size == 2 for each in held)
    owners = np.bincount(np.concatenate(held), minlength=np.unique(labels).size)
    assert owners.max() - owners.min() <= 1
    for label in np.flatnonzero(owners):
        sizes = [int((labels[part] == label).sum()) for part in parts if (labels[part] == label).any()]
        assert max(sizes) - min(sizes) <= 1


def test_concentration_moves_the_mix_from_one_label_to_all():
    labels = np.repeat(np.arange(10), 400)
    spread = {}
    for concentration in (0.05, 1.0, 1000.0):
        parts = dirichlet(labels, 20, np.random.default_rng(0), concentration=concentration)
        mixes = np.array([np.bincount(labels[part], minlength=10) / part.size for part in parts])
        spread[concentration] = float((mixes**2).sum(axis=1).mean())  # 1: one label each; 0.1: all alike
    assert spread[0.05] > 0.7 > 0.5 > spread[1.0] > 0.15 > spread[1000.0]


def test_tiny_concentration_leaves_nobody_empty():
    parts = dirichlet(np.repeat(np.arange(3), 20), 30, np.random.default_rng(0), concentration=1e-4)
    assert min(part.size for part in parts) == 1
    assert sum(part.size for part in parts) == 60


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda rng: iid(np.zeros(3, int), 4, rng), "between 1 and the number of samples, 3; got 4"),
        (lambda rng: two_label(np.zeros(3, int), 2, rng), "labels_per_client must lie between 1 and 1; got 2"),
        (lambda rng: two_label(np.array([0, 0, 0, 1]), 3, rng), "label 1 has 1 samples for 3 clients"),
        (lambda rng: dirichlet(np.zeros(3, int), 2, rng, concentration=0), "concentration must be positive; got 0"),
    ],
)
def test_impossible_splits_are_sentences(call, sentence):
    with pytest.raises(DataError, match=sentence):
        call(np.random.default_rng(0))


def test_digits_keep_the_test_set_from_every_client():
    from sklearn.datasets import load_digits

    federation = digits(clients=50)
    held = np.concatenate([samples.features for samples in federation.clients] + [federation.test.features])
    whole = (load_digits().data / 16).astype(np.float32)
    assert held.shape == whole.shape == (1797, 64)
    assert np.array_equal(np.unique(held, axis=0), np.unique(whole, axis=0))
    assert len(federation.test) == 360
    assert np.bincount(federation.test.labels).min() >= 34  # stratified: 10 classes of about 36


def test_digits_split_depends_on_its_seed_alone():
    first, again, other = digits(clients=20), digits(clients=20), digits(clients=20, seed=1)
    assert all(np.array_equal(a.features, b.features) for a, b in zip(first.clients, again.clients, strict=True))
    assert not np.array_equal(first.test.features, other.test.features)


def test_label_distributions_are_shares():
    federation = digits(clients=20, partition="dirichlet", concentration=0.3)
    assert federation.label_distributions.shape == (20, 10)
    assert np.allclose(federation.label_distributions.sum(axis=1), 1)
    assert federation.sizes.sum() == 1797 - 360


def test_unknown_partition_options_are_refused():
    with pytest.raises(ConfigError, match="partition 'iid' has no option 'concentration'"):
        digits(partition="iid", concentration=1.0)


def test_samples_and_federations_check_themselves():
    good = Samples(np.zeros((2, 3)), [0, 1])
    with pytest.raises(DataError, match="2 samples need as many labels"):
        Samples(np.zeros((2, 3)), [0])
    with pytest.raises(DataError, match="client 1 has no sample"):
        Federation("x", (good, Samples(np.zeros((0, 3)), [])), good, 2)
