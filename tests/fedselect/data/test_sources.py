"""LEAF's folders, partitions of flwr-datasets, rows with a client, a file a client: clients and samples are theirs."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from fedselect.data import Federation, leaf, load_data, npz_folder
from fedselect.data.sources import CHARACTERS
from fedselect.errors import ConfigError, DataError
from fedselect.selectors import Uniform

RNG = np.random.default_rng(5)


def leaf_file(folder, name, users):
    """Write a file as LEAF's preprocessing does."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    table = {"users": list(users), "num_samples": [len(y) for _, y in users.values()], "user_data": data}
    (folder / name).write_text(json.dumps(table), encoding="utf-8")


def rows(n, d):
    return RNG.random((n, d)).round(3).tolist()


@pytest.fixture
def femnist(tmp_path):
    """Three writers in two files, each with a test."""
    root = tmp_path / "femnist" / "data"
    train = {"f0": (rows(4, 784), [3, 61, 0, 1]), "f1": (rows(2, 784), [7, 7]), "f2": (rows(3, 784), [9, 10, 11])}
    leaf_file(root / "train", "a.json", {name: train[name] for name in ("f1", "f0")})
    leaf_file(root / "train", "b.json", {"f2": train["f2"]})
    leaf_file(root / "test", "a.json", {name: (rows(k, 784), [k] * k) for name, k in (("f0", 1), ("f1", 2), ("f2", 3))})
    return root.parent, train


def test_writers_of_femnist_are_clients_with_their_tests(femnist):
    root, train = femnist
    federation = leaf(data_path=str(root))
    assert (len(federation), federation.classes, federation.sizes.tolist()) == (3, 62, [4, 2, 3])
    for client, (x, y) in enumerate(train[name] for name in sorted(train)):
        np.testing.assert_allclose(federation.datasets[client].features.reshape(len(x), -1), x, rtol=1e-6)
        assert federation.datasets[client].labels.tolist() == y
    assert federation.datasets[0].shape == (1, 28, 28)
    assert [len(test) for test in federation.client_tests] == [1, 2, 3]
    assert federation.test.labels.tolist() == [1, 2, 2, 3, 3, 3]


def test_some_users_are_drawn_and_keep_validation_samples(femnist):
    root, _ = femnist
    some = load_data("leaf", data_path=str(root / "data"), n_clients=2, validation_fraction=0.5, seed=3)
    again = load_data("leaf", data_path=str(root / "data"), n_clients=2, validation_fraction=0.5, seed=3)
    assert len(some) == len(some.validation) == len(some.client_tests) == 2
    assert [a.labels.tolist() for a in some.datasets] == [a.labels.tolist() for a in again.datasets]
    assert len(some.test) == sum(map(len, some.client_tests))
    with pytest.raises(DataError, match="has 3 clients; 4 were asked for"):
        leaf(data_path=str(root), n_clients=4)


def test_where_users_are_split_the_test_set_is_of_other_users(tmp_path):
    leaf_file(tmp_path / "train", "x.json", {"a": (rows(3, 60), [0, 1, 2])})
    leaf_file(tmp_path / "test", "x.json", {"b": (rows(2, 60), [4, 1])})
    federation = leaf(data_path=str(tmp_path))
    assert (federation.classes, federation.client_tests, federation.test.labels.tolist()) == (5, (), [4, 1])
    assert federation.datasets[0].shape == (60,)


def test_next_characters_of_shakespeare(tmp_path):
    line = "To be, or not to be: that is the question, whether 'tis nobler in the mind to s"[:80].ljust(80)
    users = {"HAMLET": ([line, line[1:] + "u"], ["u", "f"])}
    leaf_file(tmp_path / "train", "x.json", users)
    leaf_file(tmp_path / "test", "x.json", users)
    federation = leaf(data_path=str(tmp_path))
    features, labels = federation.datasets[0].features, federation.datasets[0].labels
    assert "".join(CHARACTERS[int(place)] for place in features[0]) == line
    assert [CHARACTERS[label] for label in labels] == ["u", "f"]
    assert len(set(CHARACTERS)) == len(CHARACTERS) == 80


