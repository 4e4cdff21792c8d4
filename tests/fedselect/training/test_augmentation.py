"""Crops, flips and Kaiming initialisation."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import Federation, Samples, digits
from fedselect.errors import ConfigError
from fedselect.selectors import SelectAll
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")
import torch

from fedselect.training.augmentation import crop_and_flip
from fedselect.training.fedavg import FedAvg


def test_a_batch_is_shifted_and_mirrored_as_one():
    images = torch.arange(2 * 3 * 12 * 12, dtype=torch.float32).reshape(2, 3, 12, 12) + 1
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    shifts, mirrors = set(), 0
    for seed in range(300):
        found = crop_and_flip(images, np.random.default_rng(seed)).numpy()
        plain = crop_and_flip(images, np.random.default_rng(seed), flip=False).numpy()
        mirrors += not np.array_equal(found, plain)
        assert np.array_equal(found, plain) or np.array_equal(found, plain[..., ::-1])
        places = [
            (i, j) for i in range(9) for j in range(9) if np.array_equal(padded[..., i : i + 12, j : j + 12], plain)
        ]
        assert len(places) == 1
        shifts.add(places[0])
    assert 110 < mirrors < 190
    assert len(shifts) > 70  # of 81


def pictures(channels=3):
    rng = np.random.default_rng(0)
    parts = tuple(Samples(rng.normal(size=(9, channels, 12, 12)), rng.integers(3, size=9)) for _ in range(4))
    return Federation("pictures", parts, parts[0], 3)


def loop(federation, **options):
    settings = TrainingSettings(**{"model": "mlp", "local_steps": 3, "batch_size": 4} | options)
    return FedAvg(
        federation, SelectAll("samples"), AVAILABILITY.build("ideal", federation, 1), settings=settings, seed=1
    )


def test_training_augments_repeatably_and_evaluation_does_not():
    ends = {}
    for augmentation in ("none", "crop", "crop-flip", "crop-flip again"):
        run = loop(pictures(), augmentation=augmentation.removesuffix(" again"))
        assert run.stack == (1 if augmentation != "none" else run.stack)
        start = run.losses([0, 1, 2, 3])
        run.step(evaluate=False)
        ends[augmentation] = (start, run.weights)
    assert np.array_equal(ends["crop-flip"][1], ends["crop-flip again"][1])
    assert not np.array_equal(ends["crop-flip"][1], ends["crop"][1])
    assert not np.array_equal(ends["crop"][1], ends["none"][1])
    assert np.allclose(ends["crop"][0], ends["none"][0])
    with pytest.raises(ConfigError, match=r"augmentation needs images \(channels, height, width\); got features of"):
        loop(digits(n_clients=4), augmentation="crop")
    with pytest.raises(ConfigError, match="clients that augment their images train one by one"):
        loop(pictures(), augmentation="crop", batching="always")


def test_kaiming_scales_all_layers_but_the_last():
    """784-free numbers: fan-in 432 and 500; N(0, 2/432), biases 0; last U(±1/√500), biases too."""
    options = {"model_options": {"hidden": 500}}
    kaiming, usual = (loop(pictures(), initialisation=name, **options).weights for name in ("kaiming", "fan-in"))
    first, rest = kaiming[: 432 * 500], kaiming[432 * 500 :]
    assert first.std() == pytest.approx(np.sqrt(2 / 432), rel=0.02)
    assert np.abs(first).max() > 3.5 * np.sqrt(2 / 432)  # normal, not uniform
    assert not rest[:500].any()
    last, biases = rest[500 : 500 + 1500], rest[2000:]
    assert np.abs(last).max() <= 1 / np.sqrt(500)
    assert last.std() == pytest.approx(1 / np.sqrt(3 * 500), rel=0.06)
    assert biases.all()
    assert np.abs(biases).max() <= 1 / np.sqrt(500)
    assert np.abs(usual).max() <= 1 / np.sqrt(432)
    assert not usual[-3:].any()
