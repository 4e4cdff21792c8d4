"""Image sets: small files in their real formats, read through torchvision, normalised, and kept from the test set."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
from importlib.util import find_spec
from urllib.error import URLError

import numpy as np
import pytest

from fedselect.data import DATASETS, cinic10, load_data
from fedselect.errors import ConfigError, DataError
from fedselect.experiments import read_config

if find_spec("torchvision") is None:  # importing it takes seconds, which only a test that runs should
    pytest.skip("torchvision is not installed", allow_module_level=True)

TRAIN, TEST = 60, 20
CLASSES = {
    "mnist": 10,
    "fashion-mnist": 10,
    "emnist-letters": 26,
    "cifar10": 10,
    "cifar100": 100,
    "svhn": 10,
    "cinic10": 10,
}
MEANS = {
    "mnist": ((0.1307,), (0.3081,)),
    "fashion-mnist": ((0.1307,), (0.3081,)),
    "emnist-letters": ((0.1307,), (0.3081,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "cinic10": ((0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587)),
}


def idx(path, array, zipped):
    """Write an array of bytes as MNIST's files are: 0, 0, type 8, dimensions, big-endian sizes, bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    content = head + array.astype(np.uint8).tobytes()
    if zipped:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write(name, root, monkeypatch, zipped=False):
    """Write a small set of random images in the format of ``name``; return (images, labels) of each part."""
    rng = np.random.default_rng(7)
    shape = (1, 28, 28) if "mnist" in name else (3, 32, 32)
    classes = CLASSES[name]
    parts = {}
    for part, size in (("train", TRAIN), ("test", TEST)):
        images = rng.integers(256, size=(size, *shape), dtype=np.uint8)
        labels = np.arange(size) % classes
        if name == "cinic10":
            labels = np.sort(labels)  # a folder is read class by class
        parts[part] = (images, labels)
    if "mnist" in name:
        folder = root / {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "emnist-letters": "EMNIST"}[name] / "raw"
        for part, (images, labels) in parts.items():
            stem = f"emnist-letters-{part}" if classes == 26 else {"train": "train", "test": "t10k"}[part]
            idx(folder / f"{stem}-images-idx3-ubyte", images[:, 0], zipped)
            idx(folder / f"{stem}-labels-idx1-ubyte", labels + (classes == 26), zipped)
    elif name.startswith("cifar"):
        write_cifar(name, root, parts, monkeypatch)
    elif name == "svhn":
        from scipy.io import savemat

        (root / "SVHN").mkdir(parents=True)
        sums = {}
        for part, (images, labels) in parts.items():
            file = root / "SVHN" / f"{part}_32x32.mat"
            named = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]  # digit 0 is called 10
            savemat(file, {"X": images.transpose(2, 3, 1, 0), "y": named})
            sums[part] = hashlib.md5(file.read_bytes()).hexdigest()
        from torchvision.datasets import SVHN

        known = {part: ["no address", f"{part}_32x32.mat", sums[part]] for part in parts}
        monkeypatch.setattr(SVHN, "split_list", known)
    else:
        from PIL import Image

        names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
        for part, (images, labels) in parts.items():
            for label in names:
                (root / "cinic-10" / part / label).mkdir(parents=True)
            for place, (pixels, label) in enumerate(zip(images, labels, strict=True)):
                path = root / "cinic-10" / part / names[label] / f"image-{place:04}.png"
                Image.fromarray(pixels.transpose(1, 2, 0)).save(path)
    return parts


