"""Federations whose samples are read when they are used: from disk, of unequal shape, with a collate of one's own."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.utils.rnn import pad_sequence  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import Federation, digits  # noqa: E402
from fedselect.errors import ConfigError, DataError  # noqa: E402
from fedselect.selectors import FedGS, Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402

N = 6


class Files(Dataset):
    """Samples in files, which are read one by one; counts what it reads."""

    def __init__(self, folder, samples):
        self.paths, self.reads = [], 0
        for place in range(len(samples)):
            self.paths.append(folder / f"{place}.npz")
            np.savez(self.paths[-1], x=samples.features[place], y=samples.labels[place])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, place):
        self.reads += 1
        with np.load(self.paths[place]) as found:
            return torch.from_numpy(found["x"]), int(found["y"])


class Sequences(Dataset):
    """Sequences of 2 to 9 rows, which rise or fall."""

    def __init__(self, seed, n=20):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(2, size=n)
        self.rows = [
            torch.from_numpy(np.sort(rng.normal(size=(length, 1)), axis=0)[:: 1 - 2 * label].astype(np.float32).copy())
            for label, length in zip(self.labels, rng.integers(2, 10, size=n), strict=True)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return {"rows": self.rows[place], "label": int(self.labels[place])}


def padded(samples):
    """Inputs as a mapping: padded rows, and how many of them there are."""
    rows = pad_sequence([each["rows"] for each in samples], batch_first=True)
    lengths = torch.tensor([len(each["rows"]) for each in samples])
    return {"rows": rows, "lengths": lengths}, torch.tensor([each["label"] for each in samples])


class Ends(nn.Module):
    """Answers by the first and the last row."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(2, 2)

    def forward(self, inputs):
        rows, lengths = inputs["rows"], inputs["lengths"]
        return self.last(torch.cat([rows[:, 0], rows[torch.arange(len(rows)), lengths - 1]], dim=1))


def loop(federation, selector=None, **options):
    there = AVAILABILITY.build("ideal", federation, 1)
    return FedAvg(federation, selector or Uniform(3), there, seed=1, **options)


@pytest.fixture(scope="module")
def eager():
    return digits(n_clients=N, partition="iid").with_client_tests(0.2)