def test_tweets_of_sent140(tmp_path):
    def tweet(text):
        return ["1", "Mon", "NO_QUERY", "me", text, "training"]

    users = {"me": ([tweet("good good day"), tweet("bad day")], ["4", "0"])}
    leaf_file(tmp_path / "train", "x.json", users)
    leaf_file(tmp_path / "test", "x.json", users)
    federation = leaf(data_path=str(tmp_path), text_features=64)
    assert federation.datasets[0].features.shape == (2, 64)
    assert federation.datasets[0].features.sum(axis=1).tolist() == [3, 2]
    assert federation.datasets[0].labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"users": ["a"], "user_data": {"a": {"x": [[1.0', "cannot read"),
        ("[1, 2]", "is no file of LEAF"),
        ('{"users": [], "user_data": {}}', "no file has a user"),
        ('{"users": ["a"], "user_data": {}}', "user 'a' needs lists x and y"),
        ('{"users": ["a"], "user_data": {"a": {"x": [], "y": []}}}', "one at least"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1], [2]], "y": [0]}}}', "of as many entries"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1], [2, 3]], "y": [0, 0]}}}', "rows of numbers"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": ["cat"]}}}', "labels whole numbers from 0"),
        (
            '{"users": ["a"], "num_samples": 1, "user_data": {"a": {"x": [[1]], "y": [0]}}}',
            "as many numbers as users",
        ),
        ('{"users": ["a"], "num_samples": [], "user_data": {"a": {"x": [[1]], "y": [0]}}}', "as many numbers as users"),
        ('{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[1]], "y": [0]}}}', "has 1 samples, and .* 2"),
        ('{"users": ["a"], "num_samples": ["?"], "user_data": {"a": {"x": [[1]], "y": [0]}}}', "num_samples says '.'"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": [4000000000]}}}', "at most 1048576 classes"),
        ('{"users": ["a"], "user_data": {"a": {"x": ["é"], "y": ["a"]}}}', "has no character 'é'"),
        ('{"users": ["a"], "user_data": {"a": {"x": [["1", "", "", "", "hi"]], "y": ["2"]}}}', "a label of Sent140"),
    ],
)
def test_damaged_files_are_a_sentence(tmp_path, text, sentence):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=sentence):
        leaf(data_path=str(tmp_path))


def test_tests_of_another_shape_are_a_sentence(tmp_path):
    leaf_file(tmp_path / "train", "x.json", {"a": (rows(2, 3), [0, 1])})
    leaf_file(tmp_path / "test", "x.json", {"a": (rows(2, 4), [0, 1])})
    with pytest.raises(DataError, match=r"user 'a' \(test\): samples have shape \(4,\), and \(3,\) in training"):
        leaf(data_path=str(tmp_path))


def test_folders_without_files_are_a_sentence(tmp_path):
    with pytest.raises(DataError, match="holds no folder train"):
        leaf(data_path=str(tmp_path))
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match=r"holds no \.json file"):
        leaf(data_path=str(tmp_path))


# -- tables --------------------------------------------------------------------------------------------------------


def frame(n=60):
    owner = np.array(["ann", "bob", "cid"])[np.arange(n) % 3]
    return pd.DataFrame(
        {"who": owner, "a": np.arange(n) / 4, "b": -np.arange(n) / 2, "y": np.where(owner == "bob", "no", "yes")}
    )


def test_rows_of_pandas_that_say_whose_they_are():
    table = frame()
    federation = Federation.from_rows(table, client="who", label="y", test_fraction=0.25, seed=1)
    assert (len(federation), federation.classes) == (3, 2)
    assert federation.sizes.tolist() == [15, 15, 15]
    assert len(federation.test) == 15
    assert federation.label_counts.tolist() == [[0, 15], [15, 0], [0, 15]]  # "no" is 0, "yes" 1
    every = np.concatenate([*(part.features for part in federation.datasets), federation.test.features])
    assert sorted(every[:, 0]) == sorted(table["a"])
    given = Federation.from_rows(table, client="who", label="y", features=["b"], test=frame(6))
    assert given.sizes.tolist() == [20, 20, 20]
    np.testing.assert_allclose(given.test.features[:, 0], frame(6)["b"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"client": "owner"}, "has no column 'owner'"),
        ({"label": "z"}, "has no column 'z'"),
        ({"features": ["who"]}, "column 'who' holds no numbers"),
        ({"features": []}, "has no column of features"),
        ({"test_fraction": 0.0}, "test_fraction must lie between 0 and 1"),
    ],
)
def test_bad_tables_are_a_sentence(change, sentence):
    with pytest.raises((DataError, ConfigError), match=sentence):
        Federation.from_rows(frame(), **{"client": "who", "label": "y"} | change)
    with pytest.raises(DataError, match="rows must be a frame of pandas or a data set"):
        Federation.from_rows([1, 2], client="who", label="y")


def test_a_row_without_a_label_is_a_sentence():
    table = frame()
    for missing in (None, np.nan, pd.NA):
        table["y"] = ["yes", "no", "no", missing] + ["nan"] * 56
        with pytest.raises(DataError, match="client ann: row 1 has no label in column 'y'"):
            Federation.from_rows(table, client="who", label="y")
        with pytest.raises(DataError, match="the test set: row 3 has no label in column 'y'"):
            Federation.from_rows(frame(), client="who", label="y", test=table)
    table["y"] = "nan"  # a word
    assert Federation.from_rows(table, client="who", label="y").classes == 1


