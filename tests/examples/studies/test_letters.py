"""Letters drawn by fonts: what they are, and that they can be learned."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.data import load_data
from fedselect.errors import ConfigError
from letters import _glyphs, _interpolated


@pytest.fixture(scope="module")
def federation():
    return load_data("letters", n_clients=10, partition="iid", images=2600, test_images=520)


def test_they_are_balanced_images_and_always_the_same(federation):
    assert federation.classes == 26
    assert federation.label_counts.sum(axis=0).tolist() == [100] * 26
    assert federation.test.features.shape == (520, 1, 28, 28)
    again = load_data("letters", n_clients=5, partition="iid", images=2600, test_images=520, seed=3)
    assert np.array_equal(again.test.features, federation.test.features)
    pixels = np.sort(np.concatenate([each.features.ravel() for each in federation.datasets]))
    assert np.array_equal(pixels, np.sort(np.concatenate([each.features.ravel() for each in again.datasets])))
    train = {each.tobytes() for samples in federation.datasets for each in samples.features}
    assert len(train) == 2600  # no two alike
    assert not train & {each.tobytes() for each in federation.test.features}


def test_every_letter_has_a_glyph_in_every_face_and_case():
    glyphs = _glyphs()
    assert glyphs.shape == (26, 38, 56, 56)
    assert glyphs.sum(axis=(2, 3)).min() > 20
    assert len({glyph.tobytes() for glyph in glyphs.reshape(-1, 56, 56)}) > 0.99 * 26 * 38
    assert not glyphs[:, :, [0, -1]].any()  # nothing is cut off
    assert not glyphs[..., [0, -1]].any()


def test_interpolation_by_hand():
    pictures = np.array([[[0.0, 1.0], [2.0, 3.0]]], dtype=np.float32)
    rows, columns = np.array([[[0.0, 0.5, 1.0, -0.5, 5.0]]]), np.array([[[1.0, 0.5, 0.25, 0.0, 0.0]]])
    assert _interpolated(pictures, rows, columns)[0, 0] == pytest.approx([1.0, 1.5, 2.25, 0.0, 0.0])


def test_letters_can_be_told_apart(federation):
    """Nearest neighbours among 2 600 find most of 26 letters, and noise hides them."""
    from sklearn.neighbors import KNeighborsClassifier

    def accuracy(data):
        x = np.concatenate([each.features for each in data.datasets]).reshape(2600, -1)
        y = np.concatenate([each.labels for each in data.datasets])
        test = data.test.features.reshape(520, -1)
        return KNeighborsClassifier(3).fit(x, y).score(test, data.test.labels)

    assert accuracy(federation) > 0.25  # by guessing 0.04
    noisy = load_data("letters", n_clients=10, partition="iid", images=2600, test_images=520, noise=3.0)
    assert accuracy(noisy) < 0.15


def test_bad_options_are_sentences():
    with pytest.raises(ConfigError, match="an image of each of 26 letters, and one to test; got 25, 10"):
        load_data("letters", images=25, test_images=10)
    with pytest.raises(ConfigError, match=r"noise must lie in \[0, 10\]; got -1"):
        load_data("letters", noise=-1.0)
