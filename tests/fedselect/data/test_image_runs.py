"""Runs from files in the real formats: from the command's data set name to a finished folder.

The sizes are small here; ``tests/benchmarks/bench_images.py`` writes files as large as the real ones, and times them.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from fedselect.experiments import Choice, Experiment, read_records, run
from fedselect.training.settings import TrainingSettings
from tests.fedselect.data import test_images
from tests.fedselect.data.test_images import write
from tests.thoroughly import few_of

if find_spec("torchvision") is None:  # importing it takes seconds, which only a test that runs should
    pytest.skip("torchvision is not installed", allow_module_level=True)

#: The papers' models, and training and test images in the real files.
REAL = {
    "mnist": ("cnn-fashion", 60_000, 10_000),
    "fashion-mnist": ("cnn-fashion", 60_000, 10_000),
    "emnist-letters": ("cnn-emnist", 124_800, 20_800),
    "cifar10": ("cnn-cifar", 50_000, 10_000),
    "cifar100": ("cnn-fedau-cifar100", 50_000, 10_000),
}


def experiment(name, root, clients, rounds):
    model, *_ = REAL[name]
    return Experiment(
        name=name,
        rounds=rounds,
        clients_per_round=2,
        data=Choice(name, {"root": str(root), "n_clients": clients, "partition": "iid", "validation_fraction": 0.1}),
        selector=Choice("power-of-choice", {"convention": "fedgs"}),
        training=TrainingSettings(model, local_steps=2, batch_size=16, learning_rate=0.05),
    )


@pytest.mark.parametrize("name", few_of(sorted(REAL, key=lambda name: name not in ("mnist", "cifar10")), 2))
def test_a_run_from_files(name, tmp_path, monkeypatch):
    monkeypatch.setattr(test_images, "TRAIN", 260)
    monkeypatch.setattr(test_images, "TEST", 52)
    write(name, tmp_path, monkeypatch)
    records = read_records(run(experiment(name, tmp_path, 4, 2), tmp_path / "runs", plots=False))
    assert len(records) == 2
    assert all(np.isfinite(record["loss"]) and len(record["returned"]) == 2 for record in records)