def test_partitions_and_rows_of_hugging_face(tmp_path):
    """The partitioners of flwr-datasets, on a local data set; and a data set read from disk."""
    datasets = pytest.importorskip("datasets")
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    pixels = RNG.integers(0, 256, (200, 8, 8), dtype=np.uint8)
    labels = np.arange(200) % 4
    writers = [f"w{k % 5}" for k in range(200)]
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=4), "writer": datasets.Value("string")}
    )
    from PIL import Image

    table = datasets.Dataset.from_dict(
        {"image": [Image.fromarray(each) for each in pixels], "label": labels, "writer": writers}, features=features
    )
    tried = 0
    for partitioner, clients in (
        (partitioners.DirichletPartitioner(6, "label", 0.5, min_partition_size=3, seed=1), 6),
        (partitioners.PathologicalPartitioner(4, "label", 2, seed=1), 4),
        (partitioners.NaturalIdPartitioner("writer"), 5),
        (partitioners.SizePartitioner([20, 80, 100]), 3),
    ):
        partitioner.dataset = table
        federation = Federation.from_partitioner(partitioner)
        assert len(federation) == clients
        sizes = [len(partitioner.load_partition(k)) for k in range(clients)]
        assert federation.sizes.sum() + len(federation.test) == sum(sizes) == 200
        assert federation.datasets[0].shape == (1, 8, 8)
        every = np.concatenate([*(part.features for part in federation.datasets), federation.test.features])
        np.testing.assert_allclose(sorted(every.sum(axis=(1, 2, 3))), sorted(pixels.sum(axis=(1, 2)) / 255), rtol=1e-5)
        tried += 1
    assert tried == 4
    table.save_to_disk(tmp_path / "disk")
    read = datasets.load_from_disk(tmp_path / "disk")
    natural = Federation.from_rows(read, client="writer", label="label", features="image")
    assert natural.sizes.tolist() == [32] * 5
    words = table.remove_columns("label").add_column("label", [f"l{k}" for k in labels])
    partitioner = partitioners.IidPartitioner(3)
    partitioner.dataset = words
    assert Federation.from_partitioner(partitioner).classes == 4
    with pytest.raises(DataError, match="has no column 'img'"):
        Federation.from_partitioner(partitioner, features="img")


def test_other_partitioners_are_a_sentence():
    class Beyond:
        num_partitions = 2

        def load_partition(self, number):
            raise ValueError(f"partition {number} is beyond the range")

    with pytest.raises(DataError, match="partitioner must have num_partitions and load_partition"):
        Federation.from_partitioner([1, 2])
    with pytest.raises(DataError, match="cannot be used: ValueError: partition 0 is beyond the range"):
        Federation.from_partitioner(Beyond())

    class NoColumn(Beyond):
        @property
        def num_partitions(self):
            raise ValueError("column (z) is not in the table")

    with pytest.raises(DataError, match=r"cannot be used: ValueError: column \(z\) is not in the table"):
        Federation.from_partitioner(NoColumn())
    Beyond.num_partitions = 0
    with pytest.raises(DataError, match="there is no partition"):
        Federation.from_partitioner(Beyond())


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_file_a_client(tmp_path):
    for name, n in (("b", 6), ("a", 10)):
        np.savez(tmp_path / f"{name}.npz", features=np.full((n, 3), n, dtype=np.float32), labels=np.arange(n) % 2)
    federation = npz_folder(data_path=str(tmp_path))
    assert federation.sizes.tolist() == [8, 5]  # a, then b; two and one of them test
    assert federation.datasets[0].features[0].tolist() == [10.0] * 3
    assert npz_folder(data_path=str(tmp_path), n_clients=1).sizes.sum() in (8, 5)
    np.savez(tmp_path / "test.npz", features=np.zeros((2, 3)), labels=[0, 1])
    assert npz_folder(data_path=str(tmp_path)).sizes.tolist() == [10, 6]
    np.savez(tmp_path / "c.npz", features=np.zeros((2, 3)))
    with pytest.raises(DataError, match="has no array 'labels'"):
        npz_folder(data_path=str(tmp_path))
    (tmp_path / "test.npz").unlink()
    for features, labels, sentence in (
        (np.zeros((2, 3)), [0, 1, 1], r"client 2 has features of shape \(2, 3\) and labels of \(3,\)"),
        (np.zeros(()), 4, r"client 2 has features of shape \(\) and labels of \(\)"),
        (np.zeros((2, 4)), [0, 1], r"client 0's is \(3,\), and client 2's \(4,\)"),
    ):
        np.savez(tmp_path / "c.npz", features=features, labels=labels)
        with pytest.raises(DataError, match=sentence):
            npz_folder(data_path=str(tmp_path))
    (tmp_path / "c.npz").write_bytes(pickle.dumps(Uniform(2)))
    with pytest.raises(DataError, match="cannot read"):
        npz_folder(data_path=str(tmp_path))
    with pytest.raises(DataError, match=r"holds no \.npz file of a client"):
        npz_folder(data_path=str(tmp_path / "none"))


def test_seeds_below_0_are_sentences(femnist, tmp_path):
    np.savez(tmp_path / "a.npz", features=RNG.random((8, 2)), labels=np.arange(8) % 2)
    table = pd.DataFrame({"who": ["a", "b"] * 8, "x": RNG.random(16), "y": [0, 1] * 8})
    for call in (
        lambda: leaf(data_path=str(femnist[0]), seed=-1),
        lambda: npz_folder(data_path=str(tmp_path), seed=-1),
        lambda: Federation.from_rows(table, client="who", label="y", seed=-1),
    ):
        with pytest.raises(DataError, match="seed must be a non-negative integer; got -1"):
            call()