def write_cifar(name, root, parts, monkeypatch):
    """CIFAR's pickles; torchvision's list of checksums is replaced by that of these files."""
    import torchvision.datasets

    kind = getattr(torchvision.datasets, name.upper())
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    key = "labels" if name == "cifar10" else "fine_labels"

    def dump(file, content):
        (folder / file).write_bytes(pickle.dumps(content, protocol=2))
        return [file, hashlib.md5((folder / file).read_bytes()).hexdigest()]

    lists = {}
    for part, known in (("train", kind.train_list), ("test", kind.test_list)):
        images, labels = parts[part]
        rows = np.array_split(np.arange(len(labels)), len(known))
        lists[part] = [
            dump(file, {"data": images[own].reshape(own.size, -1), key: labels[own].tolist()})
            for (file, _), own in zip(known, rows, strict=True)
        ]
    names = [str(label) for label in range(CLASSES[name])]
    meta, md5 = dump(kind.meta["filename"], {kind.meta["key"]: names})
    monkeypatch.setattr(kind, "train_list", lists["train"])
    monkeypatch.setattr(kind, "test_list", lists["test"])
    monkeypatch.setattr(kind, "meta", {"filename": meta, "key": kind.meta["key"], "md5": md5})


def normalised(name, images):
    """What torchvision's ToTensor and Normalize make of the images."""
    import torch
    from torchvision.transforms import v2

    scaled = v2.functional.to_dtype(torch.from_numpy(images), torch.float32, scale=True)
    return v2.functional.normalize(scaled, *map(list, MEANS[name])).numpy()


@pytest.mark.parametrize("name", CLASSES)
def test_sets_are_read_normalised_and_split(name, tmp_path, monkeypatch):
    """Every training sample is with one client, with its label; the test set is the official one alone."""
    parts = write(name, tmp_path, monkeypatch)
    federation = load_data(name, root=str(tmp_path), n_clients=7, partition="iid")
    assert federation.name == name
    assert federation.classes == CLASSES[name]
    assert federation.test.features.dtype == np.float32
    assert np.allclose(federation.test.features, normalised(name, parts["test"][0]), atol=1e-5)
    assert np.array_equal(federation.test.labels, parts["test"][1])
    features = np.concatenate([samples.features for samples in federation.datasets])
    labels = np.concatenate([samples.labels for samples in federation.datasets])
    expected = normalised(name, parts["train"][0])
    order, wanted = (np.lexsort(each[:, 0, 0, :8].T) for each in (features, expected))
    assert np.allclose(features[order], expected[wanted], atol=1e-5)
    assert np.array_equal(labels[order], parts["train"][1][wanted])
    assert federation.validation == ()


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "emnist-letters"])
def test_packed_files_are_unpacked(name, tmp_path, monkeypatch):
    parts = write(name, tmp_path, monkeypatch, zipped=True)
    federation = load_data(name, root=str(tmp_path), n_clients=3, partition="iid")
    assert np.array_equal(federation.test.labels, parts["test"][1])


def test_fashion_mnist_as_in_fedgs(tmp_path, monkeypatch):
    """Two labels a client, and a fifth of each client's samples set aside."""
    write("fashion-mnist", tmp_path, monkeypatch)
    federation = load_data("fashion-mnist", root=str(tmp_path), n_clients=5, validation_fraction=0.2)
    for kept, held in zip(federation.datasets, federation.validation, strict=True):
        assert (len(kept), len(held)) == (10, 2)
        assert np.unique(np.concatenate([kept.labels, held.labels])).size == 2
        assert not (kept.features[:, None] == held.features[None]).all(axis=(2, 3, 4)).any()
    with pytest.raises(DataError, match=r"validation_fraction must lie in \[0, 1\); got 1.0"):
        load_data("fashion-mnist", root=str(tmp_path), n_clients=6, validation_fraction=1.0)


