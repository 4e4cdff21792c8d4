"""Clients of a round on several threads: the bits do not depend on how many there are."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedselect.availability import AVAILABILITY, DROPOUT  # noqa: E402
from fedselect.data import Federation, digits  # noqa: E402
from fedselect.errors import ConfigError, DataError  # noqa: E402
from fedselect.experiments import Choice, Experiment, run  # noqa: E402
from fedselect.experiments.folder import load_checkpoint  # noqa: E402
from fedselect.selectors import Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.settings import TrainingSettings  # noqa: E402
from fedselect.training.workers import Lent  # noqa: E402

N = 10


class Net(nn.Module):
    """A small network for images; notes the threads that it runs in."""

    threads: set[int] = set()  # noqa: RUF012

    def __init__(self, drop=0.0):
        super().__init__()
        self.first, self.norm, self.drop = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Dropout(drop) if drop else None
        self.last = nn.Linear(8 * 36, 10)

    def forward(self, x):
        if self.training:
            self.threads.add(threading.get_ident())
        x = torch.relu(self.norm(self.first(x.reshape(-1, 1, 8, 8)))).flatten(1)
        return self.last(x if self.drop is None else self.drop(x))


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=N)


def loop(federation, workers, **options):
    there = AVAILABILITY.build("lognormal", federation, 4)
    back = DROPOUT.build("bernoulli", N, 4, rate=0.2)
    options["settings"] = {"local_steps": 4} | options.pop("settings", {})
    return FedAvg(federation, Uniform(7), there, dropout=back, seed=4, workers=workers, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"model": Net},
        {"model": Net, "settings": {"optimizer": "adam", "learning_rate": 0.01}},
        {"model": lambda: Net(0.3)},
        {"settings": {"batching": "never", "momentum": 0.9}},
        {"settings": {"batching": "auto"}},
        {"model": Net, "corrupt": lambda client, update, round: update * (client - 4)},
    ],
    ids=["cnn", "adam", "dropout layers", "linear", "stacked", "lying"],
)
def test_one_two_and_four_workers_give_the_same_bits(federation, options):
    runs = [loop(federation, workers, **options) for workers in (1, 2, 4)]
    played = [each.fit(3) for each in runs]
    assert len({each.weights.tobytes() for each in runs}) == 1
    for rounds in played[1:]:
        assert [done.loss for done in rounds] == [done.loss for done in played[0]]
    states = [each.state_dict() for each in runs]
    assert len({state["buffers"].tobytes() if "buffers" in state else b"" for state in states}) == 1
    assert any(done.returned.sum() > 2 for done in played[0])


class Images(nn.Module):
    """A small network whose convolutions note the strides of what they are given."""

    strides: set[tuple[int, ...]] = set()  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3), nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        if self.training:
            self.strides.add(x.stride()[1:])
        return self.last(torch.relu(self.second(x)).flatten(1))


def test_images_pixel_by_pixel_end_at_the_same_model_whatever_the_workers(federation):
    images = [(each.features.reshape(-1, 1, 8, 8), each.labels) for each in (*federation.datasets, federation.test)]
    pictures = Federation.from_tensors(images[:-1], images[-1])
    found = {}
    for memory_format, workers in (("contiguous", 1), *(("channels_last", workers) for workers in (1, 2, 4))):
        Images.strides = set()
        settings = {"memory_format": memory_format, "batch_size": 7}
        found[memory_format, workers] = played = loop(pictures, workers, model=Images, settings=settings)
        played.fit(2)
        state = played.state_dict()
        played.fit(2)
        assert Images.strides == {(36, 6, 1) if memory_format == "contiguous" else (1, 48, 8)}
        again = loop(pictures, workers, model=Images, settings=settings)
        again.load_state_dict(state)
        again.fit(2)
        assert again.weights.tobytes() == played.weights.tobytes()
    first, *others = (each.weights for each in found.values())
    assert len({each.tobytes() for each in others}) == 1
    assert np.abs(first - others[0]).max() < 1e-4
    assert np.abs(first - loop(pictures, 1, model=Images).weights).max() > 1e-2  # it has learned something


def test_a_memory_format_is_for_images_of_clients_that_train_one_by_one(federation):
    with pytest.raises(ConfigError, match=r"memory_format needs images .*; got features of \(64,\)"):
        loop(federation, 1, settings={"memory_format": "channels_last"})
    with pytest.raises(ConfigError, match="'channels_last' is for clients that train one by one"):
        TrainingSettings(memory_format="channels_last", batching="always")


def test_several_threads_are_at_work(federation):
    found = {}
    for workers in (1, 3):
        Net.threads = set()
        loop(federation, workers, model=Net, settings={"local_steps": 30}).fit(3)
        found[workers] = Net.threads
    assert found[1] == {threading.get_ident()}
    assert len(found[3] - found[1]) >= 2


def test_a_run_is_the_same_one_whatever_its_workers(tmp_path):
    experiment = Experiment(rounds=3, clients_per_round=4, data=Choice("digits", {"n_clients": N}),
                            training=TrainingSettings(batching="never"))  # fmt: skip
    other = replace(experiment, training=replace(experiment.training, workers=2))
    assert other.digest == experiment.digest
    folders = [run(each, tmp_path / name, plots=False) for each, name in ((experiment, "one"), (other, "two"))]
    weights = [load_checkpoint(folder / "checkpoint.npz")["weights"].tobytes() for folder in folders]
    assert weights[0] == weights[1]


class Broken:
    def __len__(self):
        return 6

    def __getitem__(self, place):
        raise OSError("gone")


def test_what_a_worker_raises_is_raised():
    pair = np.zeros((6, 2), dtype=np.float32), np.zeros(6, dtype=np.int64)
    lazy = Federation.from_datasets([Broken()] * 4, pair, lazy=True, classes=2)
    there = AVAILABILITY.build("ideal", lazy, 0)
    with pytest.raises(DataError, match=r"client 0: sample . cannot be read: OSError: gone"):
        FedAvg(lazy, Uniform(4), there, workers=2).step()


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_counted(federation, workers):
    with pytest.raises(ConfigError, match="training: workers must be a positive integer"):
        loop(federation, workers)


def test_updates_lie_in_the_same_memory_while_nobody_keeps_them():
    lent, like = Lent(), torch.zeros(5)
    places = {lent.tensor(rows, like).data_ptr() for rows in (3, 2, 3, 1)}
    assert len(places) == 1
    assert lent.tensor(0, like).shape == (0, 5)
    kept = lent.tensor(2, like)[1].numpy()
    kept[:] = 7
    other = lent.tensor(3, like)
    other.zero_()
    assert kept.tolist() == [7] * 5
    assert lent.tensor(3, like).shape == (3, 5)
    assert lent.tensor(1, like.double()).dtype == torch.float64


def test_what_a_selector_keeps_of_a_round_stays_as_it_was(federation):
    class Keeping(Uniform):
        kept: list = []  # noqa: RUF012

        def update(self, feedback):
            super().update(feedback)
            self.kept.append((feedback.updates, {client: row.copy() for client, row in feedback.updates.items()}))

    selector = Keeping(4)
    there = AVAILABILITY.build("ideal", federation, 0)
    FedAvg(federation, selector, there, model=Net, settings={"local_steps": 2}, workers=2).fit(3)
    assert len(selector.kept) == 3
    for now, then in selector.kept:
        assert list(now) == list(then)
        for client, row in then.items():
            assert np.abs(row).max() > 0
            assert now[client].tobytes() == row.tobytes()


#: Ten tensors of 4 MB each, thrice; what is new memory of the last time.
STEPS = """
import resource, torch
from fedselect.training.workers import keep_memory

keep_memory()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [torch.ones(1_000_000) for _ in range(10)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.thorough
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have rules of their own")
def test_memory_that_is_freed_is_used_again():
    found = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 1000  # of 9766 pages