def test_lazily_read_files_train_to_the_same_bits(eager, tmp_path):
    sets = []
    for client, samples in enumerate(eager.datasets):
        (tmp_path / str(client)).mkdir()
        sets.append(Files(tmp_path / str(client), samples))
    test = TensorDataset(torch.from_numpy(eager.test.features), torch.from_numpy(eager.test.labels))
    lazy = Federation.from_datasets(sets, test, lazy=True, classes=10)
    assert not any(each.reads for each in sets)
    assert "samples, " in repr(lazy)
    assert " of " not in repr(lazy)
    kept = Federation.from_tensors(
        [(s.features, s.labels) for s in eager.datasets], (eager.test.features, eager.test.labels)
    )
    settings = {"batching": "never", "local_steps": 3, "batch_size": 7}
    runs = [loop(each, settings=settings) for each in (kept, lazy)]
    before = sum(each.reads for each in sets)
    played = [run.fit(4) for run in runs]
    assert sum(each.reads for each in sets) - before == 4 * 3 * 3 * 7
    assert np.array_equal(runs[0].weights, runs[1].weights)
    for one, other in zip(*played, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-6)
    scores = [run.client_scores() for run in runs]
    np.testing.assert_allclose(scores[0]["loss"], scores[1]["loss"], rtol=1e-5)
    np.testing.assert_array_equal(scores[0]["accuracy"], scores[1]["accuracy"])
    np.testing.assert_array_equal(lazy.label_counts, kept.label_counts)
    held = lazy.with_client_tests(0.25)
    assert [len(each) for each in held.client_tests] == [len(each) // 4 for each in lazy.datasets]
    assert loop(held, FedGS.of(held, 2)).fit(1)[0].selection.clients.size == 2


def test_samples_of_unequal_shape_with_a_collate(eager):
    """Sets and loaders alike; the loader's order and batch size are the loop's matter."""
    sets = [Sequences(seed) for seed in range(N)]
    loaders = [DataLoader(each, batch_size=3, shuffle=True, collate_fn=padded) for each in sets]
    given = [
        Federation.from_datasets(sets, Sequences(99, 40), collate_fn=padded, lazy=True, classes=2),
        Federation.from_datasets(
            loaders, loaders[0].__class__(Sequences(99, 40), collate_fn=padded), lazy=True, classes=2
        ),
    ]
    runs = [loop(each, model=Ends, metrics="f1", settings={"learning_rate": 0.5}) for each in given]
    last = [run.fit(15)[-1] for run in runs]
    assert np.array_equal(runs[0].weights, runs[1].weights)
    assert last[0].accuracy > 0.8
    assert last[0].metrics == last[1].metrics
    assert last[0].metrics["f1"] > 0.8
    assert runs[0].losses([0, 4]).shape == (2,)


class Large(Dataset):
    """A megabyte a sample, made when it is read."""

    def __len__(self):
        return 40

    def __getitem__(self, place):
        return np.full((1, 512, 512), place, dtype=np.float32), place % 2


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(1, 2)

    def forward(self, x):
        return self.last(x.mean(dim=(2, 3)))


def test_memory_is_that_of_a_batch():
    """8 clients of 40 MB each; steps of two samples take a few."""
    federation = Federation.from_datasets([Large()] * 8, [Large()[0], Large()[1]], lazy=True, classes=2)
    run = loop(federation, model=Mean, settings={"batch_size": 2, "local_steps": 2, "learning_rate": 0.001})
    run.step()
    tracemalloc.start()
    for _ in range(2):
        run.step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1 < peak / 2**20 < 12


def test_numbers_to_be_predicted():
    rng = np.random.default_rng(0)
    sets = [(x := rng.normal(size=(12, 3)), x.sum(axis=1)) for _ in range(N + 1)]
    lazy = Federation.from_datasets(sets[:N], sets[N], lazy=True)
    assert lazy.classes is None
    run = loop(lazy, model=lambda: nn.Linear(3, 1), settings={"learning_rate": 0.05})
    first, *_, last = run.fit(10)
    assert last.loss < first.loss / 2


class Broken(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, place):
        raise OSError("the disk is gone")


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


class Unequal(Dataset):
    """Samples of two, three, four numbers."""

    def __len__(self):
        return 3

    def __getitem__(self, place):
        return torch.zeros(2 + place), 0


PAIR = np.zeros((4, 2), dtype=np.float32), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Federation.from_datasets([PAIR], PAIR, lazy=True), "say how many classes there are, classes=10"),
        (lambda: Federation.from_datasets([PAIR], PAIR, collate_fn=padded), "add lazy=True"),
        (
            lambda: Federation.from_datasets([Unequal()], PAIR),
            r"sample 1's \(3,\) \(Federation.from_datasets.*lazy=True, collate_fn=.*that pads",
        ),
        (
            lambda: Federation.from_datasets([Stream()], PAIR, lazy=True, classes=2),
            "client 0 must be a data set with len",
        ),
        (
            lambda: Federation.from_datasets([DataLoader(Stream())], PAIR, lazy=True, classes=2),
            "client 0 must be .*or a DataLoader of one; got a Stream",
        ),
        (lambda: Federation.from_datasets([], PAIR, lazy=True, classes=2), "needs at least one client"),
        (lambda: Federation.from_datasets([Sequences(0, 0)], PAIR, lazy=True, classes=2), "client 0 has no sample"),
        (lambda: Federation.from_datasets(Sequences(0), PAIR, lazy=True, classes=2), "must be a list of data sets"),
    ],
)
def test_what_cannot_be_read_lazily_is_a_sentence(build, message):
    with pytest.raises(DataError, match=message):
        build()


@pytest.mark.parametrize(
    ("dataset", "collate", "message"),
    [
        (Broken(), None, r"client 0: sample \d cannot be read: OSError: the disk is gone"),
        (
            Sequences(3),
            lambda samples: (torch.zeros(len(samples), 2), torch.zeros(1).long()),
            r"samples have labels of \(1,\)",
        ),
        (Sequences(3), lambda samples: 3, r"samples make no batch.*collate_fn makes a batch \(inputs, labels\)"),
        (
            [(torch.zeros(2), 5)] * 4,
            None,
            "client 0: labels of 2 classes are whole numbers from 0 to 1, .* a batch has .5, 5",
        ),
        (
            [(torch.zeros(2 + k), 0) for k in range(4)],
            None,
            "make no batch: stack expects .*give collate_fn, which pads",
        ),
    ],
)
def test_what_fails_while_training_is_a_sentence(dataset, collate, message):
    federation = Federation.from_datasets([dataset], PAIR, lazy=True, classes=2)
    federation.datasets[0].collate = collate
    with pytest.raises(DataError, match=message):
        loop(federation, Uniform(1)).step()


def test_what_needs_all_samples_at_once_says_so():
    lazy = Federation.from_datasets([PAIR] * 3, PAIR, lazy=True, classes=2)
    with pytest.raises(ConfigError, match="whose samples are read when used train one by one; batching must not be"):
        loop(lazy, settings={"batching": "always"})
    with pytest.raises(DataError, match=r"the samples of client 1 are read when they are used .*without lazy"):
        _ = lazy.datasets[1].features