@pytest.mark.parametrize(("swapped", "swaps"), [("second", (False, True)), ("both", (True, True))])
def test_swapped_mnist_renames_two_pairs_of_labels_in_a_group(tmp_path, monkeypatch, swapped, swaps):
    parts = write("mnist", tmp_path, monkeypatch)
    federation = load_data("swapped-mnist", root=str(tmp_path), n_clients=4, swapped=swapped)
    assert np.bincount(federation.groups).tolist() == [2, 2]

    def originals(samples, part):
        """The label each image has in the files."""
        images, labels = parts[part]
        known = normalised("mnist", images).reshape(len(images), -1)
        return [int(labels[np.abs(known - image.ravel()).sum(axis=1).argmin()]) for image in samples.features]

    names = [dict(enumerate(range(10))) for _ in swaps]
    for samples, group in zip(federation.datasets, federation.groups, strict=True):
        names[group] |= zip(originals(samples, "train"), samples.labels.tolist(), strict=True)
    for samples, group in zip(federation.datasets, federation.groups, strict=True):
        assert samples.labels.tolist() == [names[group][label] for label in originals(samples, "train")]
    for own, swap in zip(names, swaps, strict=True):
        moved = {a: b for a, b in own.items() if a != b}
        assert len(moved) == (4 if swap else 0)
        assert all(moved[b] == a for a, b in moved.items())
    tested = list(zip(originals(federation.test, "test"), federation.test.labels.tolist(), strict=True))
    assert len(tested) == TEST
    assert all(label in (names[0][original], names[1][original]) for original, label in tested)
    assert any(label != original for original, label in tested)
    with pytest.raises(ConfigError, match="swapped must be 'second' or 'both'; got 'none'"):
        load_data("swapped-mnist", root=str(tmp_path), swapped="none")


# -- what is missing or damaged ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "folder", "file"),
    [
        ("mnist", "MNIST/raw", "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte"),
        ("fashion-mnist", "FashionMNIST/raw", "t10k-labels-idx1-ubyte"),
        ("emnist-letters", "EMNIST/raw", "emnist-letters-train-images-idx3-ubyte"),
        ("cifar10", "cifar-10-batches-py", "data_batch_1, data_batch_2"),
        ("cifar100", "cifar-100-python", "train, test, meta"),
        ("svhn", "SVHN", "train_32x32.mat, test_32x32.mat"),
        ("swapped-mnist", "MNIST/raw", "train-images-idx3-ubyte"),
    ],
)
def test_missing_files_are_named_with_their_folder(name, folder, file, tmp_path):
    with pytest.raises(DataError) as caught:
        load_data(name, root=str(tmp_path))
    message = str(caught.value)
    assert f"into {tmp_path / folder}" in message
    assert file in message
    assert "or set download = true where there is internet" in message
    assert "\n" not in message


def test_a_single_missing_file_is_named(tmp_path, monkeypatch):
    write("svhn", tmp_path, monkeypatch)
    (tmp_path / "SVHN" / "test_32x32.mat").unlink()
    with pytest.raises(DataError, match=r"SVHN \(test_32x32.mat missing\), or set download"):
        load_data("svhn", root=str(tmp_path))


def test_missing_cinic_folders_are_named(tmp_path):
    (tmp_path / "cinic-10" / "train" / "airplane").mkdir(parents=True)
    with pytest.raises(DataError, match=r"holds the folders airplane, .* of PNG images \(automobile, .* missing\)"):
        load_data("cinic10", root=str(tmp_path))


@pytest.mark.parametrize("name", ["mnist", "emnist-letters", "cifar10", "svhn"])
def test_a_download_without_internet_is_a_sentence(name, tmp_path, monkeypatch):
    import torchvision.datasets

    def offline(*arguments, **options):
        raise URLError("Temporary failure in name resolution")

    for module in ("mnist", "cifar"):
        monkeypatch.setattr(getattr(torchvision.datasets, module), "download_and_extract_archive", offline)
    monkeypatch.setattr(torchvision.datasets.svhn, "download_url", offline)
    with pytest.raises(DataError, match=rf"{name} could not be downloaded \(.*\): put the files .* into {tmp_path}"):
        load_data(name, root=str(tmp_path), download=True)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "MNIST/raw/train-images-idx3-ubyte"),
        ("cifar10", "cifar-10-batches-py/data_batch_3"),
        ("cifar100", "cifar-100-python/meta"),
        ("svhn", "SVHN/test_32x32.mat"),
    ],
)
def test_damaged_files_are_a_sentence(name, file, tmp_path, monkeypatch):
    write(name, tmp_path, monkeypatch)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=f"{name} in .* cannot be read; a file is damaged"):
        load_data(name, root=str(tmp_path), partition="iid", n_clients=3)


