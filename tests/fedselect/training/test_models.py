"""The papers' models: their sizes, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.data import Federation, Samples, digits
from fedselect.errors import ConfigError
from fedselect.training.models import MODELS

torch = pytest.importorskip("torch")


def pictures(shape, classes):
    samples = Samples(np.zeros((2, *shape)), [0, 1])
    return Federation("pictures", (samples,), samples, classes)


CIFAR, MNIST = (3, 32, 32), (1, 28, 28)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "parameters"),
    [
        ("linear", (60,), 10, {}, 610),
        ("linear", MNIST, 10, {}, 7850),
        ("mlp", (64,), 10, {"hidden": 32}, 64 * 32 + 32 + 330),
        ("cnn-cifar", CIFAR, 10, {}, 797_962),
        ("fedgs-cifar10", CIFAR, 10, {}, 797_962),
        ("e3cs-cifar10", CIFAR, 10, {"pools": 1}, 3_722_506),
        ("cnn-fashion", MNIST, 10, {}, 1_663_370),
        ("cnn-emnist", MNIST, 26, {}, 1_618_668),
        ("cnn-emnist", MNIST, 26, {"pools": 2}, 543_468),
        # conv 3 x 3: 896 + 9 248; then 2048 -> 128 -> 10; 2048 -> 256 -> 64 -> 10; 2048 -> 512 -> 256 -> 100
        ("fedau-svhn", CIFAR, 10, {}, 10_144 + 262_272 + 1_290),
        ("fedau-fashion", MNIST, 10, {}, 320 + 9_248 + 1569 * 128 + 1_290),
        ("fedau-cifar10", CIFAR, 10, {}, 10_144 + 524_544 + 16_448 + 650),
        ("fedau-cifar100", CIFAR, 100, {}, 10_144 + 1_049_088 + 131_328 + 25_700),
    ],
)
def test_models_have_the_papers_sizes_and_answer_every_class(name, shape, classes, options, parameters):
    model = MODELS.build(name, pictures(shape, classes), **options)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model(torch.zeros(2, *shape)).shape == (2, classes)


def test_fedau_drops_a_fifth_before_each_linear_layer():
    kinds = [type(layer).__name__ for layer in MODELS.build("fedau-cifar100", pictures(CIFAR, 100))]
    assert kinds[-9:] == ["Flatten", *["Dropout", "Linear", "ReLU"] * 2, "Dropout", "Linear"]
    assert {layer.p for layer in MODELS.build("fedau-cinic10", pictures(CIFAR, 10)) if hasattr(layer, "p")} == {0.2}
    without = MODELS.build("fedau-cinic10", pictures(CIFAR, 10), drop=0.0)
    assert not any(isinstance(layer, torch.nn.Dropout) for layer in without)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: MODELS.build("cnn-cifar", digits(n_clients=3)),
            r"needs images .*; digits has features of shape \(64,\)",
        ),
        (lambda: MODELS.build("cnn-cifar", pictures((3, 8, 8), 2)), "needs larger images than 8 x 8 of pictures"),
        (lambda: MODELS.build("cnn-cifar", pictures(CIFAR, 2), pools=3), "pools must be 1 or 2; got 3"),
        (lambda: MODELS.build("fedau-cinic10", pictures(CIFAR, 2), drop=1.0), r"drop must lie in \[0, 1\); got 1.0"),
    ],
)
def test_what_models_refuse_is_a_sentence(call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        call()
