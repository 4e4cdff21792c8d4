"""A federation from one's own data: the same bits as the built-in one, and a sentence for what cannot be used."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.data import DATASETS, Federation, load_data
from fedselect.data.samples import Samples, Targets, count_classes
from fedselect.errors import ConfigError, DataError
from fedselect.experiments import Choice, Experiment, build_scenario

torch = pytest.importorskip("torch")


class MapStyle:
    """A data set as PyTorch's documentation writes one."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, place):
        return torch.from_numpy(self.samples.features[place]), int(self.samples.labels[place])


class _Unreadable:
    def __len__(self):
        return 1

    def __getitem__(self, place):
        raise FileNotFoundError(f"{place}.png")


@pytest.fixture(scope="module")
def digits():
    return load_data("digits", n_clients=6, validation_fraction=0.1)


def _tensors(samples):
    return torch.from_numpy(samples.features), torch.from_numpy(samples.labels)


def _same(found, wanted):
    assert found.classes == wanted.classes
    for mine, theirs in zip(
        (*found.datasets, found.test, *found.validation),
        (*wanted.datasets, wanted.test, *wanted.validation),
        strict=True,
    ):
        assert mine.features.dtype == np.float32
        assert mine.labels.dtype == theirs.labels.dtype
        np.testing.assert_array_equal(mine.features, theirs.features)
        np.testing.assert_array_equal(mine.labels, theirs.labels)


def test_each_constructor_gives_the_bits_of_the_built_in_one(digits):
    from sklearn.datasets import load_digits
    from torch.utils.data import TensorDataset

    parts, test, held = digits.datasets, digits.test, digits.validation
    tensors = [[_tensors(each) for each in group] for group in (parts, [test], held)]
    _same(Federation.from_tensors(tensors[0], tensors[1][0], validation=tensors[2]), digits)
    arrays = [[(each.features, each.labels) for each in group] for group in (parts, held)]
    _same(Federation.from_tensors(arrays[0], (test.features, test.labels), validation=arrays[1]), digits)
    for kind in (lambda samples: TensorDataset(*_tensors(samples)), MapStyle):
        sets = [[kind(each) for each in group] for group in (parts, held)]
        _same(Federation.from_datasets(sets[0], kind(test), validation=sets[1]), digits)
    bunch = load_digits()
    pair = bunch.data.astype(np.float32) / 16, bunch.target
    _same(Federation.from_split(pair, "two-label", 6, validation_fraction=0.1), digits)
    whole = TensorDataset(torch.from_numpy(pair[0]), torch.from_numpy(pair[1]))
    _same(Federation.from_split(whole, "two-label", n_clients=6, validation_fraction=0.1), digits)


def test_a_given_test_set_leaves_all_samples_to_the_clients(digits):
    pair = digits.datasets[0].features, digits.datasets[0].labels
    test = digits.test.features, digits.test.labels
    split = Federation.from_split(pair, "iid", 3, test=test, classes=10, name="mine")
    assert split.sizes.sum() == len(digits.datasets[0])
    assert len(split.test) == len(digits.test)
    assert split.name == "mine"


@pytest.mark.parametrize("classes", [None, 2**33])
@pytest.mark.parametrize("label", [4 * 10**9, 2**20])
def test_a_label_that_is_no_class_makes_no_classes(label, classes):
    """An id or a time as label is told before anything is as long as the classes."""
    pair = np.zeros((12, 2)), np.array([0, 1, label] * 4)
    doors = (
        lambda: Federation.from_tensors([pair], pair, classes=classes),
        lambda: Federation.from_datasets([pair], pair, classes=classes),
        lambda: Federation.from_split(pair, "dirichlet", 2, classes=classes),
    )
    for door in doors:
        with pytest.raises(DataError, match="there are at most 1048576 classes, and a label"):
            door()


