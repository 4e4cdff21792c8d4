"""A data set of one's own, ``letters``: written by fonts, a stand-in for EMNIST letters that needs no download.

A builder in `DATASETS` makes it known by its name: importing this module does, and ``fedselect run --load`` of it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedselect.data import DATASETS, Federation
from fedselect.data.images import Pictures, federation_of
from fedselect.errors import ConfigError
from fedselect.options import check_number
from fedselect.randomness import generator

#: Faces of DejaVu, STIX and Computer Modern, all free to use and to pass on, as files of Matplotlib's.
FACES = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique",
    "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic",
    "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta",
    "cmr10", "cmss10", "cmtt10", "cmb10",
)  # fmt: skip
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: Pixels of a drawn glyph and of an image.
_GLYPH, _SIDE = 56, 28
#: Images computed at a time.
_BLOCK = 2000


@DATASETS.register("letters")
def letters(
    *,
    n_clients: int = 100,
    partition: str = "primary-label",
    images: int = 50_000,
    test_images: int = 10_000,
    noise: float = 0.25,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split written letters (28 x 28 grey images, 26 classes) over clients: a stand-in for EMNIST letters.

    The images are made, not photographed: a letter of either case in one of 19 typefaces is turned by up to 20 degrees,
    slanted, stretched, shifted, bent along two waves, thinned or thickened, and gets Gaussian noise. They are the same
    whatever ``seed`` and partition are, as far as Pillow draws fonts alike. Case and face are not labelled, as in
    EMNIST letters. What is learned from them is no statement about handwriting.

    Parameters
    ----------
    n_clients : int
        Number of clients.
    partition : str
        Name in `fedselect.data.PARTITIONS`; ``options`` are its options.
    images, test_images : int
        Images that are split, and in the server's test set; equally many of each letter, but for rounding.
    noise : float
        Standard deviation of the noise, where ink is 1 and paper 0; in [0, 10].
    validation_fraction : float
        Share of each client's own samples that it holds out of training, rounded down.
    seed : int
        Seed of the split.

    Returns
    -------
    Federation
        Features of shape (n, 1, 28, 28), normalised as MNIST's are.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range or the split cannot be made.
    """
    if images < len(ALPHABET) or test_images < 1:
        raise ConfigError(f"letters needs an image of each of 26 letters, and one to test; got {images}, {test_images}")
    check_number("letters: noise", noise, 0, 10)
    train, test = (
        Pictures(*_written(count, noise, which), (0.1307,), (0.3081,))
        for which, count in enumerate((images, test_images))
    )
    return federation_of(
        "letters", (train, test), len(ALPHABET), n_clients, partition, validation_fraction, seed, options
    )


@lru_cache(maxsize=4)
def _written(count: int, noise: float, which: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (count, 1, 28, 28) and labels; ``which`` tells the training from the test images."""
    rng, glyphs = generator(which, "data", client=26), _glyphs()
    labels = rng.permutation(np.arange(count) % len(ALPHABET))
    drawn = np.empty((count, 1, _SIDE, _SIDE), dtype=np.uint8)
    for start in range(0, count, _BLOCK):
        own = labels[start : start + _BLOCK]
        kinds = rng.integers(glyphs.shape[1], size=own.size)
        ink = _bent(glyphs[own, kinds], rng) ** rng.uniform(0.5, 2.0, size=(own.size, 1, 1))
        ink += noise * rng.standard_normal(ink.shape)
        drawn[start : start + _BLOCK, 0] = np.rint(255 * np.clip(ink, 0, 1))
    drawn.setflags(write=False)
    labels.setflags(write=False)
    return drawn, labels


def _bent(glyphs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float64]:
    """Each glyph (n, 56, 56) seen through an affine map and two waves of its own: (n, 28, 28), ink in [0, 1]."""
    n = len(glyphs)
    turn, slant = rng.uniform(-0.35, 0.35, n), rng.uniform(-0.3, 0.3, n)
    wide, high = rng.uniform(0.75, 1.25, n), rng.uniform(0.75, 1.25, n)  # of the glyph seen: larger is smaller ink
    right, down = rng.uniform(-0.15, 0.15, (2, n))
    waves, phases = rng.uniform(0, 0.06, (2, n)), rng.uniform(0, 2 * np.pi, (2, n))
    grid = (np.arange(_SIDE) + 0.5) / _SIDE * 2 - 1
    y, x = (each[None] for each in np.meshgrid(grid, grid, indexing="ij"))
    cos, sin = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
    column, row = (each[:, None, None] for each in (right, down))
    u = wide[:, None, None] * (cos * x + (sin + slant[:, None, None]) * y) + column
    v = high[:, None, None] * (cos * y - sin * x) + row
    u = u + waves[0][:, None, None] * np.sin(3 * v + phases[0][:, None, None])
    v = v + waves[1][:, None, None] * np.sin(3 * u + phases[1][:, None, None])
    return _interpolated(glyphs, (v + 1) / 2 * _GLYPH - 0.5, (u + 1) / 2 * _GLYPH - 0.5)


def _interpolated(
    pictures: NDArray[np.float32], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bilinear values of each picture at its own places; 0 outside."""
    side = pictures.shape[1]
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    below, beyond = rows - top, columns - left
    which = np.arange(len(pictures))[:, None, None]
    found = np.zeros(rows.shape)
    for i, vertical in ((top, 1 - below), (top + 1, below)):
        for j, horizontal in ((left, 1 - beyond), (left + 1, beyond)):
            inside = (i >= 0) & (i < side) & (j >= 0) & (j < side)
            values = pictures[which, np.clip(i, 0, side - 1), np.clip(j, 0, side - 1)]
            found += np.where(inside, values * vertical * horizontal, 0.0)
    return found


@lru_cache(maxsize=1)
def _glyphs() -> NDArray[np.float32]:
    """Every letter in every face and both cases, centred: (26, 38, 56, 56), ink in [0, 1]."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    drawn = np.zeros((len(ALPHABET), 2 * len(FACES), _GLYPH, _GLYPH), dtype=np.float32)
    for place, face in enumerate(FACES):
        font = ImageFont.truetype(str(folder / f"{face}.ttf"), 40)
        for label, letter in enumerate(ALPHABET):
            for case, text in enumerate((letter, letter.lower())):
                picture = Image.new("L", (_GLYPH, _GLYPH))
                left, top, right, bottom = font.getbbox(text)
                corner = ((_GLYPH - left - right) / 2, (_GLYPH - top - bottom) / 2)
                ImageDraw.Draw(picture).text(corner, text, fill=255, font=font)
                drawn[label, 2 * place + case] = np.asarray(picture, dtype=np.float32) / 255
    return drawn