def test_a_damaged_archive_is_a_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch):
    write("mnist", tmp_path, monkeypatch, zipped=True)
    packed = tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:100])
    for _ in range(2):
        with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz cannot be unpacked"):
            load_data("mnist", root=str(tmp_path))


def test_labels_and_images_must_be_as_many(tmp_path, monkeypatch):
    write("mnist", tmp_path, monkeypatch)
    idx(tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte", np.arange(TRAIN - 1) % 10, zipped=False)
    with pytest.raises(DataError, match="60 images need as many labels; got 59"):
        load_data("mnist", root=str(tmp_path))


def test_cinic_pictures_of_another_size_are_a_sentence(tmp_path, monkeypatch):
    from PIL import Image

    write("cinic10", tmp_path, monkeypatch)
    Image.new("RGB", (16, 32)).save(tmp_path / "cinic-10" / "train" / "dog" / "small.png")
    with pytest.raises(DataError, match=r"small.png is 16 x 32 pixels; CINIC-10's are 32 x 32"):
        load_data("cinic10", root=str(tmp_path))
    (tmp_path / "cinic-10" / "train" / "dog" / "small.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"cinic10 in .* cannot be read"):
        load_data("cinic10", root=str(tmp_path))


# -- through a configuration ---------------------------------------------------------------------------------------


def test_a_configuration_reaches_a_set_and_its_partition(tmp_path, monkeypatch):
    write("cifar10", tmp_path, monkeypatch)
    path = tmp_path / "c.toml"
    path.write_text(
        f'[experiment]\nclients_per_round = 2\n[data]\nname = "cifar10"\nroot = {str(tmp_path)!r}\nn_clients = 5\n'
        'partition = "fedss"\nratio = 0.5\n'
    )
    experiment, _ = read_config(path)
    assert len(experiment.federation()) == 5
    for override, sentence in (
        ("data.ratios=0.5", "no option 'ratios' for data set 'cifar10' with partition 'fedss'"),
        ("data.ratio=half", "partition 'fedss': option 'ratio' must be a number; got 'half'"),
        ("data.download=1", "data set 'cifar10': option 'download' must be true or false; got 1"),
        ("data.partition=even", "there is no partition 'even'"),
        ("data.name=cifar", "there is no data set 'cifar'; did you mean 'cifar10'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            read_config(path, [override])


def test_every_data_set_has_clients_and_a_seed():
    for name in DATASETS.names:
        assert {"n_clients", "seed"} <= set(DATASETS.options(name))
        assert DATASETS.summary(name)


def test_a_cnn_trains_on_images(tmp_path, monkeypatch):
    from fedselect.experiments import run

    write("svhn", tmp_path, monkeypatch)
    path = tmp_path / "c.toml"
    path.write_text(
        f'[experiment]\nrounds = 1\nclients_per_round = 2\n[data]\nname = "svhn"\nroot = {str(tmp_path)!r}\n'
        'n_clients = 4\npartition = "iid"\n[training]\nmodel = "fedau-svhn"\nlocal_steps = 1\nbatch_size = 4\n'
    )
    folder = run(read_config(path)[0], tmp_path / "out")
    assert np.isfinite(json.loads((folder / "summary.json").read_text())["final_loss"])


def test_cinic10_has_no_download(tmp_path):
    with pytest.raises(ConfigError, match="cinic10 cannot be downloaded here: put its files in"):
        cinic10(root=str(tmp_path), download=True)
    assert "download" not in DATASETS.options("cinic10")
    assert "download" in DATASETS.options("svhn")


def test_every_image_set_documents_its_own_files_and_pickles():
    assert "``SVHN`` below it" in DATASETS["svhn"].__doc__
    assert "``MNIST/raw`` below it" in DATASETS["mnist"].__doc__
    assert pickle.loads(pickle.dumps(DATASETS["cifar10"])) is DATASETS["cifar10"]