def test_data_without_a_sample_has_one_class():
    nothing = (np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
    assert count_classes([nothing, nothing], None) == count_classes([], None) == 1


def test_real_labels_are_targets():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    split = Federation.from_split((x, y), "iid", n_clients=4)
    assert split.classes is None
    assert split.outputs == 1
    assert split.test.labels.dtype == np.float32
    assert split.sizes.tolist() == [8, 8, 8, 8]
    two = Federation.from_tensors([(x, np.stack([y, -y], axis=1))], (x, np.stack([y, y], axis=1)))
    assert two.outputs == 2
    assert list(split.summary().columns) == ["samples", "validation", "mean", "std"]
    assert split.plot().get_axes()[1].get_ylabel() == "targets, mean ± std"
    with pytest.raises(DataError, match="labels of 'own' are real numbers"):
        _ = split.label_counts
    with pytest.raises(ConfigError, match="'two-label' splits by class, and these labels are real numbers: take 'iid'"):
        Federation.from_split((x, y), n_clients=4)


def test_who_has_what_in_a_table_and_a_picture(digits):
    table = digits.summary()
    counts = digits.label_counts
    assert table["samples"].tolist() == digits.sizes.tolist()
    assert table["labels"].tolist() == (counts > 0).sum(axis=1).tolist()
    assert table["commonest"].tolist() == counts.argmax(axis=1).tolist()
    above, below = digits.plot().get_axes()
    bars = [patch.get_data() for patch in above.patches]
    np.testing.assert_array_equal([top - bottom for top, _, bottom in bars], counts.T)  # each on the one before
    np.testing.assert_array_equal(bars[-1][0], digits.sizes)
    assert below.patches[-1].get_data()[0] == pytest.approx(np.ones(len(digits)))


X, Y = np.zeros((4, 2)), np.array([0, 1, 0, 1])


class Stream:
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Federation.from_tensors(torch.zeros(4, 2), Y), "got Tensor of shape .4, 2. .to split one data set"),
        (lambda: Federation.from_tensors([(X, Y)], X), r"the test set must be a pair .*got ndarray of shape \(4, 2\)"),
        (lambda: Federation.from_tensors([(X, Y[:3])], (X, Y)), "client 0: 4 samples need as many labels"),
        (lambda: Federation.from_tensors([(X, Y), (X, ["a", "b", "a", "b"])], (X, Y)), "client 1: labels must be num"),
        (lambda: Federation.from_tensors([(X, Y)], (X, Y / 2)), "for all alike; got both"),
        (
            lambda: Federation.from_tensors([(X, np.array([0, 1, np.nan, 1]))], (X, Y * 1.0)),
            "client 0: targets must be",
        ),
        (lambda: Federation.from_tensors([], (X, Y)), "needs at least one client"),
        (lambda: Federation.from_datasets([Stream()], MapStyle([])), "client 0 must be a data set with len.d. and"),
        (lambda: Federation.from_datasets((X, Y), (X, Y)), "client 0 must be a data set with len"),
        (lambda: Federation.from_datasets(MapStyle([]), (X, Y)), "must be a list of data sets, one a client; got Map"),
        (lambda: Federation.from_datasets([[(X[0], 1, 2)]], (X, Y)), "client 0 must be a pair"),
        (lambda: Federation.from_split((X, Y), "two-labels", 2), "did you mean 'two-label'"),
        (lambda: Federation.from_split((X, Y), "iid", 2, test_fraction=2.0), "test_fraction 2.0 does not split 4"),
        (lambda: Federation.from_split((X, Y), "iid", 2, test_fraction=2), "test_fraction 2 does not split 4"),
        (lambda: Federation.from_split((X, Y), "iid", 2, test_fraction=None), "test_fraction None does not split 4"),
        (
            lambda: Federation.from_split((X, Y), "iid", 2, test=(X, Y), validation_fraction=None),
            "validation_fraction must lie in",
        ),
        (
            lambda: Federation.from_split((X, Y), "iid", "two", test=(X, Y)),
            "there must be at least 1 client; got 'two'",
        ),
        (lambda: Federation.from_split((X, Y), "iid", 1.5, test=(X, Y)), "there must be at least 1 client; got 1.5"),
        (
            lambda: Federation.from_split((X, Y), "dirichlet", 2, test_fraction=0.5, concentration=np.inf),
            "concentration must be positive; got inf",
        ),
        (lambda: Federation.from_split((X, Y), "iid", 2, seed=np.ones(2)), "seed must be a non-negative integer"),
        (
            lambda: Federation.from_split((X, Y), "iid", 2, classes=np.ones(2)),
            "classes must be a positive whole number",
        ),
        (lambda: Samples(X, [0, 1, 2**70, 1]), "labels must be whole numbers from 0"),
        (lambda: Samples([[10**400]], [0]), "features must be an array of numbers"),
        (lambda: Federation("own", (Targets(X, Y * 1.0),), None, None), "the test set must be given as Targets"),
        (lambda: Federation.from_split((X, Y), "iid", 2, seed=-1), "seed must be a non-negative integer; got -1"),
        (lambda: Federation.from_split((X, Y), [[0, 1], [2, 3]]), "a partition is named by a text"),
        (
            lambda: Federation.from_datasets([_Unreadable()], (X, Y)),
            "client 0: sample 0 cannot be read: FileNotFoundError: 0.png",
        ),
        (lambda: Federation.from_tensors([(X, Y)], (Y[:, None], X[:, 0])), "mind the order"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(build, message):
    with pytest.raises((DataError, ConfigError), match=message):
        build()


@pytest.mark.parametrize("partition", ["dirichlet", "dirichlet-prior", "dirichlet-per-class", "dirichlet-unequal"])
def test_a_concentration_may_be_a_large_integer(partition):
    split = Federation.from_split((X, Y), partition, 2, test_fraction=0.5, concentration=2**70)
    assert split.sizes.tolist() == [1, 1]


def test_a_round_may_not_choose_more_clients_than_a_data_set_turns_out_to_have(restoring):
    """A custom data set need not have an option ``n_clients``: then its clients are counted when they are there."""
    restoring(DATASETS)

    @DATASETS.register("pair")
    def pair():
        """Two clients."""
        samples = np.zeros((4, 1), dtype=np.float32), np.array([0, 1, 0, 1])
        return Federation.from_tensors([samples, samples], samples, classes=2, name="pair")

    assert len(build_scenario(Experiment(clients_per_round=2, data=Choice("pair"))).data) == 2
    with pytest.raises(ConfigError, match="clients_per_round is 3, but there are only 2 clients"):
        build_scenario(Experiment(clients_per_round=3, data=Choice("pair")))


def test_clients_hold_out_tests_of_their_own(digits):
    tested = load_data("digits", n_clients=6, validation_fraction=0.1, client_test_fraction=0.25)
    assert [len(each) for each in tested.client_tests] == [int(0.25 * len(each)) for each in digits.datasets]
    for kept, held, whole in zip(tested.datasets, tested.client_tests, digits.datasets, strict=True):
        both = np.concatenate([kept.features, held.features])
        np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(whole.features, axis=0))
    assert "for tests of clients" in repr(tested)
    tiny = Federation.from_tensors([([[0.0]], [0]), ([[1.0]] * 8, [1] * 8)], ([[0.5]], [0])).with_client_tests(0.5)
    assert [len(each) for each in tiny.client_tests] == [0, 4]
    for wrong in (1.0, "much"):
        with pytest.raises(DataError, match=r"client_test_fraction must lie in \[0, 1\); got"):
            load_data("digits", n_clients=6, client_test_fraction=wrong)
